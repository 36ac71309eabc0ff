"""From a question to an answer: the stages, their time, and what happens when one fails.

    request -> formulate -> first answer -> verify -> search -> verify -> explain -> placement
                                              ^  in another process

Every plan is verified before it counts, by code that shares nothing with the
engine, and its tiers are recomputed from its bindings. A plan that breaks a
rule is a defect of ours: it is reported, never sent, and the last plan that
kept the rules is the answer; at worst the empty one. A bound that contradicts
what was reached is dropped. So nothing that the engine does, dying included,
makes the answer wrong or late; it can only be less good.

What the stages do is in their modules. Nothing here knows messages or gRPC.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from placement_service.entities.errors import DeadlineTooShort
from placement_service.entities.eviction import Eviction
from placement_service.entities.placement import (
    GangResult,
    Placement,
    Progress,
    Reason,
    ScopeUse,
    Stats,
    Termination,
)
from placement_service.entities.pod_assignment import count_pods
from placement_service.entities.progress import NEVER, SILENT, Interrupted, Interrupter, Observer
from placement_service.entities.request import Binding, Policy, Request, Snapshot
from placement_service.entities.solution import SAME, Assignment, Limit, Solution, Tier, TierName
from placement_service.entities.stages import Stage, stage
from placement_service.explain.request_reasons import plain_reasons
from placement_service.formulation.named_plan import NamedPlan, name_plan
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import home_plan
from placement_service.formulation.prepare import prepare
from placement_service.formulation.prepared import Prepared
from placement_service.formulation.problem import Problem
from placement_service.judge.score import GangScore, Score
from placement_service.judge.tolerance import Ranking
from placement_service.solver_process.pool import Found

logger = logging.getLogger(__name__)

#: Verifying better answers while the search goes on takes at most this share.
VERIFYING_SHARE = 0.2

#: A search shorter than this is not worth starting, in seconds.
SHORTEST_SEARCH = 0.02


class FirstAnswer(Protocol):
    def __call__(
        self, problem: Problem, previous: tuple[Assignment, ...], /, *, deadline: float
    ) -> Solution: ...


class Explain(Protocol):
    """The reasons of each gang in the snapshot's order, or as many as time allows."""

    def __call__(
        self,
        snapshot: Snapshot,
        problem: Problem,
        solution: Solution,
        score: Score,
        /,
        *,
        deadline: float,
    ) -> Sequence[Sequence[Reason]]: ...


class Search(Protocol):
    """As `pool.SolverPool.search`."""

    def __call__(
        self,
        problem: Problem,
        start: Solution,
        /,
        *,
        deadline: float,
        interrupter: Interrupter,
        report: Callable[[Solution], None],
    ) -> Found: ...


class AskSolver(Protocol):
    """As `pool.SolverPool.call`: None when there is no answer in time."""

    def __call__(
        self, function: str, argument: object, /, *, deadline: float, interrupter: Interrupter
    ) -> object | None: ...


def ask_nobody(
    function: str, argument: object, /, *, deadline: float, interrupter: Interrupter
) -> None:
    """For those who have no solver but the search."""


class Offer(Protocol):
    """Takes the best verified answer so far, for the edge to send should we be late.

    Each is complete but for explanations; the next one replaces it.
    """

    def __call__(self, placement: Placement, /) -> None: ...


def keep_none(placement: Placement, /) -> None:
    """Takes no answer before the last, for callers who wait as long as it takes."""


class ReportDefect(Protocol):
    """Takes note of a failure that is ours; returns the name of the saved request."""

    def __call__(self, what: str, detail: str, /) -> str: ...


@dataclass(frozen=True, slots=True)
class Stages:
    """What the pipeline strings together."""

    formulate: Callable[[Snapshot, Policy, Prepared], Problem]
    first_answer: FirstAnswer
    search: Search
    verify: Callable[[Snapshot, Policy, Sequence[Binding], Sequence[Eviction]], Sequence[str]]
    score: Callable[[Snapshot, Policy, Sequence[Binding], Sequence[Eviction]], Score]
    explain: Explain
    call: AskSolver = ask_nobody
    #: Name and version of what computes the answer.
    engine: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """Times on the clock of `place`, in seconds.

    `answer_by` is when the answer shall leave. Past `deadline` nobody reads it.
    """

    arrival: float
    answer_by: float
    deadline: float = float("inf")


def log_defect(what: str, detail: str, /) -> str:
    """Only logs, for callers that save nothing."""
    logger.error("%s: %s", what, detail)
    return ""


