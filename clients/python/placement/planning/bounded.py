"""A number that was reached, beside what is proven of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounded:
    """What was reached, and the proven bound; None where nothing is known."""

    value: int | None
    bound: int | None
