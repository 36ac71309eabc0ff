"""The variables of the aggregate model, and what each of them stands for.

From gangs inwards: a gang that is placed demands parts, a part that opens in a domain demands
units and further parts there. How many parts can be demanded bounds how many can open, so the
variables of a kind are made after those of all kinds that contain it. Nothing is constrained
here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from ortools.sat.python import cp_model

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.aggregate.domain_forest import ROOT, Forest
from placement_service.cp_sat.aggregate.part_types import Ask, Kind, Kinds
from placement_service.cp_sat.aggregate.tally import (
    Large,
    Load,
    Loose,
    PartsAt,
    Tally,
    UnitsOfOne,
    UnitsOfParts,
)
from placement_service.cp_sat.aggregate.vertex_capacity import VertexCapacity
from placement_service.cp_sat.node_classes import classify
from placement_service.cp_sat.parameters import ModelParameters
from placement_service.cp_sat.solving import Var
from placement_service.cp_sat.subproblem import Subproblem
from placement_service.entities.deadline import check_time
from placement_service.formulation.arrays import Ints
from placement_service.formulation.tiers.goal import Terms
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN


class TooManyVariables(Exception):
    """Nodes are so unlike that there would be more loads of them than the model may have."""


class Located(NamedTuple):
    """A multiple of a variable, in a vertex."""

    vertex: int
    var: Var
    times: int


class Asked(NamedTuple):
    """Units that `times` parts ask for in a vertex; `choices` are empty where none is left."""

    ask: Ask
    times: Terms[Var]
    choices: dict[int, Var]


class LargePart(NamedTuple):
    """A part told apart from others of its kind, and the domains `beyond` its first.

    `spots` are where its units may lie; ROOT among them stands for nodes in no domain.
    """

    part: Large[Var]
    beyond: Var
    spots: list[int]


@dataclass(slots=True, eq=False)
class OfKind:
    """Where parts of a kind are demanded, and where they open."""

    demand: list[Located] = field(default_factory=list)
    supply: list[Located] = field(default_factory=list)
    large: list[LargePart] = field(default_factory=list)


class AggregateVariables:
    """Variables by what they count (`tally`), and what they ask for."""

    def __init__(
        self,
        counting: Counting,
        forest: Forest,
        subproblem: Subproblem,
        parameters: ModelParameters,
        most_variables: int | None = None,
        until: float = math.inf,
    ) -> None:
        """Raises TooManyVariables when there would be more than that, OutOfTime after `until`."""
        self.cp = cp_model.CpModel()
        self.problem = counting.problem
        self.forest = forest
        self.parameters = parameters
        self.kinds = Kinds(counting, forest, subproblem.gangs, subproblem.fixed, until)
        count: dict[int, int] = {}
        for g in subproblem.gangs:
            for d in g.demands:
                count[d.pod_class] = count.get(d.pod_class, 0) + d.count
        self.pod_classes = sorted(count)
        self.classes = classify(
            self.problem,
            subproblem.free,
            subproblem.nodes,
            self.pod_classes,
            [count[s] for s in self.pod_classes],
            forest.levels,
            (),
            parameters,
            until,
        )
        self._until = until
        self._most_variables = most_variables
        # There may be as many classes as nodes, and building them takes seconds.
        self._check_size(sum(sum(map(bool, c.most)) for c in self.classes))
        #: The vertices that hold each class of nodes, from ROOT to the narrowest.
        self.paths = [
            tuple(int(v) for v in forest.holds[:, c.nodes[0]] if v >= 0) for c in self.classes
        ]
        self.capacity = VertexCapacity(
            forest, self.kinds, self.pod_classes, self.classes, self.paths, subproblem.free
        )
        self._at_depth: dict[int, list[int]] = {}
        for v in sorted({v for path in self.paths for v in path}):
            self._at_depth.setdefault(forest.depth_of[v], []).append(v)

        self.upper: dict[int, int] = {}
        self.tally: Tally[Var] = Tally()
        #: By kind.
        self.parts: dict[int, OfKind] = {}
        #: By pod class.
        self.units: dict[int, list[Located]] = {}
        self.asked: list[Asked] = []
        #: Gangs of a group that are in no whole set.
        self.singles: list[Terms[Var]] = []
        #: By family: sets that have all their gangs and are in several domains.
        self.split_sets: dict[int, Var] = {}
        #: By `Ask.priority`.
        self.extras: dict[int, Terms[Var]] = {}
        self.costs: Terms[Var] = []
        #: What is taken of the rows of queues.
        self.taken: list[Terms[Var]] = [[] for _ in self.problem.queue_rows]

        self._gangs()
        # A part's kind has a larger index than those of its own parts.
        for k in range(len(self.kinds.kinds) - 1, -1, -1):
            if k in self.parts:
                self._parts(k)
        self._loads()

    def new(self, most: int) -> Var:
        """A count from 0 to `most`."""
        self.check_time()
        var = self.cp.new_int_var(0, most, "")
        self._check_size(var.index + 1)
        self.upper[var.index] = most
        return var

    def check_time(self) -> None:
        """Raises OutOfTime where the time to build the model is over."""
        check_time(self._until)

    def _check_size(self, variables: int) -> None:
        if self._most_variables is not None and variables > self._most_variables:
            raise TooManyVariables

    def total(self, kind: int) -> int:
        """At most so many parts of a kind are asked for."""
        return sum(max(0, d.times) * self.upper[d.var.index] for d in self.parts[kind].demand)

    # --- gangs ------------------------------------------------------------------------

    def _gangs(self) -> None:
        kinds = self.kinds
        z = [self.new(len(g.gangs)) for g in kinds.groups]
        self.tally.gangs = dict(enumerate(z))
        self.singles = [[(v, 1)] for v in z]
        for f, family in enumerate(kinds.families):
            if family.whole < 0:
                continue
            whole = self.tally.sets[f] = self.new(len(family.sets))
            self._demand(family.whole, Located(ROOT, whole, 1))
            for at, times in family.scaled.items():
                self.singles[at].append((whole, -times))
            self.singles[family.base].append((whole, -1))
            if not self.capacity.fits_outside(family.whole, self._set_level(f)):
                self.split_sets[f] = self.new(len(family.sets))
                self.costs.append((self.split_sets[f], UNITS_PER_DOMAIN))
        for g, group in enumerate(kinds.groups):
            for kind, times in group.content.kinds:
                for v, w in self.singles[g]:
                    self._demand(kind, Located(ROOT, v, w * times))
            for i, ask in enumerate(group.content.asks):
                choices = self._ask(ROOT, ask, self.singles[g], len(group.gangs))
                for choice, v in choices.items():
                    self.tally.loose[Loose(g, i, choice)] = v

    def _set_level(self, f: int) -> int:
        base, scaled, _ = self.kinds.families[f].sets[0]
        gangs = [self.problem.gangs[i] for i in (base, *scaled)]
        return next(g.set_level for g in gangs if g.set_level >= 0)

    # --- parts and units ----------------------------------------------------------------

    def _demand(self, kind: int, located: Located) -> None:
        self.parts.setdefault(kind, OfKind()).demand.append(located)

    def _ask(self, at: int, ask: Ask, times: Terms[Var], most: int) -> dict[int, Var]:
        """Units that `times` parts ask for, lying in `at`; variables where there is a choice."""
        if ask.is_certain:
            pod_class = ask.pod_classes[0][0]
            for v, w in times:
                self._unit(ask, pod_class, Located(at, v, w * ask.least))
            return {}
        choices: dict[int, Var] = {}
        for i, (pod_class, cap) in enumerate(ask.pod_classes):
            v = choices[i] = self.new(min(cap, ask.most) * most)
            self._unit(ask, pod_class, Located(at, v, 1))
        self.asked.append(Asked(ask, times, choices))
        if ask.most > ask.least:
            extras = self.extras.setdefault(ask.priority, [])
            extras += [(v, 1) for v in choices.values()]
            extras += [(v, -w * ask.least) for v, w in times if ask.least]
        return choices

    def _unit(self, ask: Ask, pod_class: int, located: Located) -> None:
        """Units of a pod class lie in a vertex, and count in the rows of their queues."""
        self.units.setdefault(pod_class, []).append(located)
        for r in ask.queue_rows:
            weight = int(self.problem.queue_rows[r].weight[pod_class])
            if weight:
                self.taken[r].append((located.var, located.times * weight))

    def _parts(self, kind: int) -> None:
        k, mine = self.kinds.kinds[kind], self.parts[kind]
        total = self.total(kind)
        most = self.capacity.most(kind)
        if self._is_large(k, most, total):
            mine.large = [self._large(kind) for _ in range(total)]
            return
        for v in self._at_depth.get(k.at, ()):
            upper = self._opens(k, v, total, most)
            if upper:
                var = self.tally.apart[PartsAt(kind, v)] = self.new(upper)
                self._open(kind, False, v, var, upper)
                cost = k.cost_apart
                if k.preferred and not k.running:
                    level = self.forest.levels[k.preferred - 1]
                    if self.capacity.fits_outside(kind, level):
                        cost = max(0, k.least - 1)
                self._cost(var, cost)
        for v in self._at_depth.get(k.preferred, ()) if k.preferred else ():
            if k.at not in {self.forest.depth_of[up] for up in self.forest.above[v]}:
                continue
            upper = self._opens(k, v, total, most)
            if upper:
                var = self.tally.whole[PartsAt(kind, v)] = self.new(upper)
                self._open(kind, True, v, var, upper)
                self._cost(var, k.cost_whole(v))
        if self.kinds.may_be_empty(k.apart):
            # Extras alone need no domain.
            for v in {d.vertex for d in mine.demand}:
                var = self.tally.empty[PartsAt(kind, v)] = self.new(total)
                mine.supply.append(Located(v, var, 1))
                self._cost(var, k.fixed)

    def _opens(self, k: Kind, vertex: int, total: int, most: Ints) -> int:
        """How many parts may open in a vertex at most."""
        if k.pin >= 0 and k.pin not in self.forest.above[vertex]:
            return 0
        return max(0, min(total, int(most[vertex])))

    def _open(self, kind: int, whole: bool, at: int, var: Var, most: int) -> None:
        """Parts open in a vertex: their units and parts lie there."""
        k = self.kinds.kinds[kind]
        content = k.whole if whole else k.apart
        assert content is not None
        self.parts[kind].supply.append(Located(at, var, 1))
        for i, ask in enumerate(content.asks):
            for choice, v in self._ask(at, ask, [(var, 1)], most).items():
                self.tally.units[UnitsOfParts(kind, whole, at, i, choice)] = v
        for child, times in content.kinds:
            self._demand(child, Located(at, var, times))

    def _cost(self, var: Var, domains: int) -> None:
        if domains:
            self.costs.append((var, domains * UNITS_PER_DOMAIN))

    def _loads(self) -> None:
        """Units of pod classes on classes of nodes."""
        for j, c in enumerate(self.classes):
            for k, s in enumerate(self.pod_classes):
                if c.most[k] and s in self.units:
                    self.tally.load[Load(k, j)] = self.new(len(c.nodes) * c.most[k])

    # --- large parts ------------------------------------------------------------------

    def _is_large(self, k: Kind, most: Ints, total: int) -> bool:
        if not k.preferred or k.at or k.pin >= 0 or k.running or not k.least:
            return False
        if k.whole != k.apart:
            # Something in it needs a domain that is not narrower.
            return False
        places = self._at_depth.get(k.preferred, [])
        best = max((int(most[v]) for v in places), default=0)
        return best <= 1 and len(self.tally.large) + total <= self.parameters.large_parts

    def _large(self, kind: int) -> LargePart:
        k = self.kinds.kinds[kind]
        content = k.whole
        assert content is not None
        there = self.new(1)
        places = list(self._at_depth.get(k.preferred, ()))
        part = Large(kind, there, {v: self.new(1) for v in places}, {}, {})
        self.tally.large.append(part)
        # Nodes in no domain of the level: what lies there is not charged for.
        outside = self.capacity.outside(self.forest.levels[k.preferred - 1])
        spots = [*places, ROOT] if outside else places
        for i, ask in enumerate(content.asks):
            every: list[Var] = []
            for choice, (pod_class, cap) in enumerate(ask.pod_classes):
                column = self.pod_classes.index(pod_class)
                for v in spots:
                    upper = min(cap, ask.most, int(self.capacity.slots[v][column]))
                    if upper:
                        x = part.units[UnitsOfOne(v, i, choice)] = self.new(upper)
                        every.append(x)
                        self._unit(ask, pod_class, Located(v, x, 1))
            if ask.most > ask.least:
                extras = self.extras.setdefault(ask.priority, [])
                extras += [(x, 1) for x in every]
                extras.append((there, -ask.least))
        for child, times in content.kinds:
            most = self.capacity.most(child)
            for v in spots:
                upper = min(times, int(most[v]))
                if upper > 0:
                    x = part.parts[PartsAt(child, v)] = self.new(upper)
                    self._demand(child, Located(v, x, 1))
        # On nodes in no domain it may use more places than there are domains.
        beyond = self.new(max(len(places), k.least))
        self._cost(beyond, 1)
        return LargePart(part, beyond, spots)
