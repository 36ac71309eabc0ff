"""Which placed gangs took the room of a waiting gang: it fits if they wait instead.

Gangs are left out of the plan one at a time, those of lowest priority and then
of fewest pods first, and only where counting says that enough comes free. When no single gang is
enough, several are left out together, and those that need not be left out are put back. The named
gangs were tried: without them the gang fits beside all the others. There may be other sets, and
smaller ones. Running gangs that must run, or that a disruption budget protects, are not left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from placement_service.entities.deadline import OutOfTime
from placement_service.entities.request import Snapshot
from placement_service.explain.capacity_bounds import CLUSTER, Headroom, Kind
from placement_service.formulation.arrays import Bools, Ints, pods_that_fit
from placement_service.formulation.eviction.disruption_budgets import budgets_hold
from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.open_gangs import MUST_RUN
from placement_service.formulation.plan import Plan, Units
from placement_service.formulation.problem import Gang, Problem
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.residual_capacity import ResidualCapacity

#: Trials for one gang: of single rivals, and of putting one of several back.
MAX_SINGLES = 4
MAX_RETURNS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Rival:
    """Gangs that can only be left out together: one, and those based on it.

    `takes` are its new pods as (pod class, distinct nodes, units).
    """

    gangs: tuple[GangIdx, ...]
    takes: tuple[tuple[ClassIdx, Ints, Ints], ...]


class _Gains(NamedTuple):
    """More pods that fit a domain without a rival, where there are any; `room` is how many fit each
    domain as it is.
    """

    who: Ints
    domains: Ints
    more: Ints
    room: Ints

    def within(self, pin: int) -> _Gains:
        """The same of one domain."""
        inside = self.domains == pin
        of_pin = np.zeros(int(inside.sum()), dtype=np.int64)
        return _Gains(self.who[inside], of_pin, self.more[inside], self.room[[pin]])


@dataclass(frozen=True, slots=True)
class Lack:
    """`missing` pods of a kind must fit one domain of a level, that of `pin` if not -1."""

    kind: Kind
    missing: int
    level: int = CLUSTER
    pin: int = -1


class Rivals:
    """The gangs with new pods in a plan, and the room that each of them takes."""

    def __init__(
        self,
        snapshot: Snapshot,
        problem: Problem,
        builder: Builder,
        residual: ResidualCapacity,
        plan: Plan,
        late: Callable[[], bool],
    ) -> None:
        """`residual` holds the plan; every call leaves it as it was.

        No more trials begin once it is `late`.
        """
        self._late = late
        self._snapshot = snapshot
        self.problem = problem
        self._builder = builder
        self._residual = residual
        self._plan = plan
        sets: dict[GangIdx, list[GangIdx]] = {i: [i] for i in plan}
        for i in plan:
            for base in problem.gangs[i].rests_on:
                if base in plan:
                    sets[base].append(i)
        self._rivals = tuple(
            sorted(
                (
                    Rival(tuple(sorted(gangs)), _takes(problem, gangs, plan))
                    for gangs in sets.values()
                    if all(problem.gangs[i].priority < MUST_RUN for i in gangs)
                ),
                key=self._price,
            )
        )
        # What each rival would free on each node.
        pairs = [
            (number, pod_class, nodes, units)
            for number, rival in enumerate(self._rivals)
            for pod_class, nodes, units in rival.takes
        ]
        count = problem.node_count
        keys = np.concatenate(
            [number * count + nodes for number, _, nodes, _ in pairs] or [np.zeros(0, np.int64)]
        )
        freed = np.concatenate(
            [units[:, None] * problem.request[pod_class] for _, pod_class, _, units in pairs]
            or [np.zeros((0, len(problem.columns)), np.int64)]
        )
        distinct, where = np.unique(keys, return_inverse=True)
        self._freed = np.zeros((len(distinct), freed.shape[1]), dtype=np.int64)
        np.add.at(self._freed, where, freed)
        self._known: dict[tuple[int, int], _Gains] = {}
        self._who, self._node = np.divmod(distinct, max(1, count))

    def _price(self, rival: Rival) -> tuple[object, ...]:
        gangs = [self.problem.gangs[i] for i in rival.gangs]
        pods = sum(int(units.sum()) for _, _, units in rival.takes)
        names = sorted(self._snapshot.gangs[g.index].name for g in gangs)
        return (max(g.priority for g in gangs), pods, names)

    def of(self, gang: Gang, headroom: Headroom, lacks: Sequence[Lack]) -> tuple[int, ...]:
        """Gangs without which `gang` fits; empty when none were found.

        `lacks` are all that must come free, as far as counting can say.
        """
        able = self._able.copy()
        for base in gang.rests_on:
            able[[i for i, rival in enumerate(self._rivals) if base in rival.gangs]] = False
        enough, helps = able.copy(), np.zeros(len(able), dtype=bool)
        for lack in lacks:
            gains = self._gains(headroom, lack)
            if not np.any(gains.room >= lack.missing):
                freed = np.zeros(len(able), dtype=bool)
                there = gains.room[gains.domains] + gains.more >= lack.missing
                freed[gains.who[there]] = True
                enough &= freed
            helps[gains.who] = True
        singles = sorted(np.flatnonzero(enough).tolist(), key=lambda i: not helps[i])
        for i in singles[:MAX_SINGLES]:
            if self._late():
                return ()
            if self._place_without(gang, [i]) is not None:
                return self._rivals[i].gangs
        several = self._several(gang, np.flatnonzero(able).tolist())
        return tuple(dict.fromkeys(g for i in several for g in self._rivals[i].gangs))

    def _several(self, gang: Gang, able: Sequence[int]) -> list[int]:
        """Rivals in the way of a placement that the gang has without any of them."""
        units = None
        # Those of higher priority are disturbed only if necessary.
        low = [i for i in able if self._priority(self._rivals[i]) <= gang.priority]
        for rivals in (low, able) if low and len(low) < len(able) else (able,):
            units = self._place_without(gang, rivals)
            if units is not None:
                break
        if units is None:
            return []
        taken = np.zeros_like(self._residual.free)
        for d, node, count in units:
            taken[node] += count * self.problem.request[gang.demands[d].pod_class]
        crowded = np.any(taken > self._residual.free, axis=1)
        here = set(self._who[crowded[self._node]].tolist())
        chosen = [i for i in rivals if i in here]
        if not chosen or self._place_without(gang, chosen) is None:
            # Not only room is in the way: some pods must not share a domain.
            chosen = list(rivals)
        for i in chosen[::-1][:MAX_RETURNS]:
            fewer = [k for k in chosen if k != i]
            if fewer and not self._late() and self._place_without(gang, fewer) is not None:
                chosen = fewer
        return chosen if self._may_go([self._rivals[i] for i in chosen]) else []

    @cached_property
    def _able(self) -> Bools:
        """Which rivals may go, each alone."""
        return np.array([self._may_go([rival]) for rival in self._rivals], dtype=bool)

    def _may_go(self, rivals: Sequence[Rival]) -> bool:
        """Whether disruption budgets let the running ones of some rivals go."""
        if not self.problem.budgets:
            return True
        gone = {i for rival in rivals for i in rival.gangs}
        return budgets_hold(self.problem, {i: u for i, u in self._plan.items() if i not in gone})

    def _priority(self, rival: Rival) -> int:
        return max(self.problem.gangs[i].priority for i in rival.gangs)

    def _gains(self, headroom: Headroom, lack: Lack) -> _Gains:
        """What each rival makes room for where something lacks."""
        key = (lack.kind.number, lack.level)
        if key not in self._known:
            of, count = headroom.regions(lack.level)
            row = headroom.row(lack.kind)
            after = pods_that_fit(self._residual.free[self._node] + self._freed, lack.kind.request)
            after[~lack.kind.eligible[self._node]] = 0
            more = after - row[self._node]
            domain = of[self._node]
            gained = (domain >= 0) & (more != 0)
            pairs, where = np.unique(
                self._who[gained] * count + domain[gained], return_inverse=True
            )
            sums = np.bincount(where, more[gained], len(pairs)).astype(np.int64)
            room = np.bincount(of[of >= 0], row[of >= 0], count).astype(np.int64)
            self._known[key] = _Gains(*np.divmod(pairs, max(1, count)), sums, room)
        gains = self._known[key]
        return gains.within(lack.pin) if lack.pin >= 0 else gains

    def _place_without(self, gang: Gang, rivals: Sequence[int]) -> Units | None:
        """Where a trial places the gang when some rivals are left out."""
        mark = self._residual.mark()
        gone = [g for i in rivals for g in self._rivals[i].gangs]
        self._residual.give_back((self.problem.gangs[g], self._plan[g]) for g in gone)
        try:
            return self._builder.place(self._residual, gang)
        except OutOfTime:
            return None
        finally:
            self._residual.undo(mark)


def _takes(
    problem: Problem, gangs: Sequence[GangIdx], plan: Plan
) -> tuple[tuple[ClassIdx, Ints, Ints], ...]:
    """The units of some gangs by pod class and node, so that the nodes of a class are distinct."""
    units: dict[ClassIdx, dict[int, int]] = {}
    for i in gangs:
        for d, node, count in plan[i]:
            per_node = units.setdefault(problem.gangs[i].demands[d].pod_class, {})
            per_node[node] = per_node.get(node, 0) + count
    return tuple(
        (pod_class, np.array(list(per_node)), np.array(list(per_node.values())))
        for pod_class, per_node in sorted(units.items())
    )


def residual_after(problem: Problem, plan: Plan) -> ResidualCapacity:
    """What is left once a plan is carried out."""
    residual = ResidualCapacity(problem)
    residual.take_plan(plan)
    return residual