def place(
    request: Request,
    *,
    stages: Stages,
    budget: Budget,
    observer: Observer = SILENT,
    interrupter: Interrupter = NEVER,
    clock: Callable[[], float] = time.monotonic,
    report_defect: ReportDefect = log_defect,
    offer: Offer = keep_none,
) -> Placement:
    """The answer to a valid request; on the way, `offer` gets the best one so far.

    Raises DeadlineTooShort when `budget.deadline` passes before the first answer
    stands, and Interrupted when the interrupter says so.
    """
    # 1. A request that is only checked has been checked by now (see `wire`).
    if request.validate_only:
        return Placement(request.snapshot.revision, request.label)

    # 2. Names become arrays. Until then nothing is placed, and that may be said.
    offer(nothing_yet(request))
    with stage(Stage.FORMULATE):
        run = _Run(request, stages, budget, observer, interrupter, clock, report_defect, offer)
        problem = stages.formulate(request.snapshot, request.policy, run.prepared)
    run.check_time()

    # 3. A first answer, good or not, so that there is one.
    best = run.first_answer(problem)
    run.check_time()
    run.first_seconds = run.elapsed()
    run.first_tiers = best.solution.tiers
    run.offer(best)
    run.tell(best)

    # 4. Better answers, until one is proven or time is up.
    best, limit, memory = run.search(problem, best)
    if interrupter.interrupted:
        raise Interrupted

    # 5. Why the rest waits.
    run.offer(best)
    reasons = run.explain(problem, best)
    cut_short = limit in (Limit.TIME, Limit.SOLVER_LOST) or run.is_late

    # 6. One immutable answer.
    return run.placement(
        best,
        limit,
        reasons,
        memory=memory,
        deterministic=request.policy.deterministic and not cut_short,
    )


