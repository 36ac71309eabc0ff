"""Which of many labelled things a selector matches, without asking each of them.

Things are nodes, running pods and templates; a thousand selectors over thousands of them are
common. `Requirement.matches` defines what a requirement means; here it is answered for all things
at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from placement_service.entities.selectors import (
    Labels,
    LabelSelector,
    Operator,
    Requirement,
    whole_number,
)
from placement_service.formulation.arrays import Bools, Ints


class _Column:
    """The things that have one label, by its value."""

    def __init__(self) -> None:
        self.members: dict[str, list[int]] = {}
        self._arrays: dict[str, Ints] = {}

    def of(self, value: str) -> Ints:
        """The things with this value."""
        if value not in self._arrays:
            self._arrays[value] = _indices(self.members.get(value, ()))
        return self._arrays[value]

    @cached_property
    def everyone(self) -> Ints:
        return _indices(i for members in self.members.values() for i in members)

    @cached_property
    def _numbers(self) -> tuple[list[int], list[int], Ints]:
        """Values that are numbers in order, where each one's things begin, and the things."""
        found = []
        for value, members in self.members.items():
            number = whole_number(value)
            if number is not None:
                found.append((number, members))
        found.sort(key=lambda pair: pair[0])
        starts = np.cumsum([0, *(len(members) for _, members in found)]).tolist()
        return [n for n, _ in found], starts, _indices(i for _, members in found for i in members)

    def beyond(self, operator: Operator, limit: int) -> Ints:
        """The things whose value is a number above (GT) or below (LT) a limit."""
        numbers, starts, things = self._numbers
        if operator is Operator.GT:
            return things[starts[bisect_right(numbers, limit)] :]
        return things[: starts[bisect_left(numbers, limit)]]


class LabelTable:
    """The labels of things by key. Only the `keys` named at first can be asked for."""

    def __init__(self, things: Sequence[Labels], keys: Iterable[str]) -> None:
        self._count = len(things)
        self._columns = {key: _Column() for key in keys}
        wanted = self._columns.keys()
        for i, labels in enumerate(things if wanted else ()):
            for key in labels.keys() & wanted:
                self._columns[key].members.setdefault(labels[key], []).append(i)

    def selected(self, selector: LabelSelector) -> Bools:
        """As `LabelSelector.matches`, for each thing."""
        return self.having(selector.match_labels) & self.meeting(selector.match_expressions)

    def having(self, pairs: Iterable[tuple[str, str]]) -> Bools:
        """The things with all of these labels."""
        result = np.ones(self._count, dtype=bool)
        for key, value in pairs:
            result &= self._among(self._columns[key].of(value))
        return result

    def meeting(self, requirements: Iterable[Requirement]) -> Bools:
        """The things that meet all of these requirements."""
        result = np.ones(self._count, dtype=bool)
        for requirement in requirements:
            result &= self._meeting(requirement)
        return result

    def _meeting(self, requirement: Requirement) -> Bools:
        column = self._columns[requirement.key]
        match requirement.operator:
            case Operator.IN | Operator.NOT_IN:
                inside = self._among(*(column.of(v) for v in requirement.values))
                return inside if requirement.operator is Operator.IN else ~inside
            case Operator.EXISTS:
                return self._among(column.everyone)
            case Operator.DOES_NOT_EXIST:
                return ~self._among(column.everyone)
            case Operator.GT | Operator.LT:
                limit = whole_number(requirement.values[0])
                if limit is None:
                    return np.zeros(self._count, dtype=bool)
                return self._among(column.beyond(requirement.operator, limit))

    def _among(self, *members: Ints) -> Bools:
        result = np.zeros(self._count, dtype=bool)
        for some in members:
            result[some] = True
        return result


def keys_of(selector: LabelSelector | None) -> Iterable[str]:
    """The keys that a selector asks for."""
    if selector is not None:
        yield from (key for key, _ in selector.match_labels)
        yield from (requirement.key for requirement in selector.match_expressions)


def _indices(members: Iterable[int]) -> Ints:
    return np.fromiter(members, dtype=np.int64)
