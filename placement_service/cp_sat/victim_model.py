"""Which running gangs give way, and where waiting gangs go: a relaxation of the whole problem.
Nodes of one domain with the same room and the same pods are a class *J*. With `stay[g]` 1 for a
running gang that keeps its minimum, `keep[g, J]` its pods that stay on *J*, `load[s, J]` units of a
pod class *s* that waits, `here[p, D]` 1 for a part *p* that lies in domain *D*:

    sum of keep over J      >=  minimum(g) stay[g]          keep[g, J] <= pods(g, J) stay[g]
    sum request * (load + keep) on J  <=  |J| * what a node has when all have gone
    load[s, J] + keep[g, J] / t       <=  |J|     where s fits on no node with a pod of g
    sum of load in D        >=  units of the parts that lie inside D     for each domain D

*Why its optimum is a bound:* each plan gives a solution, because nothing here is stricter than the
rules: the rows of nodes that are alike are added up, where parts lie is only counted, and rules
between pods are left out. The room that each gang may use is a column of its own (see
`formulation.running_gangs`), so no gang gains from a victim that it may not evict.

With moves everything runs after the plan; `stay` says that a gang stays at home, and where
it goes otherwise is only counted in all.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.level_loads import LevelLoads
from placement_service.cp_sat.linear_model import LinearModel, summed
from placement_service.cp_sat.spare_pods import SpareRows, SparingGang, Taken
from placement_service.cp_sat.victim_nodes import (
    covered_by,
    exclude_each_other,
    node_classes,
    that_bind,
)
from placement_service.cp_sat.victim_reach import most_that_come
from placement_service.cp_sat.waiting_parts import parts_of
from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.plan import pods_of
from placement_service.formulation.problem import Gang, GroupRequirement, Problem
from placement_service.formulation.tiers.goal import Admission, Terms

#: A sum of variables with weights.
_Terms = list[tuple[int, float]]


class RunningUnits(NamedTuple):
    """Units of one pod class of a running gang on the nodes of a class."""

    gang: GangIdx
    node_class: int
    pod_class: int


class _Stay(NamedTuple):
    """How many of them stay: so many times a variable."""

    variable: int
    times: int


class VictimModel(LinearModel):
    """The relaxation, as a model of goals; variables are numbers."""

    def __init__(
        self, problem: Problem, settled: Collection[GangIdx] = (), *, sharp: bool = False
    ) -> None:
        """`settled` are running gangs that keep their minimum in all plans that matter. A `sharp`
        model distinguishes what each level brings: it bounds more, and takes longer.
        """
        super().__init__()
        self.problem = problem
        self._settled = frozenset(settled)
        self._sharp = sharp
        self.moves = any(g.keeps for g in problem.gangs)
        self.waiting = [g for g in problem.pending if not g.home]
        self.running = [g for g in problem.gangs if g.home]
        #: Admitted, for gangs that wait; staying, for those that run.
        self.placed = {g.index: self.variable(1) for g in (*self.waiting, *self.running)}
        self.extras = {
            g.index: self.variable(g.extras) for g in problem.gangs if g.placeable and g.extras
        }
        self._one = self.variable(1)
        for one in (self._one, *(self.placed[g] for g in sorted(self._settled))):
            self.row([(one, 1)], least=1)
        self.asked = sorted(
            {
                g.demands[d].pod_class
                for g in (*self.waiting, *self.running)
                for d in _new_demands(g)
            }
        )
        self.parts = [p for g in self.waiting for p in parts_of(problem, g)]
        self._levels = sorted({p.level for p in self.parts})
        self.classes = node_classes(problem, self.asked, self._levels)
        #: Units that stay: of a gang by node class and pod class, in multiples of `placed` or
        #: a variable of their own.
        self.kept: dict[RunningUnits, _Stay] = {}
        #: The same by gang, as terms.
        self._stays: defaultdict[GangIdx, _Terms] = defaultdict(list)
        self._keep()
        #: Units that come, as terms: of a gang by pod class.
        self.come: defaultdict[tuple[GangIdx, ClassIdx], _Terms] = defaultdict(list)
        for gang in self.waiting:
            self._come(gang)
        for gang in self.running:
            self._goes_on(gang)
        self.load: dict[tuple[int, int], int] = {}
        #: Nodes that new pods may take from a gang.
        self._taken: defaultdict[GangIdx, list[Taken]] = defaultdict(list)
        self._rooms()
        #: Whether a part is in a domain of its level.
        self.here: dict[tuple[int, int], int] = {}
        self._domains()
        self._rest()

    # --- running gangs --------------------------------------------------------

    def _keep(self) -> None:
        where: defaultdict[int, dict[tuple[int, int], int]] = defaultdict(dict)
        for j, node_class in enumerate(self.classes):
            for (g, s), units in node_class.pods.items():
                where[g][j, s] = units * len(node_class.nodes)
        for gang in self.running:
            stay = self.placed[gang.index]
            mine = where[gang.index]
            # All of it, or nothing.
            whole = sum(mine.values()) == self._least(gang) and not _new_demands(gang)
            for (j, s), units in mine.items():
                kept = _Stay(stay, units) if whole else _Stay(self.variable(units), 1)
                self.kept[RunningUnits(gang.index, j, s)] = kept
                self._stays[gang.index].append((kept.variable, float(kept.times)))
                if not whole:
                    self.row([(kept.variable, 1), (stay, -units)], most=0)

    def _come(self, gang: Gang) -> None:
        """A gang that waits gets its minimum, requirement by requirement, and extras."""
        placed = self.placed[gang.index]
        beyond: _Terms = []
        for q in gang.requirements:
            coming = self._coming(gang, q)
            if coming != [(placed, q.missing)]:
                least = [*coming, (placed, -float(q.missing))]
                self.row(least, least=0)
                beyond += least
        self._beyond(gang, beyond)

    def _goes_on(self, gang: Gang) -> None:
        """A gang that runs has its minimum of what stays and what comes, and extras."""
        placed = self.placed[gang.index]
        stays = self._stays[gang.index]
        coming = [term for q in gang.requirements for term in self._coming(gang, q)]
        # It is not known which of its alike pods belong to which requirement, so all count
        # together.
        least: _Terms = [*stays, (placed, -float(self._least(gang)))]
        if self.moves:
            self._at_least_nothing(least)
            self._beyond(gang, coming)
        else:
            self._at_least_nothing([*least, *coming])
            self._beyond(gang, [*least, *coming])

    def _at_least_nothing(self, terms: _Terms) -> None:
        sums = summed(terms)
        if any(w for _, w in sums):
            self.row(sums, least=0)

    def _beyond(self, gang: Gang, terms: _Terms) -> None:
        """Extras of a gang are its pods beyond the minimum."""
        extra = self.extras.get(gang.index)
        if extra is not None:
            self.row([(extra, 1.0), *((v, -w) for v, w in summed(terms))], most=0)

    def _coming(self, gang: Gang, q: GroupRequirement) -> _Terms:
        """Units of a requirement that come."""
        count: defaultdict[ClassIdx, int] = defaultdict(int)
        for d in _new_demands(gang).intersection(q.demands):
            count[gang.demands[d].pod_class] += gang.demands[d].count
        placed = self.placed[gang.index]
        found: _Terms = []
        for s, units in sorted(count.items()):
            if not gang.home and len(count) == 1 and q.missing == q.pending:
                term = placed, float(q.missing)
            else:
                term = self.variable(units), 1.0
                if not (gang.home and self.moves):
                    self.row([term, (placed, -units)], most=0)
            self.come[gang.index, s].append(term)
            found.append(term)
        return found

    def _least(self, gang: Gang) -> int:
        """Units of a running gang that stay where it stays."""
        return sum(gang.keeps) if self.moves else gang.missing

    # --- nodes ----------------------------------------------------------------

    def _rooms(self) -> None:
        """Loads, and the rows of each node class."""
        problem = self.problem
        request, free = problem.request, problem.free
        asked = np.array(self.asked, dtype=np.int64)
        first = np.array([c.nodes[0] for c in self.classes])
        bringing = [g for g in (*self.waiting, *self.running) if _new_demands(g)]
        fits = most_that_come(
            problem, self.classes, self.asked, bringing, self.parts, self._settled
        )
        at_class: defaultdict[int, list[tuple[GangIdx, int]]] = defaultdict(list)
        for g, j, s in self.kept:
            at_class[j].append((g, s))
        for j, node_class in enumerate(self.classes):
            count, n = len(node_class.nodes), int(first[j])
            able = np.flatnonzero(fits[:, j])
            if not len(able):
                continue
            for a in able.tolist():
                self.load[a, j] = self.variable(int(fits[a, j]) * count)
            homes = at_class[j]
            takes = np.concatenate([request[asked[able]], request[[s for _, s in homes]]])
            for r in that_bind(takes, free[n]):
                terms = [(self.load[int(a), j], float(request[asked[a], r])) for a in able]
                sums: defaultdict[int, float] = defaultdict(float)
                for g, s in homes:
                    v, units = self.kept[RunningUnits(g, j, s)]
                    sums[v] += float(request[s, r]) * units
                terms += [(v, w) for v, w in sums.items() if w]
                self.row(terms, most=count * int(free[n, r]))
            alone = [a for a in able.tolist() if fits[a, j] == 1]
            if alone:
                self._conflicts(j, alone, homes, n)

    def _conflicts(
        self, j: int, alone: Sequence[int], homes: Sequence[tuple[GangIdx, int]], n: int
    ) -> None:
        """Units of which a node holds one, and only where no running pod is in the way."""
        problem = self.problem
        free = problem.free[n]
        node_class = self.classes[j]
        count = len(node_class.nodes)
        asked = problem.request[[self.asked[a] for a in alone]]
        for g, s in homes:
            mine = problem.request[s]
            in_the_way = (asked + mine > free).any(axis=1)
            crowd = [a for a, blocked in zip(alone, in_the_way, strict=True) if blocked]
            # Of these no node holds two.
            while crowd and not exclude_each_other(
                problem.request[[self.asked[a] for a in crowd]], free
            ):
                crowd = crowd[:-1]
            if crowd:
                v, units = self.kept[RunningUnits(g, j, s)]
                each = node_class.pods[g, s]
                self.row([*((self.load[a, j], 1.0) for a in crowd), (v, units / each)], most=count)
                self._taken[g].append(Taken(j, crowd, count, each))

    # --- domains --------------------------------------------------------------

    def _domains(self) -> None:
        problem = self.problem
        number: dict[int, int] = {s: a for a, s in enumerate(self.asked)}
        first = np.array([c.nodes[0] for c in self.classes])
        #: By level and domain, the node classes there.
        inside: dict[int, dict[int, list[int]]] = {}
        for level in self._levels:
            mine: defaultdict[int, list[int]] = defaultdict(list)
            for j, d in enumerate(problem.levels[level].domain[first].tolist()):
                if d >= 0:
                    mine[d].append(j)
            inside[level] = mine
        offers: dict[tuple[int, int, int], float] = {}
        needs: defaultdict[tuple[int, int, int], list[tuple[int, int]]] = defaultdict(list)
        for p, part in enumerate(self.parts):
            choices = []
            for d, js in inside[part.level].items():
                if part.pin >= 0 and part.pin != d:
                    continue
                for s in part.units:
                    if (part.level, d, number[s]) not in offers:
                        offers[part.level, d, number[s]] = sum(
                            self._most_of(number[s], j) for j in js
                        )
                if all(offers[part.level, d, number[s]] >= k for s, k in part.units.items()):
                    y = self.here[p, d] = self.variable(1)
                    choices.append((y, 1.0))
                    for s, k in part.units.items():
                        needs[part.level, d, number[s]].append((y, k))
            self.row([*choices, (self.placed[part.gang], -1.0)], least=0, most=0)
        for (level, d, a), parts in needs.items():
            load = [(self.load[a, j], 1.0) for j in inside[level][d] if (a, j) in self.load]
            inner = list(parts)
            for (other, e, b), more in needs.items():
                if (
                    b == a
                    and other != level
                    and inside[other][e]
                    and set(inside[other][e]) <= set(inside[level][d])
                ):
                    inner += more
            self.row([*load, *((y, -float(k)) for y, k in inner)], least=0)

        self._spare(inside, number)

    def _spare(self, inside: dict[int, dict[int, list[int]]], number: Mapping[int, int]) -> None:
        """What each level brings, and what running gangs can spare of it."""
        comes, own = Counter[ClassIdx](), Counter[tuple[int, int]]()
        for gang in (*self.waiting, *self.running):
            for d in _new_demands(gang):
                comes[gang.demands[d].pod_class] += gang.demands[d].count
        for part in self.parts:
            for s, units in part.own.items():
                own[part.level, s] += units
        lone = {(level, number[s]) for (level, s), n in own.items() if n == comes[ClassIdx(s)]}
        levels = LevelLoads(self, self.load, inside, lone)
        if self._sharp:
            levels.add(self.parts, self.here, number)
        first = [int(c.nodes[0]) for c in self.classes]
        domains = {lv: self.problem.levels[lv].domain[first].tolist() for lv in self._levels}
        rows = SpareRows(self, self.load, levels, domains)
        for gang in self.running:
            coming = 0 if self.moves else sum(gang.demands[d].count for d in _new_demands(gang))
            spare = sum(home.units for home in gang.home) + coming - self._least(gang)
            # Where nothing can be spared, the rows of each node say so.
            if spare > 0 and self._taken[gang.index]:
                rows.add(SparingGang(spare, self.placed[gang.index], self._taken[gang.index]))

    def _most_of(self, a: int, j: int) -> float:
        v = self.load.get((a, j))
        return 0.0 if v is None else self.most(v)

    # --- all the rest -----------------------------------------------------------

    def _rest(self) -> None:
        """Units in all, bases, queues, budgets, extras."""
        loads: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        for (a, _), v in self.load.items():
            loads[a].append((v, 1.0))
        for gang in self.waiting:
            base = self.placed.get(gang.base)
            if base is not None:
                self.row([(self.placed[gang.index], 1), (base, -1)], most=0)
        coming: defaultdict[ClassIdx, _Terms] = defaultdict(list)
        for (_, s), terms in self.come.items():
            coming[s] += [(v, -w) for v, w in terms]
        for a, s in enumerate(self.asked):
            self.row([*loads[a], *summed(coming[s])], least=0)
        for gang in () if self.moves else self.running:
            if gang.base in self.placed:
                self.row([(self.placed[gang.index], 1), (self.placed[gang.base], -1)], most=0)
        self._queues()
        self._budgets()
        if self.moves:
            self._everything_has_room()

    def _queues(self) -> None:
        for row in self.problem.queue_rows:
            terms: defaultdict[int, float] = defaultdict(float)
            weight = row.weight.tolist()
            for (gang, pod_class), coming in self.come.items():
                if gang in row.gangs:
                    for v, w in coming:
                        terms[v] += weight[pod_class] * w
            for (g, _, s), (v, units) in self.kept.items():
                if g in row.gangs and not self.moves:
                    terms[v] += int(row.weight[s]) * units
            if self.moves:
                rest = sum(
                    int(row.weight[g.demands[h.demand].pod_class]) * h.units
                    for g in self.running
                    if g.index in row.gangs
                    for h in g.home
                )
            else:
                rest = 0
            if terms:
                self.row([(v, w) for v, w in terms.items() if w], most=row.capacity - rest)

    def _budgets(self) -> None:
        """Enough pods stay. The class of a pod determines its demand."""
        for budget in self.problem.budgets:
            covered = covered_by(self.problem, budget)
            terms: defaultdict[int, float] = defaultdict(float)
            for (g, _, s), (v, units) in self.kept.items():
                if s in covered.get(g, ()):
                    terms[v] += units
            self.row(list(terms.items()), least=budget.least)

    def _everything_has_room(self) -> None:
        """Moved pods run somewhere: there is room in all for all pods that run or come."""
        problem = self.problem
        total = problem.free.sum(axis=0, dtype=np.float64)
        for r in range(len(problem.columns)):
            runs = sum(
                h.units * int(problem.request[g.demands[h.demand].pod_class, r])
                for g in self.running
                for h in g.home
            )
            terms = [
                (v, float(problem.request[self.asked[a], r]))
                for (a, _), v in self.load.items()
                if problem.request[self.asked[a], r]
            ]
            if terms:
                self.row(terms, most=max(0.0, float(total[r]) - runs))

    # --- goals ----------------------------------------------------------------

    def admissions(self) -> Iterable[Admission[int]]:
        for gang in self.waiting:
            yield Admission(self.placed[gang.index], [gang.index])
        for gang in self.running:
            # Moved pods run, wherever they go.
            placed = self._one if self.moves else self.placed[gang.index]
            yield Admission(placed, [gang.index])

    def lesser(self, terms: Terms[int], most: int) -> int:
        unit = math.gcd(most, *(w for _, w in terms)) or 1
        variable = self.variable(most, whole=False, unit=unit)
        self.row([(variable, 1), *((v, -float(w)) for v, w in summed(terms))], most=0)
        return variable

    def extra_units(self, priority: int | None) -> Terms[int]:
        gangs = self.problem.gangs
        return [(v, 1) for g, v in self.extras.items() if priority in (None, gangs[g].priority)]

    def kept_pods(self) -> Terms[int]:
        each: dict[tuple[int, int], int] = {
            (g.index, d.pod_class): pods_of(g, k)
            for g in self.running
            for k, d in enumerate(g.demands)
        }
        return [(v, units * each[g, s]) for (g, _, s), (v, units) in self.kept.items()]

    def topology_cost(self) -> Terms[int]:
        return []

    def fragmentation_cost(self) -> None:
        return None

    def hold(
        self, terms: Terms[int], *, at_least: int | None = None, at_most: int | None = None
    ) -> None:
        if at_least is not None:
            self.row(summed(terms), least=at_least)
        if at_most is not None:
            self.row(summed(terms), most=at_most)


def _new_demands(gang: Gang) -> frozenset[int]:
    """The demands of a gang whose units are not at home now."""
    return frozenset(range(len(gang.demands))) - {home.demand for home in gang.home}