def nothing_yet(request: Request) -> Placement:
    """The empty answer, for when there is no time for any other; nothing is known of tiers."""
    gangs = request.snapshot.gangs
    running = {
        gang.name: all(group.running_count >= group.min_replicas for group in gang.groups)
        for gang in gangs
    }
    queues = {queue.name for queue in request.snapshot.queues}
    return Placement(
        revision=request.snapshot.revision,
        label=request.label,
        gangs=tuple(
            GangResult(
                gang.name,
                placed=running[gang.name],
                reasons=() if running[gang.name] else plain_reasons(gang, running, queues),
            )
            for gang in gangs
        ),
        termination=Termination(False, Limit.TIME, None, "The time limit ended the computation."),
        stats=Stats(),
    )


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A plan that keeps every rule; the tiers of its solution are recomputed."""

    solution: Solution
    plan: NamedPlan
    score: Score


class _Run:
    """One computation: what its stages share. Born and dropped in `place`."""

    def __init__(
        self,
        request: Request,
        stages: Stages,
        budget: Budget,
        observer: Observer,
        interrupter: Interrupter,
        clock: Callable[[], float],
        report_defect: ReportDefect,
        offer: Offer,
    ) -> None:
        self._request = request
        self.prepared = prepare(request.snapshot, request.policy)
        self._stages = stages
        self._budget = budget
        self._observer = observer
        self._interrupter = interrupter
        self._clock = clock
        self._report_defect = report_defect
        self._offer = offer
        #: The plan that was handed out last.
        self._offered: NamedPlan | None = None
        self.first_seconds = 0.0
        self.first_tiers: tuple[Tier, ...] = ()
        self.proof_seconds: float | None = None
        self._ranking = Ranking(request.policy)
        #: What judging a plan takes, in seconds: the last one measured.
        self._judging = 0.0
        #: Fewest domains that each gang was seen to need, in any plan that was remembered.
        self._reached: dict[int, int] = {}

    def elapsed(self) -> float:
        """Seconds since the request arrived."""
        return self._clock() - self._budget.arrival

    @property
    def is_late(self) -> bool:
        """Whether the time limit has passed, which cuts every stage short."""
        return self._clock() > self._budget.answer_by

    def check_time(self) -> None:
        """Raises when nobody waits for a first answer any more."""
        if self._interrupter.interrupted:
            raise Interrupted
        if self._clock() > self._budget.deadline:
            raise DeadlineTooShort(elapsed_seconds=self.elapsed())

    def offer(self, candidate: _Candidate) -> None:
        """Hands out the answer that a candidate makes, should there be no later one."""
        if candidate.plan is not self._offered:
            self._offered = candidate.plan
            self._offer(self.placement(candidate, Limit.TIME))

    def tell(self, candidate: _Candidate) -> None:
        """Tells the observer what is known so far."""
        self._observer(
            Progress(
                elapsed_seconds=self.elapsed(),
                phase=candidate.solution.phase,
                tiers=candidate.solution.tiers,
                placed_gang_count=sum(gang.placed for gang in candidate.score.gangs),
            )
        )

    def placement(
        self,
        best: _Candidate,
        limit: Limit,
        reasons: Sequence[Sequence[Reason]] = (),
        *,
        memory: int = 0,
        deterministic: bool = False,
    ) -> Placement:
        """The answer that a candidate makes."""
        return Placement(
            revision=self._request.snapshot.revision,
            label=self._request.label,
            bindings=best.plan.bindings,
            evictions=best.plan.evictions,
            gangs=tuple(self._results(best, reasons)),
            tiers=best.solution.tiers,
            termination=_termination(best.solution, limit),
            stats=Stats(
                elapsed_seconds=self.elapsed(),
                first_answer_seconds=self.first_seconds,
                proof_seconds=self.proof_seconds,
                first_tiers=self.first_tiers,
                engine=self._stages.engine,
                deterministic=deterministic,
                solver_memory_bytes=memory,
            ),
        )

    def first_answer(self, problem: Problem) -> _Candidate:
        """The greedy answer, or the empty one when that fails."""
        now = self._clock()
        deadline = self._budget.answer_by
        if not self._request.policy.deterministic:
            # Half of the time at most goes into the first answer.
            deadline = now + (deadline - now) / 2
        previous = count_pods(self._request.snapshot, self._request.previous)
        try:
            with stage(Stage.FIRST_ANSWER):
                solution = self._stages.first_answer(problem, previous, deadline=deadline)
        except Exception as error:
            logger.exception("the first answer failed")
            self._report_defect("the first answer failed", repr(error))
        else:
            candidate = self._judge(solution)
            if candidate is not None:
                self._remember(candidate)
                return candidate
        nothing = to_solution(problem, home_plan(problem))
        score = self._stages.score(self._request.snapshot, self._request.policy, (), ())
        candidate = self._candidate(nothing, NamedPlan((), ()), score)
        self._remember(candidate)
        return candidate

    def search(self, problem: Problem, best: _Candidate) -> tuple[_Candidate, Limit, int]:
        """The best candidate, what ended the search (NONE: a proof, or not known), memory."""
        if all(t.proven if t.name.provable else not t.value for t in best.solution.tiers):
            return best, Limit.NONE, 0
        deadline = self._budget.answer_by - self._reserve()
        if deadline - self._clock() < SHORTEST_SEARCH:
            return best, Limit.TIME, 0
        next_judging = self._clock()
        repeatable = self._request.policy.deterministic
        first = best

        def report(solution: Solution) -> None:
            nonlocal best, next_judging
            begin = self._clock()
            same = solution.assignments == best.solution.assignments
            if not same and begin < next_judging:
                return
            better = self._better(best, solution)
            if better is not None:
                best = better
                if not repeatable:
                    self._remember(best)
                self.tell(best)
            if not same:
                self.offer(best)
                now = self._clock()
                next_judging = now + (now - begin) / VERIFYING_SHARE

        with stage(Stage.SEARCH):
            found = self._stages.search(
                problem,
                best.solution,
                deadline=deadline,
                interrupter=self._interrupter,
                report=report,
            )
        if found.failure:
            self._report_defect("the engine failed", found.failure)
        if self._interrupter.interrupted:
            return best, Limit.NONE, 0
        # The clock decides what is judged on the way; a repeatable answer knows nothing of it.
        standing = first if repeatable and found.limit is Limit.NONE else best
        better = self._better(standing, found.solution)
        if better is None:
            # The last word was refused; what stands is from before.
            return best, found.limit, found.peak_memory_bytes
        best = better
        self._remember(best)
        if best.solution.proven:
            return best, Limit.NONE, found.peak_memory_bytes
        if found.limit is not Limit.NONE:
            return best, found.limit, found.peak_memory_bytes
        # An engine that ends by itself and does not say why has nothing left to try.
        limit = best.solution.limit
        return best, Limit.EFFORT if limit is Limit.NONE else limit, found.peak_memory_bytes

    def explain(self, problem: Problem, best: _Candidate) -> Sequence[Sequence[Reason]]:
        """Reasons by gang; none when explaining itself fails."""
        try:
            with stage(Stage.EXPLAIN):
                return self._stages.explain(
                    self.prepared.snapshot,
                    problem,
                    best.solution,
                    best.score,
                    deadline=self._budget.answer_by,
                )
        except Exception as error:
            logger.exception("explaining failed")
            self._report_defect("explaining failed", repr(error))
            return ()

    def _results(
        self, best: _Candidate, reasons: Sequence[Sequence[Reason]]
    ) -> Iterable[GangResult]:
        fewest = dict(best.solution.fewest_domains)
        placed = {gang.gang: gang.placed for gang in best.score.gangs}
        queues = {q.name for q in self._request.snapshot.queues}
        for i, gang in enumerate(best.score.gangs):
            own = tuple(reasons[i]) if i < len(reasons) else ()
            if not gang.placed and not own:
                own = plain_reasons(self._request.snapshot.gangs[i], placed, queues)
            yield GangResult(
                name=gang.gang,
                placed=gang.placed,
                placement_score=placement_score(gang, fewest.get(i), self._reached.get(i)),
                reasons=own,
                scopes=tuple(
                    ScopeUse(use.name, use.level, use.required, use.domains) for use in gang.scopes
                ),
            )

    def _reserve(self) -> float:
        """Seconds to keep for judging the last plan, explaining and writing it down."""
        left = self._budget.answer_by - self._clock()
        return min(0.03 + 4 * self._judging, 0.5 * max(0.0, left))

    def _better(self, best: _Candidate, solution: Solution) -> _Candidate | None:
        """The candidate in a solution if it is as good as the best, else the best.

        None when it breaks a rule.
        """
        if solution.assignments == best.solution.assignments:
            return self._candidate(solution, best.plan, best.score)
        candidate = self._judge(solution)
        if candidate is None:
            return None
        rank = self._ranking.rank
        return candidate if rank(candidate.score) >= rank(best.score) else best

    def _judge(self, solution: Solution) -> _Candidate | None:
        """The candidate in a solution, None when it is refused."""
        with stage(Stage.JUDGE):
            return self._judged(solution)

    def _judged(self, solution: Solution) -> _Candidate | None:
        begin = self._clock()
        request = self._request
        try:
            plan = name_plan(request.snapshot, request.policy, self.prepared, solution.assignments)
        except (IndexError, ValueError) as error:
            self._report_defect("a plan makes no sense", f"{solution.phase}: {error}")
            return None
        violations = self._stages.verify(request.snapshot, request.policy, *plan)
        if violations:
            self._report_defect(
                "a plan breaks rules",
                f"{solution.phase}: {len(violations)} violations, first: {violations[0]}",
            )
            return None
        score = self._stages.score(request.snapshot, request.policy, *plan)
        candidate = self._candidate(solution, plan, score)
        self._judging = max(self._judging, self._clock() - begin)
        return candidate

    def _remember(self, candidate: _Candidate) -> None:
        """Takes note of the fewest domains that gangs need in a candidate."""
        for i, gang in enumerate(candidate.score.gangs):
            if gang.placed and gang.preferred_domains is not None:
                self._reached[i] = min(
                    gang.preferred_domains, self._reached.get(i, gang.preferred_domains)
                )

    def _candidate(self, solution: Solution, plan: NamedPlan, score: Score) -> _Candidate:
        tiers, problem = recompute(solution.tiers, score)
        if problem:
            self._report_defect("a claim is wrong", f"{solution.phase}: {problem}")
        candidate = _Candidate(replace(solution, tiers=tiers), plan, score)
        self._ranking.see(score)
        if self.proof_seconds is None and candidate.solution.proven:
            self.proof_seconds = self.elapsed()
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


def placement_score(gang: GangScore, fewest: int | None, reached: int | None) -> float | None:
    """How close a gang is to the fewest domains at its preferred levels; 1.0 is there.

    `fewest` is a proven lower bound, `reached` the fewest that any plan needed.
    None when the gang is not placed, or when it is not known whether it could
    do with less.
    """
    if not gang.placed:
        return None
    used = gang.preferred_domains
    if used is None:
        return 1.0
    # Every preferred scope needs one domain at least.
    fewest = max(fewest or 0, sum(1 for use in gang.scopes if not use.required and use.count))
    if used <= fewest:
        return 1.0
    return fewest / used if reached is not None and reached <= fewest else None


def _termination(solution: Solution, limit: Limit) -> Termination:
    if solution.proven:
        return Termination(True, Limit.NONE, 0.0, "No better placement exists.")
    detail = {
        Limit.NONE: "The search ended without a proof.",
        Limit.TIME: "The time limit ended the search.",
        Limit.EFFORT: "The search had nothing left to try.",
        Limit.SOLVER_LOST: "The solver process was lost; this is the best answer before.",
    }[limit]
    return Termination(False, limit, solution.gap, detail)
