"""One question: what the engine says is judged, and its bounds held against the optimum."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass

from tests.brute import Optimum, TooLarge, optimum
from tests.judged import no_answer_is_false
from tests.questions.everything import Drawn, draw
from tests.questions.features import features_of

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
    return [ask(number, draw(seed, number, wide=True)) for number in numbers]


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
        proven = no_answer_is_false(best, drawn.snapshot, drawn.policy)
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
