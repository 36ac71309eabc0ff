"""The cheapest nodes to clear for each number of slots in a domain, where running gangs may move.

A slot is a node that takes one pod of some class, and never two. What it costs to clear nodes is no
sum over them: a gang that can lose no pod moves whole for the first node, and leaves the others for
nothing; another gives up as many pods as it can spare. So of nodes with gangs in common all sets
are tried; where these are too many, those of the nodes that are cheapest alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import compress
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import Ints, fit, pods_that_fit
from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.problem import Gang
from placement_service.heuristic.victims.plan import VictimPlan
from placement_service.heuristic.victims.prices import Floats, least_of

#: Of so many nodes with gangs in common all sets are tried.
MOST_TOGETHER = 8


class Cleared(NamedTuple):
    """What it costs to clear some nodes, in pods, and the nodes."""

    cost: float
    nodes: tuple[int, ...]


class _Mover(NamedTuple):
    """A running gang: what it costs to move all of it, or a unit of each demand, and how many units
    of each requirement it can spare.
    """

    whole: float
    each: tuple[float, ...]
    spare: tuple[int, ...]


class ClearedSlots:
    """The slots of a pod class in the domains of a level, while nothing has moved. Pods that take a
    slot themselves when they move cost so much `again`.
    """

    def __init__(
        self, standing: VictimPlan, pod_class: ClassIdx, domain: Ints, again: float
    ) -> None:
        """`domain` is that of each node [N]."""
        problem, residual = standing.problem, standing.residual
        self._standing, self._domain = standing, domain
        request = problem.request[pod_class]
        #: How many slots a pod of each class could hold [S].
        self.takes: Ints = pods_that_fit(problem.request, request)
        self._again = again
        able = problem.eligible[pod_class] & (fit(problem.free, request) > 0)
        self._free: list[bool] = (residual.row(pod_class) > 0).tolist()
        self._inside: defaultdict[int, list[int]] = defaultdict(list)
        for n in np.flatnonzero(able & (domain >= 0)).tolist():
            self._inside[int(domain[n])].append(n)
        #: Units on each node, by gang and demand.
        self._units: defaultdict[int, dict[GangIdx, list[tuple[int, int]]]] = defaultdict(dict)
        for gang in problem.gangs:
            for home in gang.home:
                self._units[home.node].setdefault(gang.index, []).append((home.demand, home.units))
        self._movers: dict[GangIdx, _Mover] = {}
        #: What a gang can spare in a domain, where that is less than all that it can.
        self._limits: dict[tuple[int, GangIdx], tuple[int, ...]] = {}
        self._stuck: set[GangIdx] = set()
        #: Gangs that have left.
        self._left: set[GangIdx] = set()
        self._known: dict[int, list[Cleared]] = {}

    def of(self, domain: int) -> list[Cleared]:
        """For each number of slots, from none on, the cheapest nodes that are as many or more."""
        if domain not in self._known:
            self._known[domain] = self._find(domain)
        return self._known[domain]

    def limit(self, domain: int, gang: GangIdx, spare: tuple[int, ...]) -> None:
        """From now on a gang spares only so many units of each requirement in a domain."""
        self._limits[domain, gang] = spare
        self._known.pop(domain, None)

    def keep(self, gang: GangIdx) -> None:
        """From now on a gang does not move whole."""
        self._stuck.add(gang)
        self._left.discard(gang)
        self._forget(gang)

    def leave(self, gang: GangIdx) -> None:
        """From now on a gang counts as gone: it has a place elsewhere."""
        self._left.add(gang)
        self._forget(gang)

    def _forget(self, gang: GangIdx) -> None:
        self._movers.pop(gang, None)
        for home in self._standing.problem.gangs[gang].home:
            self._known.pop(int(self._domain[home.node]), None)

    def is_bound(self, gang: Gang) -> bool:
        """Whether pods of a gang take slots that have to be in one domain."""
        return any(scope.required >= 0 for scope in gang.scopes) and any(
            self.takes[demand.pod_class] for demand in gang.demands
        )

    def lost(self, nodes: Iterable[int]) -> dict[GangIdx, tuple[int, ...]]:
        """Units of each requirement that gangs lose on nodes that are cleared."""
        found: dict[GangIdx, list[int]] = {}
        for n in nodes:
            if not self._free[n]:
                for index, units in self._units[n].items():
                    of = self._standing.requirement_of(index)
                    mine = found.setdefault(index, [0] * len(self.spare(index)))
                    for d, count in units:
                        mine[of[d]] += count
        return {index: tuple(mine) for index, mine in found.items()}

    def spare(self, index: GangIdx) -> tuple[int, ...]:
        """Units of each requirement that a gang can spare."""
        return self._mover(index).spare

    def _mover(self, index: GangIdx) -> _Mover:
        if index not in self._movers:
            self._movers[index] = self._moving(self._standing.problem.gangs[index])
        return self._movers[index]

    def _moving(self, gang: Gang) -> _Mover:
        each = tuple(
            1.0 + self._again * int(self.takes[demand.pod_class]) for demand in gang.demands
        )
        whole = sum(home.units * each[home.demand] for home in gang.home)
        if gang.index in self._stuck or not self._standing.prices.may_go_whole(gang.index, gang):
            whole = np.inf
        at_home = [0] * len(gang.requirements)
        of = self._standing.requirement_of(gang.index)
        for home in gang.home:
            at_home[of[home.demand]] += home.units
        spare = [count - least_of(gang, q) for q, count in enumerate(at_home)]
        if gang.index in self._left:
            return _Mover(0.0, (0.0,) * len(each), (0,) * len(spare))
        if self.is_bound(gang):
            # Extras would need slots of the same domain.
            spare = [0] * len(spare)
        return _Mover(whole, each, tuple(spare))

    def _find(self, domain: int) -> list[Cleared]:
        nodes = self._inside[domain]
        free = tuple(n for n in nodes if self._free[n])
        best = [Cleared(0.0, free[:k]) for k in range(len(free) + 1)]
        single: list[Cleared] = []
        for group in self._groups([n for n in nodes if not self._free[n] and self._units[n]]):
            if len(group) == 1:
                single.append(Cleared(self._alone(domain, group[0]), tuple(group)))
            else:
                best = _joined(best, self._sets(domain, group))
        # Of those that nothing joins the cheapest are best.
        sums = [Cleared(0.0, ())]
        for one in sorted(single):
            sums.append(Cleared(sums[-1].cost + one.cost, sums[-1].nodes + one.nodes))
        best = [one for one in _joined(best, sums) if one.cost < np.inf]
        for k in range(len(best) - 2, -1, -1):
            if best[k + 1].cost <= best[k].cost:
                best[k] = best[k + 1]
        return best

    def _groups(self, nodes: Sequence[int]) -> list[list[int]]:
        """The nodes such that those with gangs in common are together."""
        group_of: dict[int, list[int]] = {}
        by_gang: dict[GangIdx, int] = {}
        for n in nodes:
            group_of[n] = [n]
            for index in self._units[n]:
                other = group_of[by_gang.setdefault(index, n)]
                mine = group_of[n]
                if other is not mine:
                    other += mine
                    for m in mine:
                        group_of[m] = other
        return list({id(group): group for group in group_of.values()}.values())

    def _sets(self, domain: int, nodes: Sequence[int]) -> list[Cleared]:
        """For each number of some nodes the cheapest that are so many."""
        if len(nodes) > MOST_TOGETHER:
            nodes = sorted(nodes, key=lambda n: self._alone(domain, n))[:MOST_TOGETHER]
        cost, (sets, sizes) = self._costs(domain, nodes), _subsets(len(nodes))
        order = np.lexsort((cost, sizes))
        first = order[np.searchsorted(sizes[order], np.arange(len(nodes) + 1))]
        return [Cleared(float(cost[k]), tuple(compress(nodes, sets[k]))) for k in first.tolist()]

    def _alone(self, domain: int, node: int) -> float:
        """What it costs to clear a single node."""
        total = 0.0
        for index, units in self._units[node].items():
            mover, of = self._mover(index), self._standing.requirement_of(index)
            left = list(self._limits.get((domain, index), mover.spare))
            for d, count in units:
                left[of[d]] -= count
            each = sum([count * mover.each[d] for d, count in units])
            total += mover.whole if min(left) < 0 else each
        return total

    def _costs(self, domain: int, nodes: Sequence[int]) -> Floats:
        """What each set of some nodes costs."""
        sets, _ = _subsets(len(nodes))
        gangs = sorted({index for n in nodes for index in self._units[n]})
        movers = [self._mover(index) for index in gangs]
        spare = [self._limits.get((domain, g), m.spare) for g, m in zip(gangs, movers, strict=True)]
        begin = np.cumsum([0, *map(len, spare)])
        priced = np.zeros((len(nodes), len(gangs)))
        lost = np.zeros((len(nodes), int(begin[-1])))
        for k, (index, mover) in enumerate(zip(gangs, movers, strict=True)):
            of = self._standing.requirement_of(index)
            for i, n in enumerate(nodes):
                for d, count in self._units[n].get(index, ()):
                    priced[i, k] += count * mover.each[d]
                    lost[i, begin[k] + of[d]] += count
        too_many = sets @ lost > np.concatenate(spare)
        goes_whole = np.logical_or.reduceat(too_many, begin[:-1], axis=1)
        whole = np.array([mover.whole for mover in movers])
        cost: Floats = np.where(goes_whole, whole, sets @ priced).sum(axis=1)
        return cost


@cache
def _subsets(count: int) -> tuple[Floats, Ints]:
    """All sets of so many things, as rows of zeros and ones, and their sizes."""
    sets = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1
    return sets.astype(np.float64), sets.sum(axis=1)


def _joined(one: Sequence[Cleared], other: Sequence[Cleared]) -> list[Cleared]:
    """For each number the cheapest of both together."""
    found = [Cleared(np.inf, ())] * (len(one) + len(other) - 1)
    for i, a in enumerate(one):
        for k, b in enumerate(other, i):
            if a.cost + b.cost < found[k].cost:
                found[k] = Cleared(a.cost + b.cost, a.nodes + b.nodes)
    return found
