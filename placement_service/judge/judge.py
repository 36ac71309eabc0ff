"""The judge of all plans of a request: the request is read once, and each plan once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from placement_service.entities.eviction import Eviction
from placement_service.entities.request import Binding, Policy, Snapshot
from placement_service.judge.outcome import Outcome
from placement_service.judge.question import Question
from placement_service.judge.score import Score, score_of
from placement_service.judge.verify import violations


class Verdict(NamedTuple):
    """What rules a plan breaks, in words, and what it is worth; `score` None when it breaks any."""

    violations: tuple[str, ...]
    score: Score | None


class Judge:
    """Judges plans of one request as `verify` and `score` do."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._question = Question(snapshot, policy)

    def judge(self, bindings: Sequence[Binding], evictions: Sequence[Eviction]) -> Verdict:
        """The verdict on a plan."""
        outcome = Outcome(self._question, bindings, evictions)
        broken = violations(outcome, evictions)
        return Verdict(broken, None if broken else score_of(outcome))

    def score(self, bindings: Sequence[Binding], evictions: Sequence[Eviction]) -> Score:
        """What a plan is worth, whether or not it keeps the rules."""
        return score_of(Outcome(self._question, bindings, evictions))
