"""``python -m tests.medium --large``: 500 to 4,000 nodes, through the whole pipeline.

All of it runs in one process by its CPU time, so that it hardly matters who else uses the machine.
What the solver process would do beside the first answer counts only where it takes longer.
Told are what the judge finds in any plan, bounds that other plans refute, how late each stage
ends, and what the first and the last plan are worth beside the bound.
"""

from __future__ import annotations

import logging
import random
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from placement_service.entities.placement import Placement, Reason
from placement_service.entities.progress import Interrupter
from placement_service.entities.request import Policy, Request, Snapshot
from placement_service.entities.solution import Assignment, Solution, TierName
from placement_service.entities.stages import Passed, Stage, told
from placement_service.explain.gang_reasons import explain
from placement_service.formulation.formulate import formulate
from placement_service.formulation.named_plan import PlanNames
from placement_service.formulation.prepared import Prepared
from placement_service.formulation.problem import Problem
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.judge import Judge
from placement_service.judge.score import Score
from placement_service.pipeline.place import place
from placement_service.pipeline.stages import Budget, Stages
from placement_service.search.engine import prepare, search
from placement_service.solver_process.pool import GRACE_SECONDS, Found
from tests.medium.ask import WAYS, Asked, confront_all
from tests.medium.question import Drawn
from tests.medium.variants import Variant

#: Stages of a search that follow one another; others hold some of these.
_OF_A_SEARCH = frozenset(which for which in Stage if which >= Stage.COUNT)


