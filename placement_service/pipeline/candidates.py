"""Plans of one request, judged: only a plan that keeps every rule is a candidate.

Every plan is named, verified and scored before it counts, by code that shares nothing with
the engine. A plan that breaks a rule is reported and dropped. So is a claim that does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from placement_service.entities.request import Policy, Request, Snapshot
from placement_service.entities.solution import SAME, Solution, Tier, TierName
from placement_service.entities.stages import Stage, stage
from placement_service.formulation.named_plan import NamedPlan, PlanNames
from placement_service.formulation.prepared import Prepared
from placement_service.judge.judge import Judge
from placement_service.judge.score import Score
from placement_service.judge.tolerance import Ranking
from placement_service.pipeline.stages import ReportDefect


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan that keeps every rule; the tiers of its solution are recomputed."""

    solution: Solution
    plan: NamedPlan
    score: Score


class Judging:
    """The judge of one request, and what was learned of its plans, however they were found."""

    def __init__(
        self,
        request: Request,
        judge: Callable[[Snapshot, Policy], Judge],
        elapsed: Callable[[], float],
        report_defect: ReportDefect,
    ) -> None:
        """`elapsed` are the seconds since the request arrived."""
        self.policy = request.policy
        self.judge = judge(request.snapshot, request.policy)
        self.elapsed = elapsed
        self.report_defect = report_defect
        self.ranking = Ranking(request.policy)
        #: What judging the last plan took.
        self.seconds = 0.0
        #: When a plan was first proven to be the best.
        self.proof_seconds: float | None = None
        #: Fewest domains that each gang was seen to need, in any plan that was remembered.
        self.reached: dict[int, int] = {}


class Candidates:
    """Judges the plans of one request, and knows which of two is better."""

    def __init__(self, judging: Judging, snapshot: Snapshot, prepared: Prepared) -> None:
        """`snapshot` is the request's as it was `prepared`."""
        self._judging = judging
        self._names = PlanNames(snapshot, judging.policy, prepared)

    def judged(self, solution: Solution) -> Candidate | None:
        """The candidate in a solution, None when it is refused."""
        begin = self._judging.elapsed()
        with stage(Stage.JUDGE):
            candidate = self._judged(solution)
        self._judging.seconds = self._judging.elapsed() - begin
        return candidate

    def nothing(self, solution: Solution) -> Candidate:
        """The plan in which nothing moves and no gang gets pods."""
        return self._candidate(solution, NamedPlan((), ()), self._judging.judge.score((), ()))

    def better(self, best: Candidate, solution: Solution) -> Candidate | None:
        """The candidate in a solution if it is as good as the best, else the best.

        None when it breaks a rule.
        """
        if solution.assignments == best.solution.assignments:
            return self._candidate(solution, best.plan, best.score)
        candidate = self.judged(solution)
        if candidate is None:
            return None
        return best if self.is_better(best, candidate) else candidate

    def is_better(self, one: Candidate, other: Candidate) -> bool:
        """Whether the plan of the one is better than that of the other."""
        rank = self._judging.ranking.rank
        return rank(one.score) > rank(other.score)

    def with_bounds(self, best: Candidate, other: Candidate) -> Candidate:
        """The candidate with bounds that were found with another one, as far as they hold here.

        The bound of a tier is about plans that are as good as the other one in the tiers before.
        """
        if self._judging.policy.tolerances:
            return best
        tiers = []
        holds = True
        for tier, known in zip(best.solution.tiers, other.solution.tiers, strict=True):
            bounds = [tier.bound] + [known.bound] * holds
            there = [bound for bound in bounds if bound is not None]
            tightest = (max if tier.name.minimize else min)(there, default=None)
            tiers.append(replace(tier, bound=tightest))
            worse = tier.value - known.value if tier.name.minimize else known.value - tier.value
            holds = holds and worse <= SAME
        return self._candidate(replace(best.solution, tiers=tuple(tiers)), best.plan, best.score)

    def remember(self, candidate: Candidate) -> None:
        """Notes the fewest domains that gangs need in a candidate."""
        for i, gang in enumerate(candidate.score.gangs):
            if gang.placed and gang.preferred_domains is not None:
                reached = self._judging.reached
                reached[i] = min(gang.preferred_domains, reached.get(i, gang.preferred_domains))

    def _judged(self, solution: Solution) -> Candidate | None:
        try:
            plan = self._names.plan(solution.assignments)
        except (IndexError, ValueError) as error:
            self._judging.report_defect("a plan is malformed", f"{solution.phase}: {error}")
            return None
        violations, score = self._judging.judge.judge(*plan)
        if score is None:
            self._judging.report_defect(
                "a plan breaks rules",
                f"{solution.phase}: {len(violations)} violations, first: {violations[0]}",
            )
            return None
        return self._candidate(solution, plan, score)

    def _candidate(self, solution: Solution, plan: NamedPlan, score: Score) -> Candidate:
        tiers, problem = recompute(solution.tiers, score)
        if problem:
            self._judging.report_defect("a claim is wrong", f"{solution.phase}: {problem}")
        candidate = Candidate(replace(solution, tiers=tiers), plan, score)
        self._judging.ranking.see(score)
        if self._judging.proof_seconds is None and candidate.solution.proven:
            self._judging.proof_seconds = self._judging.elapsed()
        return candidate


def recompute(claimed: Sequence[Tier], score: Score) -> tuple[tuple[Tier, ...], str]:
    """The tiers with the score's values, and what was wrong with the claim, or "".

    Bounds are kept as far as they can hold: not one that the value has already
    passed, and none after a tier whose value differs from the claim, because
    the bound of a tier is about plans that are as good in the tiers before.
    """
    claims = {tier.name: tier for tier in claimed}
    tiers = []
    problem = ""
    for name in TierName:
        value = score.value(name)
        claim = claims.get(name)
        bound = None if problem or claim is None else claim.bound
        if claim is not None and not problem:
            if abs(claim.value - value) > SAME:
                problem = f"{name.value} is {value:g}, not {claim.value:g}"
            if bound is not None:
                excess = (bound - value) if name.minimize else (value - bound)
                if excess > SAME:
                    problem = f"{name.value} is {value:g}, past its bound {bound:g}"
                    bound = None
        tiers.append(Tier(name, value, bound))
    return tuple(tiers), problem
