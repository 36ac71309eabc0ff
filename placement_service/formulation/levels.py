"""Levels: node label keys and the domains that their values make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from placement_service.entities.node import HOSTNAME
from placement_service.entities.nodes import Nodes
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import LevelIdx


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """A node label key and its domains.

    `domain[N]` is the domain of each node, -1 without the label. `place_of[N]` is
    the same with every node without the label as a domain of its own, which is
    how preferred levels count. `is_host` is true when every domain is a single
    node.
    """

    key: str
    domain: Ints
    place_of: Ints
    values: tuple[str, ...]
    is_host: bool

    @property
    def count(self) -> int:
        """Number of domains."""
        return len(self.values)


class Levels:
    """Levels by key, made when first asked for."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._index: dict[str, LevelIdx] = {}
        self._levels: list[Level] = []
        self._restricted: dict[tuple[LevelIdx, bytes], LevelIdx] = {}

    def index(self, key: str) -> LevelIdx:
        """The index of the level of a node label key; the level is made when it is new."""
        if key not in self._index:
            self._index[key] = LevelIdx(len(self._levels))
            self._levels.append(_make_level(key, self._nodes))
        return self._index[key]

    def restricted(self, index: LevelIdx, nodes: Bools) -> LevelIdx:
        """The level with only some nodes [N] in its domains; domains keep their numbers."""
        key = (index, nodes.tobytes())
        if key not in self._restricted:
            level = self._levels[index]
            domain = np.where(nodes, level.domain, -1)
            self._restricted[key] = LevelIdx(len(self._levels))
            self._levels.append(
                replace(level, domain=domain, place_of=_places(domain, level.count), is_host=False)
            )
        return self._restricted[key]

    def __getitem__(self, index: int) -> Level:
        return self._levels[index]

    def all(self) -> tuple[Level, ...]:
        """The levels made so far, by their indices."""
        return tuple(self._levels)


def _make_level(key: str, nodes: Nodes) -> Level:
    if key == HOSTNAME:
        return _new_level(key, nodes)
    return nodes.labels.derived(("level", key), lambda: _new_level(key, nodes))


def _new_level(key: str, nodes: Nodes) -> Level:
    if key == HOSTNAME:
        of_node = nodes.label(key)
        here = set(of_node)
    else:
        of_kind = [labels.get(key) for labels in nodes.labels.kinds]
        here = {labels.get(key) for labels, _ in nodes.labels.counts()}
    values = tuple(sorted(v for v in here if v is not None))
    number: dict[str | None, int] = {v: i for i, v in enumerate(values)}
    if key == HOSTNAME:
        domain = _numbers(of_node, number)
    else:
        domain = _numbers(of_kind, number)[nodes.labels.number]
    place = _places(domain, len(values))
    domain.flags.writeable = place.flags.writeable = False
    return Level(key, domain, place, values, int((domain >= 0).sum()) == len(values))


def _numbers(values: Sequence[str | None], number: Mapping[str | None, int]) -> Ints:
    """The number of each value, -1 for none."""
    return np.fromiter((number.get(v, -1) for v in values), dtype=np.int64, count=len(values))


def _places(domain: Ints, domains: int) -> Ints:
    """As `Level.place_of`: each node in no domain is a place of its own, after the domains."""
    place = domain.copy()
    alone = domain < 0
    place[alone] = domains + np.arange(int(alone.sum()))
    return place


def sums_by_domain(level: Level, row: Ints) -> Ints:
    """Sum of row[N] over the nodes of each domain [D]."""
    return np.bincount(level.place_of, row, level.count)[: level.count].astype(np.int64)