class Clock:
    """Seconds of the processor, of which those that another process would work count once."""

    def __init__(self) -> None:
        self._aside = 0.0

    def __call__(self) -> float:
        """Takes the place of `time.monotonic`."""
        return time.process_time() - self._aside

    @contextmanager
    def beside(self, seconds: float) -> Iterator[None]:
        """What the block does began so many seconds ago."""
        now = self()
        self._aside += seconds
        try:
            yield
        finally:
            self._aside -= max(0.0, now - self())


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of a question.

    `late` says for each stage how many seconds it ended after its deadline, `replaced` whether the
    solver process would have been. `values` are those of the first and the last plan with the
    bound, by tier that has one.
    """

    faults: tuple[str, ...]
    late: Mapping[str, float]
    replaced: bool
    values: Mapping[TierName, tuple[float, float, float | None]]
    witnesses: int

    def __str__(self) -> str:
        late = " ".join(f"{name} {seconds:.2f}" for name, seconds in self.late.items())
        values = ", ".join(
            f"{tier.value} {first:g} → {last:g}" + ("" if bound is None else f" / {bound:g}")
            for tier, (first, last, bound) in self.values.items()
            if not first == last == bound
        )
        return (
            f"{values or 'the first answer is proven'}; {self.witnesses} witnesses"
            f"{f'; late: {late}' if late else ''}{'; REPLACED' if self.replaced else ''}"
        )


def measure(drawn: Drawn, seconds: float, clock: Clock, *, way: str = "") -> Measured:
    """Asks a question of the pipeline, and then the search in another way (see `WAYS`).

    `clock` has taken the place of `time.monotonic`.
    """
    asked = Asked(Variant("the question", drawn.snapshot, drawn.policy, {}))
    run = _Run(asked, clock)
    try:
        answer = run.placed(drawn, seconds)
        run.judge_all()
    except Exception:  # whatever it is, it is a fault of the service
        asked.faults.append(traceback.format_exc())
        return Measured(tuple(asked.faults), run.late, run.replaced, {}, 0)
    if way:
        asked.ask(way, seconds, WAYS[way])
    witnesses = confront_all([asked])
    assert answer.stats is not None
    first = {tier.name: tier.value for tier in answer.stats.first_tiers if tier.name.provable}
    return Measured(
        tuple(dict.fromkeys(asked.faults)),
        run.late,
        run.replaced,
        {t.name: (first[t.name], t.value, t.bound) for t in answer.tiers if t.name in first},
        witnesses,
    )


@dataclass
class _Run:
    """The stages of the service in this process, and what is noted of them."""

    asked: Asked
    clock: Clock
    late: dict[str, float] = field(default_factory=dict)
    replaced: bool = False
    _solutions: list[tuple[Problem, Solution]] = field(default_factory=list)
    _names: dict[int, PlanNames] = field(default_factory=dict)
    _expected: list[Problem] = field(default_factory=list)
    _first_seconds: float = 0.0
    _passed: list[Passed] = field(default_factory=list)

    def placed(self, drawn: Drawn, seconds: float) -> Placement:
        """The answer; faults are noted."""
        request = Request(drawn.snapshot, drawn.policy, time_limit_seconds=seconds)
        stages = Stages(
            formulate=self._formulate,
            first_answer=self._first_answer,
            search=self._search,
            expecting=self._expecting,
            judge=Judge,
            explain=self._explain,
        )
        begin = self.clock()
        answer_by = begin + seconds
        with told(self._passed.append), _errors(self.asked.faults):
            answer = place(
                request,
                stages=stages,
                budget=Budget(begin, answer_by),
                clock=self.clock,
                report_defect=self._defect,
            )
        self._note_late("answer", answer_by)
        return answer

    def judge_all(self) -> None:
        """Judges every plan that was found, also those that no answer was made of."""
        for problem, solution in self._solutions:
            self.asked.note("all stages", solution, self._names[id(problem)])

    def _defect(self, what: str, detail: str) -> str:
        self.asked.faults.append(f"{what}: {detail}")
        return ""

    def _formulate(self, snapshot: Snapshot, policy: Policy, prepared: Prepared) -> Problem:
        problem = formulate(snapshot, policy, prepared)
        self._names[id(problem)] = PlanNames(snapshot, policy, prepared)
        return problem

    def _first_answer(
        self, problem: Problem, previous: tuple[Assignment, ...], /, *, deadline: float
    ) -> Solution:
        begin = self.clock()
        found = first_answer(problem, previous, deadline=deadline)
        self._first_seconds = self.clock() - begin
        self._note_late("first answer", deadline)
        self._solutions.append((problem, found))
        return found

    @contextmanager
    def _expecting(
        self, problem: Problem, /, *, deadline: float, interrupter: Interrupter
    ) -> Iterator[None]:
        self._expected.append(problem)
        yield

    def _search(
        self,
        problem: Problem,
        start: Solution,
        /,
        *,
        deadline: float,
        interrupter: Interrupter,
        report: Callable[[Solution], None],
    ) -> Found:
        left = deadline - self.clock()
        stop = deadline - min(GRACE_SECONDS, 0.1 * left)

        def tell(solution: Solution) -> None:
            self._solutions.append((problem, solution))
            report(solution)

        ground = None
        if any(one is problem for one in self._expected):
            there = self.clock()
            with self.clock.beside(self._first_seconds):
                ground = prepare(
                    problem,
                    deadline=stop,
                    asked=lambda: start if self.clock() >= there else None,
                    report=tell,
                )
            self._note_late("ahead", stop)
        self._passed.clear()
        found = search(problem, start, deadline=stop, report=tell, prepared=ground)
        self._solutions.append((problem, found))
        at = next((p.stage.label for p in self._passed if _ends_late(p, stop)), "")
        self._note_late(f"search ({at})" if at else "search", stop)
        self.replaced = self.replaced or self.clock() > deadline
        return Found(found)

    def _explain(
        self,
        snapshot: Snapshot,
        problem: Problem,
        solution: Solution,
        score: Score,
        /,
        *,
        asked: Snapshot,
        deadline: float,
    ) -> Sequence[Sequence[Reason]]:
        reasons = explain(snapshot, problem, solution, score, asked=asked, deadline=deadline)
        self._note_late("explain", deadline)
        return reasons

    def _note_late(self, name: str, deadline: float) -> None:
        late = self.clock() - deadline
        if late > 0.005:
            self.late[name] = max(late, self.late.get(name, 0.0))


def _ends_late(passed: Passed, deadline: float) -> bool:
    return passed.stage in _OF_A_SEARCH and passed.begin <= deadline < passed.end


@contextmanager
def _errors(faults: list[str]) -> Iterator[None]:
    """What is logged as an error is a fault."""

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            faults.append(self.format(record))

    noting, log = Noting(logging.ERROR), logging.getLogger("placement_service")
    log.addHandler(noting)
    try:
        yield
    finally:
        log.removeHandler(noting)


def way_of(number: int) -> str:
    """The other way in which a question is searched."""
    return random.Random(number).choice(list(WAYS))
