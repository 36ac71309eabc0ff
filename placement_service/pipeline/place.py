"""The stages of a request in their order, their time, and what happens when one fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import NamedTuple

from placement_service.entities.errors import DeadlineTooShort
from placement_service.entities.naming.pod_assignment import count_pods
from placement_service.entities.placement import Placement, Progress, Reason, Stats
from placement_service.entities.progress import (
    NEVER,
    SILENT,
    Interrupted,
    Interrupter,
    Observer,
    heard,
)
from placement_service.entities.request import Request, Snapshot
from placement_service.entities.solution import Limit, Solution, Tier
from placement_service.entities.stages import Stage, stage
from placement_service.formulation.eviction.reclaim_turns import Turns, bounded_by, other_turns
from placement_service.formulation.named_plan import NamedPlan
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import home_plan
from placement_service.formulation.prepare import prepare
from placement_service.formulation.prepared import Prepared
from placement_service.formulation.problem import Problem
from placement_service.formulation.tiers import has_goals_of
from placement_service.heuristic.scarcity import somebody_may_wait
from placement_service.pipeline import few_gangs
from placement_service.pipeline.candidates import Candidate, Candidates, Judging
from placement_service.pipeline.first_share import first_share
from placement_service.pipeline.results import end_of_both, gang_results, nothing_yet, termination
from placement_service.pipeline.stages import (
    Budget,
    Offer,
    ReportDefect,
    Stages,
    keep_none,
    log_defect,
)

logger = logging.getLogger(__name__)

#: Verifying better answers while the search goes on takes at most this share.
VERIFYING_SHARE = 0.2

#: A search shorter than this is not worth starting, in seconds.
SHORTEST_SEARCH = 0.02

#: The share of the time in which it may be tried out what fits the devices of nodes.
PREPARING_SHARE = 0.2

#: How many times as long as the last time judging and writing may take.
MARGIN = 1.5

#: The time to explain and write the last answer, as a multiple of writing one without explanations.
EXPLAINING = 3.0


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
    # 1. A request that is only to be checked has been checked by now (see `wire`).
    if request.validate_only:
        return Placement(request.snapshot.revision, request.label)

    # 2. Names become arrays. If time runs out before, the answer is that nothing is placed.
    offer(nothing_yet(request))
    run = _Run(request, stages, budget, observer, interrupter, clock, report_defect, offer)
    run.begin_with_few()
    with stage(Stage.FORMULATE), heard(interrupter):
        reading = run.reading(request.snapshot)
        turned = other_turns(request.snapshot, request.policy)
    run.check_time()

    # The solver process gets to know the problem meanwhile, where it is the only one.
    with nullcontext() if turned is not None else run.expecting(reading.problem):
        # 3. A first answer, good or not.
        best = run.first_answer(reading)
        run.check_time()
        run.first_seconds = run.elapsed()
        run.first_tiers = best.solution.tiers
        run.offer(best)
        run.tell(best)

        # 4. Better answers, until one is proven or time is up.
        if turned is None:
            searched = run.search(reading, best)
        else:
            searched = run.search_both(reading, best, turned)
    best, limit = searched.best, searched.limit
    if interrupter.interrupted:
        raise Interrupted

    # 5. Why the other gangs wait.
    run.offer(best)
    reasons = run.explain(searched.reading, best)
    cut_short = limit in (Limit.TIME, Limit.SOLVER_LOST) or run.is_late

    # 6. One immutable answer.
    return run.placement(
        best,
        limit,
        reasons,
        memory=searched.memory,
        deterministic=request.policy.deterministic and not cut_short,
    )


class _Reading(NamedTuple):
    """The request in arrays. It can be read in two ways where not all gangs may reclaim that would
    (see `reclaim_turns`)."""

    snapshot: Snapshot
    prepared: Prepared
    problem: Problem
    candidates: Candidates


class _Searched(NamedTuple):
    """The best candidate and how the request was read for it, what ended the search (NONE: a proof,
    or not known), and the peak memory of the solver in bytes.
    """

    best: Candidate
    reading: _Reading
    limit: Limit
    memory: int


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
        self._began, self._cpu_seconds = clock(), time.process_time()
        self._stages = stages
        self._budget = budget
        self._observer = observer
        self._interrupter = interrupter
        self._clock = clock
        self._report_defect = report_defect
        self._offer = offer
        self._judging = Judging(request, stages.judge, self.elapsed, report_defect)
        #: The plan that was handed out last.
        self._offered: NamedPlan | None = None
        self.first_seconds = 0.0
        self.first_tiers: tuple[Tier, ...] = ()
        #: A plan for some gangs alone.
        self._few: Candidate | None = None
        #: What handing out an answer took, in seconds.
        self._offering = 0.0

    def reading(self, snapshot: Snapshot, whole: _Reading | None = None) -> _Reading:
        """The snapshot of the request in arrays, or a part of it: bounds are those of the whole."""
        policy, now = self._request.policy, self._clock()
        share = 1.0 if policy.deterministic else PREPARING_SHARE
        until = now + share * (self._budget.answer_by - now)
        prepared = prepare(snapshot, policy, until=until, by_turns=whole is not None)
        if whole is not None:
            prepared = bounded_by(whole.prepared, prepared)
        problem = self._stages.formulate(snapshot, self._request.policy, prepared)
        if whole is not None and not has_goals_of(problem, problem.relaxation):
            # Without some pods there may be no extras, and bounds are told goal by goal.
            prepared = replace(prepared, relaxed=None, exact=False)
            problem = self._stages.formulate(snapshot, self._request.policy, prepared)
        return _Reading(snapshot, prepared, problem, Candidates(self._judging, snapshot, prepared))

    def begin_with_few(self) -> None:
        """Hands out a plan for some gangs, where there is hardly time for all."""
        self._few = few_gangs.few_first(
            self._request, self._stages, self._judging, self._budget, self._interrupter, self._clock
        )
        if self._few is not None:
            self.first_seconds = self.elapsed()
            self.offer(self._few)
            self.tell(self._few)

    def elapsed(self) -> float:
        """Seconds since the request arrived."""
        return self._clock() - self._budget.arrival

    @property
    def explain_by(self) -> float:
        """The time at which explaining is cut short: the reasons still have to be written."""
        return self._budget.answer_by - self._offering

    @property
    def is_late(self) -> bool:
        """Whether a stage may have been cut short by the clock."""
        return self._clock() >= self.explain_by

    def check_time(self) -> None:
        """Raises when nobody waits for a first answer any longer."""
        if self._interrupter.interrupted:
            raise Interrupted
        if self._clock() > self._budget.deadline:
            raise DeadlineTooShort(elapsed_seconds=self.elapsed())

    def offer(self, candidate: Candidate) -> None:
        """Hands out the answer that a candidate makes, for the case that no later one comes."""
        if candidate.plan is not self._offered:
            self._offered = candidate.plan
            begin = self._clock()
            self._offer(self.placement(candidate, Limit.TIME))
            self._offering = self._clock() - begin

    def tell(self, candidate: Candidate) -> None:
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
        best: Candidate,
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
            gangs=tuple(
                gang_results(
                    self._request,
                    best.solution,
                    best.score,
                    self._judging.reached,
                    best.plan.evictions,
                    reasons,
                )
            ),
            tiers=best.solution.tiers,
            termination=termination(best.solution, limit),
            stats=Stats(
                elapsed_seconds=self.elapsed(),
                first_answer_seconds=self.first_seconds,
                proof_seconds=self._judging.proof_seconds,
                first_tiers=self.first_tiers,
                engine=self._stages.engine,
                deterministic=deterministic,
                solver_memory_bytes=memory,
            ),
        )

    def expecting(self, problem: Problem) -> AbstractContextManager[None]:
        """Tells the solver of a problem that it is likely to get."""
        several = sum(not (gang.home or gang.begins_anew) for gang in problem.pending) > 1
        # How much has to move is hardly ever clear to the first answer.
        moves = any(gang.keeps for gang in problem.gangs)
        if not (several and (moves or somebody_may_wait(problem))):
            # The first answer of such a question is often the best.
            return nullcontext()
        return self._stages.expecting(
            problem, deadline=self._budget.answer_by, interrupter=self._interrupter
        )

    def first_answer(self, reading: _Reading) -> Candidate:
        """The greedy answer, or the empty one when that fails."""
        now = self._clock()
        deadline = self._budget.answer_by
        if not self._request.policy.deterministic:
            cpu_seconds = time.process_time() - self._cpu_seconds
            deadline = now + (deadline - now) * first_share(now - self._began, cpu_seconds)
        previous = count_pods(self._request.snapshot, self._request.previous)
        try:
            with stage(Stage.FIRST_ANSWER):
                solution = self._stages.first_answer(reading.problem, previous, deadline=deadline)
        except Exception as error:
            logger.exception("the first answer failed")
            self._report_defect("the first answer failed", repr(error))
        else:
            candidate = reading.candidates.judged(solution)
            few = self._few
            if few and candidate and reading.candidates.is_better(few, candidate):
                known = few_gangs.of_all(few, self._request, reading.problem)
                candidate = reading.candidates.judged(known) or candidate
            if candidate is not None:
                reading.candidates.remember(candidate)
                return candidate
        nothing = to_solution(reading.problem, home_plan(reading.problem))
        candidate = reading.candidates.nothing(nothing)
        reading.candidates.remember(candidate)
        return candidate

    def search_both(self, reading: _Reading, best: Candidate, turned: Turns) -> _Searched:
        """As `search` in both ways to read the request, the way with the better answer first."""
        try:
            with stage(Stage.FORMULATE), heard(self._interrupter):
                other = self.reading(turned.snapshot, None if turned.whole else reading)
        except Interrupted:
            raise
        except Exception as error:
            logger.exception("the request could not be read in the other way")
            self._report_defect("the other way to read the request failed", repr(error))
            return self.search(reading, best)
        ways = [(other, self.first_answer(other)), (reading, best)]
        if not other.candidates.is_better(ways[0][1], best):
            ways.reverse()
        found: _Searched | None = None
        for way, start in ways:
            if found is not None and (found.best.solution.proven or self._interrupter.interrupted):
                break
            if found is None:
                self.offer(start)
                found = self.search(way, start)
            else:
                found = self._better_of(found, self.search(way, start))
        assert found is not None
        return found

    def _better_of(self, first: _Searched, second: _Searched) -> _Searched:
        """The better of both, with what is known from the other."""
        better, other = first, second
        if second.reading.candidates.is_better(second.best, first.best):
            better, other = second, first
        best = better.reading.candidates.with_bounds(better.best, other.best)
        return better._replace(
            best=best,
            limit=Limit.NONE if best.solution.proven else end_of_both(first.limit, second.limit),
            memory=max(first.memory, second.memory),
        )

    def search(self, reading: _Reading, best: Candidate) -> _Searched:
        """Better candidates, until one is proven or time is up."""
        candidates, problem = reading.candidates, reading.problem
        known = best.solution
        nothing_left = all(t.proven if t.name.provable else not t.value for t in known.tiers)
        if nothing_left or (known.final and known.proven):
            return _Searched(best, reading, Limit.NONE, 0)
        deadline = self._budget.answer_by - self._reserve()
        if deadline - self._clock() < SHORTEST_SEARCH:
            return _Searched(best, reading, Limit.TIME, 0)
        next_judging = self._clock()
        repeatable = self._request.policy.deterministic
        first = best

        def report(solution: Solution) -> None:
            nonlocal best, next_judging
            begin = self._clock()
            same = solution.assignments == best.solution.assignments
            if not same and begin < next_judging:
                return
            better = candidates.better(best, solution)
            if better is not None:
                best = better
                if not repeatable:
                    candidates.remember(best)
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
            return _Searched(best, reading, Limit.NONE, 0)
        # Which plans are judged on the way depends on the clock; a repeatable answer must not.
        standing = first if repeatable and found.limit is Limit.NONE else best
        last = candidates.better(standing, found.solution)
        limit, memory = found.limit, found.peak_memory_bytes
        if last is None:
            # The engine's last plan was refused; the best one is from before.
            return _Searched(best, reading, limit, memory)
        candidates.remember(last)
        if last.solution.proven:
            limit = Limit.NONE
        elif limit is Limit.NONE:
            # An engine that ends by itself without a reason has nothing left to try.
            limit = last.solution.limit
            limit = Limit.EFFORT if limit is Limit.NONE else limit
        return _Searched(last, reading, limit, memory)

    def explain(self, reading: _Reading, best: Candidate) -> Sequence[Sequence[Reason]]:
        """Reasons by gang; none when explaining itself fails."""
        try:
            with stage(Stage.EXPLAIN):
                return self._stages.explain(
                    reading.prepared.snapshot,
                    reading.problem,
                    best.solution,
                    best.score,
                    asked=reading.prepared.request or reading.snapshot,
                    deadline=self.explain_by,
                )
        except Exception as error:
            logger.exception("explaining failed")
            self._report_defect("explaining failed", repr(error))
            return ()

    def _reserve(self) -> float:
        """Seconds to keep for judging the last plan, explaining and writing it down.

        As long as the last one took, with a margin for a machine that has become busier.
        """
        left = self._budget.answer_by - self._clock()
        needed = self._judging.seconds + EXPLAINING * self._offering
        return min(0.03 + MARGIN * needed, 0.5 * max(0.0, left))
