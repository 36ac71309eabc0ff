"""A saved request, computed again: is the answer the same, bit for bit?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from placement.planning.diff import first_difference

#: Fields about the run and not about the answer.
_OF_THE_RUN: Final = frozenset(
    {"elapsedSeconds", "firstAnswerSeconds", "proofSeconds", "solverMemoryBytes"}
)


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The first difference of two answers as JSON, times of the clock, warnings about
    the input and what is left free aside; "" when there is none."""
    return first_difference(_timeless(before), _timeless(after))


def _timeless(answer: Mapping[str, Any]) -> dict[str, Any]:
    stats = answer.get("stats")
    # A digest depends on how a request is written, not only on its meaning. What is free follows
    # from the bindings.
    aside = ("stats", "warnings", "requestDigest", "room")
    kept = {key: value for key, value in answer.items() if key not in aside}
    if isinstance(stats, Mapping):
        kept["stats"] = {key: value for key, value in stats.items() if key not in _OF_THE_RUN}
    return kept
