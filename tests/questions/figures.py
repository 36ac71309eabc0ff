"""What came of many questions, and how often each rule and policy occurred in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.questions.ask import Verdict
from tests.questions.features import FEATURES


class Figures:
    """What came of the questions so far."""

    def __init__(self) -> None:
        self.asked = self.given_up = self.proven = self.changes = 0
        self.faults: list[int] = []
        self.oracle_seconds = self.engine_seconds = 0.0
        self._with: Counter[str] = Counter()
        self._changes_with: Counter[str] = Counter()

    def add(self, verdict: Verdict) -> None:
        """Count a question."""
        self.asked += 1
        self.given_up += verdict.given_up
        self.proven += verdict.proven
        self.changes += verdict.changes
        self.oracle_seconds += verdict.oracle_seconds
        self.engine_seconds += verdict.engine_seconds
        self._with.update(verdict.features)
        if verdict.changes:
            self._changes_with.update(verdict.features)
        if verdict.fault:
            self.faults.append(verdict.number)

    def line(self) -> str:
        """All in one line."""
        return (
            f"{self.asked} questions, {self.given_up} too large for the oracle, "
            f"{self.changes} whose best plan changes something, {self.proven} proven, "
            f"{len(self.faults)} faults; {self.oracle_seconds:.0f} s of the oracle, "
            f"{self.engine_seconds:.0f} s of the engine"
        )

    def lines(self) -> Iterator[str]:
        """By what occurs in them, and in all."""
        yield f"{'':32}{'questions':>10}  whose best plan changes something"
        for name in FEATURES:
            yield f"{name:32}{self._with[name]:10}{self._changes_with[name]:10}"
        yield self.line()
        if self.faults:
            yield f"faults in {', '.join(map(str, sorted(self.faults)))}"
