"""What a running gang can spare and still stay, where new pods take whole nodes from it.

A gang that stays loses `spare` pods at most. A node *J* that new pods take costs it all its `t_J`
pods there, so for each whole number `d`, with `w_J` the rounded `t_J / d`:

    sum of w_J load[J]  <=  most stay + sum of w_J |J| (1 - stay)      most = spare / d, rounded

The same holds for what parts of one level bring into one of its domains *D*. There the gang spares
nothing while no part is in *D*, so a part that is in ten domains by a tenth cannot use all that
the gang spares in each of them:

    sum of w_J mine[J] in D  <=  most sum of here[p, D] + (sum of w_J |J| in D - most) (1 - stay)

*Why it holds:* on the left stands at most what the gang loses, divided by `d`; what is lost of a
node is rounded, so the sum is at most the rounded whole. Where no part is in *D* the left is 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from placement_service.cp_sat.linear_model import LinearModel, summed
from placement_service.cp_sat.victims.level_loads import LevelDomain, LevelLoads, LoadAt


class Taken(NamedTuple):
    """Nodes of a class that new pods take from a gang: each new pod of the `crowd` of pod classes
    takes one, with `each` pods of the gang.
    """

    node_class: int
    crowd: Sequence[int]
    nodes: int
    each: int


class SparingGang(NamedTuple):
    """A running gang: what it spares, whether it stays, and what may be taken from it."""

    spare: int
    stay: int
    taken: Sequence[Taken]


class SpareRows:
    """Rows for one gang after another."""

    def __init__(
        self,
        model: LinearModel,
        load: dict[tuple[int, int], int],
        levels: LevelLoads,
        domains: dict[int, Sequence[int]],
    ) -> None:
        """`domains` are those of the node classes, by level."""
        self._model = model
        self._load = load
        self._levels = levels
        self._domains = domains

    def add(self, gang: SparingGang) -> None:
        """The rows of a gang that can spare pods."""
        for t in gang.taken:
            if t.each > gang.spare:
                loads = [(self._load[a, t.node_class], 1.0) for a in t.crowd]
                self._model.row([*loads, (gang.stay, float(t.nodes))], most=t.nodes)
        inside: defaultdict[LevelDomain, list[Taken]] = defaultdict(list)
        for t in gang.taken:
            for level, domain in self._domains.items():
                if domain[t.node_class] >= 0:
                    inside[LevelDomain(level, domain[t.node_class])].append(t)
        for by in sorted({1, *(t.each for t in gang.taken if t.each <= gang.spare)}):
            rounds = gang.spare % by or any(t.each % by for t in gang.taken)
            if rounds:
                # Otherwise it says the same as the rows of each node.
                self._in_all(gang, by)
            if rounds or by == 1:
                for at, taken in inside.items():
                    self._inside(gang, taken, at, by)

    def _in_all(self, gang: SparingGang, by: int) -> None:
        loads = [
            (self._load[a, t.node_class], float(t.each // by))
            for t in gang.taken
            for a in t.crowd
            if t.each >= by
        ]
        more = sum(t.nodes * (t.each // by) for t in gang.taken) - gang.spare // by
        if more > 0:
            terms = summed([*loads, (gang.stay, float(more))])
            self._model.row(terms, most=more + gang.spare // by)

    def _inside(self, gang: SparingGang, taken: Sequence[Taken], at: LevelDomain, by: int) -> None:
        most = gang.spare // by
        more = sum(t.nodes * (t.each // by) for t in taken) - most
        there = self._levels.there(at, {a for t in taken for a in t.crowd})
        if more <= 0 or not there:
            return
        loads: list[tuple[int, float]] = []
        for t in taken:
            for a in t.crowd:
                mine = self._levels.at(at.level, LoadAt(a, t.node_class))
                if mine is not None and t.each >= by:
                    loads.append((mine, float(t.each // by)))
        parts = [(y, -float(most)) for y in there]
        self._model.row(summed([*loads, *parts, (gang.stay, float(more))]), most=more)
