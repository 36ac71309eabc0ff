"""Which node has which content, where contents of alike nodes may change places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import LevelIdx
from placement_service.formulation.problem import Problem

#: So many contents change places for one at most; to find out takes longer with more nodes.
MOST_MOVED = 500

#: The group of a node that is alike with no other.
ALONE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """What lies together on a node: where it may be [N], and the levels of which it keeps the
    domain, None where it has to stay.
    """

    able: Bools
    levels: frozenset[LevelIdx] | None


class Places:
    """Each content is named by the node where it was at first. Nodes with the same `room` [N] may
    hold it, but for those that are `ALONE` in `group` [N].
    """

    def __init__(
        self, problem: Problem, room: Ints, group: Ints, contents: Mapping[int, Content]
    ) -> None:
        self._problem, self._room, self._group = problem, room, group
        self._contents = contents
        self.node_of = {one: one for one in contents}
        self._held = dict(self.node_of)

    def settle(self, one: int) -> bool:
        """Whether it is where it may be, perhaps now that others have changed places. Augmenting
        paths.
        """
        begin = self.node_of[one]
        if self._contents[one].able[begin]:
            return True
        del self._held[begin]
        comes: dict[int, int] = {}
        reached = [one]
        for mine in reached:
            for node in self._open_to(mine):
                if node in comes:
                    continue
                comes[node] = mine
                if node not in self._held:
                    self._shift(node, one, comes)
                    return True
                if len(reached) < MOST_MOVED:
                    reached.append(self._held[node])
        self._held[begin] = one
        return False

    def _open_to(self, one: int) -> Iterator[int]:
        """Nodes to which a content may go, if what is there makes room."""
        mine, at = self._contents[one], self.node_of[one]
        if mine.levels is None or self._group[at] == ALONE:
            return
        alike: Bools = mine.able & (self._room == self._room[at]) & (self._group != ALONE)
        for level in mine.levels:
            place_of = self._problem.levels[level].place_of
            alike &= place_of == place_of[at]
        yield from np.flatnonzero(alike).tolist()

    def _shift(self, node: int, first: int, comes: Mapping[int, int]) -> None:
        """Along the way to an empty node each content goes one step further."""
        while True:
            one = self._held[node] = comes[node]
            self.node_of[one], node = node, self.node_of[one]
            if one == first:
                return
