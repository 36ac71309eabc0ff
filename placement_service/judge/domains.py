"""The domains of levels, as the judge reads them: numbers of label values, by node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_service.entities.node import HOSTNAME
from placement_service.entities.nodes import Ints, Nodes


class LevelDomains(NamedTuple):
    """`number[N]` of the value that each node has, -1 without the label."""

    number: Ints
    values: tuple[str, ...]


class Domains:
    """Levels of some nodes by their keys, read when they are asked for."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._levels: dict[str, LevelDomains] = {}

    def of(self, level: str) -> LevelDomains:
        """The domains of a level, by its key."""
        if level not in self._levels:
            labels = self._nodes.labels
            self._levels[level] = (
                self._read(level)
                if level == HOSTNAME
                else labels.derived(("domains", level), lambda: self._read(level))
            )
        return self._levels[level]

    def _read(self, level: str) -> LevelDomains:
        numbers: dict[str, int] = {}
        of_set = []
        for labels in self._nodes.labels.kinds:
            value = labels.get(level)
            of_set.append(-1 if value is None else numbers.setdefault(value, len(numbers)))
        found = np.array(of_set, dtype=np.int64)[self._nodes.labels.number]
        alone = found < 0
        if level == HOSTNAME and alone.any():
            # The hostname label is a special case: it may be the node's own name.
            for n, value in enumerate(self._nodes.label(level)):
                if alone[n] and value is not None:
                    found[n] = numbers.setdefault(value, len(numbers))
        return LevelDomains(found, tuple(numbers))
