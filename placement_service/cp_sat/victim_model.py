"""Which running gangs give way, and where those that wait go: a relaxation of the whole problem.

Nodes of one domain with the same room and the same pods are a class *J*. With `stay[g]` 1 for
a running gang that keeps its minimum, `keep[g, J]` its pods that stay on *J*, `load[s, J]`
units of a pod class *s* that waits, `here[p, D]` 1 for a part *p* that lies in domain *D*:

    sum of keep over J      >=  minimum(g) stay[g]          keep[g, J] <= pods(g, J) stay[g]
    sum request * (load + keep) on J  <=  |J| * what a node has when all have gone
    load[s, J] + keep[g, J] / t       <=  |J|     where s fits on no node with a pod of g
    sum of load in D        >=  units of the parts that lie inside D     for each domain D

*Why its optimum is a bound:* each plan gives a solution, as nothing here says more than the
rules do: rows of nodes alike are added up, which parts lie where is only counted, and rules
between pods are left out. The room that each gang may use is a column of its own (see
`formulation.running_gangs`), so nobody gains by a victim that it may not have.

With moves everything runs after the plan; `stay` says that a gang stays at home, and where
it goes otherwise is only counted in all.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.linear_model import Floats, LinearModel
from placement_service.formulation.arrays import Ints, fit
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Units, pods_of, units_of
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.scope_tree import Part, tree_of
from placement_service.formulation.tiers.goal import Admission, Terms

_NOWHERE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes alike; `pods` are units by (gang, demand's pod class) on each of them."""

    nodes: Ints
    pods: Mapping[tuple[int, int], int]


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

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem
        self.moves = any(g.keeps for g in problem.gangs)
        self.waiting = [g for g in problem.pending if not g.home]
        self.running = [g for g in problem.gangs if g.home]
        #: Admitted, for gangs that wait; staying, for those that run.
        self.placed = {g.index: self.variable(1) for g in (*self.waiting, *self.running)}
        self.extras = {
            g.index: self.variable(g.extras) for g in problem.gangs if g.placeable and g.extras
        }
        self._one = self.variable(1)
        self.row([(self._one, 1)], least=1)
        self._asked = sorted({d.pod_class for g in self.waiting for d in g.demands})
        self.parts = [p for g in self.waiting for p in _parts(problem, g)]
        self._levels = sorted({p.level for p in self.parts})
        self.classes = self._node_classes()
        #: Units that stay: of a gang by node class and pod class, in multiples of `placed` or
        #: a variable of their own.
        self.kept: dict[RunningUnits, _Stay] = {}
        self._keep()
        self.load: dict[tuple[int, int], int] = {}
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
            total = sum(mine.values())
            whole = total == self._least(gang)
            for (j, s), units in mine.items():
                if whole:
                    self.kept[RunningUnits(gang.index, j, s)] = _Stay(stay, units)
                else:
                    k = self.variable(units)
                    self.kept[RunningUnits(gang.index, j, s)] = _Stay(k, 1)
                    self.row([(k, 1), (stay, -units)], most=0)
            if not whole:
                # Pods of one requirement may be of several classes: all count together.
                ks = [(self.kept[RunningUnits(gang.index, j, s)].variable, 1.0) for j, s in mine]
                self.row([*ks, (stay, -self._least(gang))], least=0)
                extra = self.extras.get(gang.index)
                if extra is not None and not self.moves:
                    beyond = gang.extras - (total - self._least(gang))
                    self.row([(extra, 1), (stay, -gang.extras)], most=0)
                    self.row(
                        [(extra, 1), *((k, -w) for k, w in ks), (stay, self._least(gang))],
                        most=beyond,
                    )

    def _least(self, gang: Gang) -> int:
        """Units of a running gang that stay where it stays."""
        return sum(gang.keeps) if self.moves else gang.missing

    # --- nodes ----------------------------------------------------------------

    def _node_classes(self) -> list[NodeClass]:
        problem = self.problem
        pods: defaultdict[int, dict[tuple[int, int], int]] = defaultdict(dict)
        for gang in self.running:
            for home in gang.home:
                key = (gang.index, gang.demands[home.demand].pod_class)
                here = pods[home.node]
                here[key] = here.get(key, 0) + home.units
        eligible = problem.eligible[self._asked]
        domains = np.array([problem.levels[i].domain for i in self._levels], dtype=np.int64)
        # Pod classes of homes are a node's own, but nodes may be alike but for that.
        requests: dict[int, bytes] = {}
        found: dict[object, list[int]] = {}
        for n in range(problem.node_count):
            alike = []
            for (g, s), units in sorted(pods[n].items()):
                if s not in requests:
                    requests[s] = problem.request[s].tobytes()
                alike.append((g, requests[s], units))
            content: object = (
                domains[:, n].tobytes() if len(domains) else b"",
                problem.free[n].tobytes(),
                eligible[:, n].tobytes(),
                tuple(alike),
            )
            found.setdefault(content, []).append(n)
        return [NodeClass(np.array(nodes), pods[nodes[0]]) for nodes in found.values()]

    def _rooms(self) -> None:
        """Loads, and the rows of each node class."""
        problem = self.problem
        request, free = problem.request, problem.free
        asked = np.array(self._asked, dtype=np.int64)
        first = np.array([c.nodes[0] for c in self.classes])
        fits = np.array([fit(free[first], request[s]) for s in asked]).reshape(len(asked), -1)
        fits = np.where(problem.eligible[asked][:, first], fits, 0)
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
            for r in _that_bind(takes, free[n]):
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
        """Units of which a node holds one, and only where nobody is in the way."""
        problem = self.problem
        free = problem.free[n]
        node_class = self.classes[j]
        count = len(node_class.nodes)
        asked = problem.request[[self._asked[a] for a in alone]]
        for g, s in homes:
            mine = problem.request[s]
            in_the_way = (asked + mine > free).any(axis=1)
            crowd = [a for a, blocked in zip(alone, in_the_way, strict=True) if blocked]
            # Of these no node holds two.
            while crowd and not self._exclude_each_other(crowd, free):
                crowd = crowd[:-1]
            if crowd:
                v, units = self.kept[RunningUnits(g, j, s)]
                each = node_class.pods[g, s]
                self.row([*((self.load[a, j], 1.0) for a in crowd), (v, units / each)], most=count)

    def _exclude_each_other(self, crowd: Sequence[int], free: Ints) -> bool:
        asked = self.problem.request[[self._asked[a] for a in crowd]]
        both = asked[:, None, :] + asked[None, :, :]
        return bool((both > free).any(axis=2).all())

    # --- domains --------------------------------------------------------------

    def _domains(self) -> None:
        problem = self.problem
        number: dict[int, int] = {s: a for a, s in enumerate(self._asked)}
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
                    and _within(inside[other][e], inside[level][d])
                ):
                    inner += more
            self.row([*load, *((y, -float(k)) for y, k in inner)], least=0)

    def _most_of(self, a: int, j: int) -> float:
        v = self.load.get((a, j))
        return 0.0 if v is None else self.most(v)

    # --- all the rest -----------------------------------------------------------

    def _rest(self) -> None:
        """Units in all, bases, queues, budgets, extras."""
        loads: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        for (a, _), v in self.load.items():
            loads[a].append((v, 1.0))
        least: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        for gang in self.waiting:
            placed = self.placed[gang.index]
            for requirement in gang.requirements:
                classes = {gang.demands[d].pod_class for d in requirement.demands}
                if len(classes) == 1 and requirement.missing:
                    least[classes.pop()].append((placed, -float(requirement.missing)))
            extra = self.extras.get(gang.index)
            if extra is not None:
                self.row([(extra, 1), (placed, -gang.extras)], most=0)
            base = self.placed.get(gang.base)
            if base is not None:
                self.row([(placed, 1), (base, -1)], most=0)
        for a, s in enumerate(self._asked):
            if s in least:
                sums: defaultdict[int, float] = defaultdict(float)
                for v, w in least[s]:
                    sums[v] += w
                self.row([*loads[a], *sums.items()], least=0)
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
            for gang in self.waiting:
                if gang.index in row.gangs:
                    terms[self.placed[gang.index]] += sum(
                        q.missing * min(weight[gang.demands[d].pod_class] for d in q.demands)
                        for q in gang.requirements
                        if q.missing
                    )
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
        """Enough pods stay; which of equal pods a demand's are is told by their class."""
        for budget in self.problem.budgets:
            covered: defaultdict[GangIdx, set[int]] = defaultdict(set)
            for g, d in budget.demands:
                covered[g].add(self.problem.gangs[g].demands[d].pod_class)
            terms: defaultdict[int, float] = defaultdict(float)
            for (g, _, s), (v, units) in self.kept.items():
                if s in covered.get(g, ()):
                    terms[v] += units
            self.row(list(terms.items()), least=budget.least)

    def _everything_has_room(self) -> None:
        """What is moved runs somewhere: all that runs and comes has room in all."""
        problem = self.problem
        total = problem.free.sum(axis=0, dtype=np.float64)
        for r in range(len(problem.columns)):
            runs = sum(
                h.units * int(problem.request[g.demands[h.demand].pod_class, r])
                for g in self.running
                for h in g.home
            )
            terms = [
                (v, float(problem.request[self._asked[a], r]))
                for (a, _), v in self.load.items()
                if problem.request[self._asked[a], r]
            ]
            if terms:
                self.row(terms, most=max(0.0, float(total[r]) - runs))

    # --- what a solution says -----------------------------------------------------

    def target(self, values: Floats) -> Target:
        """Who stays with how much, and the nodes that each waiting gang is meant to use."""
        staying: dict[GangIdx, dict[tuple[int, int], int]] = {}
        for gang in self.running:
            if values[self.placed[gang.index]] > 0.5:
                staying[gang.index] = {}
        for (g, j, s), (v, units) in sorted(self.kept.items()):
            left = round(values[v] * units) if g in staying else 0
            each = self.classes[j].pods[g, s]
            for n in self.classes[j].nodes[: -(-left // each)].tolist():
                here = min(each, left)
                staying[g][s, n] = here
                left -= here
        number: dict[int, int] = {s: a for a, s in enumerate(self._asked)}
        used: dict[int, list[int]] = defaultdict(list)
        for (a, j), v in self.load.items():
            if values[v] > 0.5:
                used[a].append(j)
        domains: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for (p, d), v in self.here.items():
            if values[v] > 0.5:
                domains[self.parts[p].gang].append((self.parts[p].level, d))
        places: dict[int, Ints] = {}
        for gang in self.waiting:
            if values[self.placed[gang.index]] > 0.5:
                js = sorted({j for d in gang.demands for j in used[number[d.pod_class]]})
                nodes = np.sort(np.concatenate([self.classes[j].nodes for j in js] or [_NOWHERE]))
                if domains[gang.index]:
                    inside = [
                        self.problem.levels[level].domain[nodes] == d
                        for level, d in domains[gang.index]
                    ]
                    nodes = nodes[np.any(inside, axis=0)]
                places[gang.index] = nodes
        return Target(
            {
                g: units_of({(self._demand_at(g, s, n), n): k for (s, n), k in mine.items()})
                for g, mine in staying.items()
            },
            places,
        )

    def _demand_at(self, gang: GangIdx, pod_class: int, node: int) -> int:
        """The demand of a running gang whose pods of a class are on a node."""
        demands = self.problem.gangs[gang].demands
        return next(
            h.demand
            for h in self.problem.gangs[gang].home
            if h.node == node and self._alike(demands[h.demand].pod_class, pod_class)
        )

    def _alike(self, one: int, other: int) -> bool:
        request = self.problem.request
        return one == other or bool((request[one] == request[other]).all())

    # --- goals ----------------------------------------------------------------

    def admissions(self) -> Iterable[Admission[int]]:
        for gang in self.waiting:
            yield Admission(self.placed[gang.index], [gang.index])
        for gang in self.running:
            # What is moved runs, wherever it goes.
            placed = self._one if self.moves else self.placed[gang.index]
            yield Admission(placed, [gang.index])

    def lesser(self, terms: Terms[int], most: int) -> int:
        unit = math.gcd(most, *(w for _, w in terms)) or 1
        variable = self.variable(most, whole=False, unit=unit)
        self.row([(variable, 1), *((v, -float(w)) for v, w in _added(terms))], most=0)
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
            self.row(_added(terms), least=at_least)
        if at_most is not None:
            self.row(_added(terms), most=at_most)


@dataclass(frozen=True, slots=True)
class Target:
    """Worth aiming at: units that stay, by gang, and nodes for each gang that comes."""

    staying: Mapping[GangIdx, Units]
    places: Mapping[int, Ints]


@dataclass(frozen=True, slots=True)
class WaitingPart:
    """What of a waiting gang lies in one domain of a level: units by pod class."""

    gang: GangIdx
    level: int
    pin: int
    units: Mapping[int, int]


def _parts(problem: Problem, gang: Gang) -> Iterator[WaitingPart]:
    tree = tree_of(problem, gang)
    if tree is None:
        return
    stack: list[Part] = [tree]
    while stack:
        part = stack.pop()
        stack += part.children
        if part.required < 0 or part.scope is None:
            continue
        inside = set(part.demands)
        units: defaultdict[int, int] = defaultdict(int)
        for q in gang.requirements:
            classes = {gang.demands[d].pod_class for d in q.demands}
            if q.missing and inside.issuperset(q.demands) and len(classes) == 1:
                units[classes.pop()] += q.missing
        if units:
            yield WaitingPart(gang.index, part.required, part.scope.pin, dict(units))


def _that_bind(takes: Ints, free: Ints) -> list[int]:
    """Resources that may run out on a node; of two of which one always runs out first, that."""
    used = np.flatnonzero(takes.any(axis=0))
    share = takes[:, used] / np.maximum(free[used], 1)
    keep: list[int] = []
    for k in range(len(used)):
        beaten = any(
            (share[:, m] >= share[:, k]).all() and (m < k or (share[:, m] > share[:, k]).any())
            for m in range(len(used))
            if m != k
        )
        if not beaten:
            keep.append(int(used[k]))
    return keep


def _within(inner: Sequence[int], outer: Sequence[int]) -> bool:
    return set(inner) <= set(outer)


def _added(terms: Terms[int]) -> list[tuple[int, int]]:
    """Each variable once."""
    sums: defaultdict[int, int] = defaultdict(int)
    for v, w in terms:
        sums[v] += w
    return list(sums.items())
