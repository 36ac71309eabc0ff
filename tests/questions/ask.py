"""One question: what the engine says is judged, and its bounds held against the optimum."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass

from placement_service.entities.solution import Solution, TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.prepare import prepare
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.score import score
from placement_service.judge.verify import verify
from placement_service.search.engine import search
from placement_service.search.parameters import DEFAULTS
from tests.brute import Optimum, TooLarge, no_bound_cuts_off, optimum
from tests.questions.everything import Drawn, draw
from tests.questions.features import features_of
from tests.waiting import LONG

#: Steps of the oracle, which gives up on what takes more: about one question in a hundred.
STEPS = 3_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a question; `fault` is empty where nothing was wrong.

    `changes`: the best plan places, moves or evicts somebody.
    """

    number: int
    features: tuple[str, ...]
    fault: str = ""
    given_up: bool = False
    proven: bool = False
    changes: bool = False
    oracle_seconds: float = 0.0
    engine_seconds: float = 0.0


def ask_all(seed: int, numbers: Iterable[int]) -> list[Verdict]:
    """What came of the questions with these numbers."""
    return [ask(number, draw(seed, number)) for number in numbers]


def ask(number: int, drawn: Drawn) -> Verdict:
    """The engine's answers to a question, judged; seconds are those of the processor."""
    features = features_of(drawn)
    start = time.process_time()
    best: Optimum | None
    try:
        best = optimum(drawn.snapshot, drawn.policy, max_steps=STEPS)
    except TooLarge:
        best = None
    known = time.process_time()
    fault, proven = "", False
    try:
        proven = _answer(drawn, best)
    except Exception:  # whatever it is, it is a fault of the engine or of the oracle
        fault = traceback.format_exc()
    return Verdict(
        number,
        features,
        fault,
        given_up=best is None,
        proven=proven,
        changes=best is not None and bool(best.plan or best.evictions),
        oracle_seconds=known - start,
        engine_seconds=time.process_time() - known,
    )


def _answer(drawn: Drawn, best: Optimum | None) -> bool:
    """Whether the engine proves its last answer. Raises AssertionError where one is wrong."""
    prepared = prepare(drawn.snapshot, drawn.policy)
    problem = formulate(drawn.snapshot, drawn.policy, prepared)
    found: list[Solution] = [first_answer(problem)]
    until = time.monotonic() + LONG
    found.append(
        search(problem, found[0], deadline=until, report=found.append, parameters=DEFAULTS)
    )
    for solution in found:
        plan = name_plan(drawn.snapshot, drawn.policy, prepared, solution.assignments)
        broken = verify(drawn.snapshot, drawn.policy, *plan)
        assert not broken, broken
        reached = score(drawn.snapshot, drawn.policy, *plan)
        claimed = {tier.name: tier.value for tier in solution.tiers}
        assert claimed == {name: reached.value(name) for name in TierName}
        if best is not None:
            no_bound_cuts_off(best, solution, reached)
    return found[-1].proven
