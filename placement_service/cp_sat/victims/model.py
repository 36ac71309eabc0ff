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
`formulation.eviction.running_gangs`), so no gang gains from a victim that it may not evict.

With moves everything runs after the plan; `stay` says that a gang stays at home. Pods that move and
are as large as a node, or that waiting gangs ask for too, get places like pods that wait
(`moved_units`); of all others only the sum of what they ask for is counted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from placement_service.cp_sat.linear_model import LinearModel, LinearTerms, summed
from placement_service.cp_sat.parameters import MODEL_DEFAULTS, ModelParameters
from placement_service.cp_sat.victims.coming_units import coming_units
from placement_service.cp_sat.victims.core import Core
from placement_service.cp_sat.victims.domains import Domains
from placement_service.cp_sat.victims.level_loads import LevelLoads
from placement_service.cp_sat.victims.moved_units import (
    homebound,
    moved_kinds,
    new_demands,
    units_at_home,
)
from placement_service.cp_sat.victims.nodes import (
    in_the_way_of,
    node_classes,
    taken_whole,
    that_bind,
    told_apart,
)
from placement_service.cp_sat.victims.reach import most_that_come
from placement_service.cp_sat.victims.spare_pods import SpareRows, SparingGang, Taken
from placement_service.cp_sat.victims.totals import RunningUnits, Staying, Totals
from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.plan import pods_of
from placement_service.formulation.problem import Gang, GroupRequirement, Problem
from placement_service.formulation.tiers.goal import Admission, Terms


class VictimModel(LinearModel):
    """The relaxation, as a model of goals; variables are numbers."""

    def __init__(
        self,
        problem: Problem,
        settled: Iterable[GangIdx] = (),
        parameters: ModelParameters = MODEL_DEFAULTS,
        *,
        large_only: bool = False,
        sharp: bool = False,
        core: Core | None = None,
        until: float = math.inf,
    ) -> None:
        """`settled` are running gangs that keep their minimum in all plans that matter. With
        `large_only`, where gangs move, only units of which no node holds two are given places. A
        `sharp` model distinguishes what each level brings: it bounds more, and takes longer. With a
        `core` all the rest stays at home, so what it says are no bounds.

        Raises OutOfTime where it is not built by `until`.
        """
        super().__init__(until=until)
        self.problem = problem
        coming = coming_units(problem, moved_units=parameters.moved_units, large_only=large_only)
        self.moves, self.waiting, self.running = coming.moves, coming.waiting, coming.running
        self._settled = frozenset(settled)
        if core is not None:
            self._settled |= core.untouched(self.running)
        #: Admitted, for gangs that wait; staying, for those that run.
        self.placed = {g.index: self.variable(1) for g in (*self.waiting, *self.running)}
        self.extras = {
            g.index: self.variable(g.extras) for g in problem.gangs if g.placeable and g.extras
        }
        self._one = self.variable(1)
        for one in (self._one, *(self.placed[g] for g in sorted(self._settled))):
            self.row([(one, 1)], least=1)
        #: Whether units that come are given no places because they are small.
        self.leaves_out = coming.leaves_out
        moving = self.running if self.moves else []
        #: The pod classes whose units get places where their gang moves.
        self.placed_again = coming.again
        self.asked, self.parts = coming.asked, coming.parts
        self.kinds = moved_kinds(problem, moving, self.placed_again)
        bound = list(homebound(problem, moving, self.placed_again))
        levels = {p.level for p in self.parts} | {k.level for k in self.kinds}
        levels |= {units.level for units in bound}
        self.classes = node_classes(problem, self.asked, sorted(levels))
        if not self.moves:
            self.classes = told_apart(problem, self.classes, self.asked)
        #: At most so many units of each pod class that is asked for fit a node of each class.
        self._fits = most_that_come(
            problem,
            self.classes,
            self.asked,
            [g for g in (*self.waiting, *self.running) if new_demands(g)],
            self.parts,
            self._settled,
            self.placed_again,
        )
        #: Node classes that are no part of the core.
        self._shut = frozenset() if core is None else core.shut(self.classes)
        self._fits[:, list(self._shut)] = 0
        #: Node classes where a unit that comes takes a node of its own.
        self._taken_whole = taken_whole(problem, self.classes, self.asked, self._fits)
        #: Units that stay: of a gang by node class and pod class, in multiples of `placed` or
        #: a variable of their own.
        self.kept: dict[RunningUnits, Staying] = {}
        #: The same by gang, as terms.
        self._stays: defaultdict[GangIdx, LinearTerms] = defaultdict(list)
        self._kept_of: defaultdict[tuple[GangIdx, ClassIdx], LinearTerms] = defaultdict(list)
        self._keep()
        #: Units that come, as terms: of a gang by pod class.
        self.come: defaultdict[tuple[GangIdx, ClassIdx], LinearTerms] = defaultdict(list)
        for gang in self.waiting:
            self._come(gang)
        for gang in self.running:
            self._goes_on(gang)
        self.load: dict[tuple[int, int], int] = {}
        #: Nodes that new pods may take from a gang.
        self._taken: defaultdict[GangIdx, list[Taken]] = defaultdict(list)
        self._rooms()
        domains = Domains(self, problem, self.classes, self.asked, self.load, sorted(levels))
        #: Whether a part is in a domain of its level; how many parts of a kind of gangs that move.
        self.here = {
            (p, d): y
            for p, part in enumerate(self.parts)
            for d, y in domains.add_part(
                part, self.placed[part.gang], None if core is None else core.domains[p]
            ).items()
        }
        self.moved_here = [domains.add_kind(k, self.placed.__getitem__) for k in self.kinds]
        for units in bound:
            stay = self.placed[units.gang]
            domains.add_units(units, self._leaving(units.gang, units.pod_class, stay))
        domains.post()
        self._rest()
        self._domains = domains
        self._simple = self.mark()
        if sharp:
            self.sharpen()
        self.until = math.inf

    def sharpened(self, *, until: float = math.inf) -> VictimModel:
        """The sharp model of the same problem, without what was added to this one since then.
        Raises OutOfTime as that does.
        """
        other = self.copy()
        other.undo(self._simple)
        other.until = until
        other.sharpen()
        other.until = math.inf
        return other

    # --- running gangs --------------------------------------------------------

    def _keep(self) -> None:
        where: defaultdict[int, dict[tuple[int, int], int]] = defaultdict(dict)
        for j, node_class in enumerate(self.classes):
            for (g, s), units in node_class.pods.items():
                where[g][j, s] = units * len(node_class.nodes)
        # Node classes that any unit comes to.
        reached = set(np.flatnonzero(self._fits.max(axis=0, initial=0)).tolist())
        for gang in self.running:
            stay = self.placed[gang.index]
            mine = where[gang.index]
            # All of it, or nothing.
            whole = sum(mine.values()) == self._least(gang) and not new_demands(gang)
            for (j, s), units in mine.items():
                if whole or j in self._shut or (self.moves and j not in reached):
                    kept = Staying(stay, units)
                elif self.moves and j in self._taken_whole:
                    # Nobody goes from a node that nobody comes to.
                    count = len(self.classes[j].nodes)
                    kept = Staying(self.variable(count), units // count)
                    self.row([(kept.variable, 1), (stay, -count)], most=0)
                else:
                    kept = Staying(self.variable(units), 1)
                    self.row([(kept.variable, 1), (stay, -units)], most=0)
                self.kept[RunningUnits(gang.index, j, s)] = kept
                self._stays[gang.index].append((kept.variable, float(kept.times)))
                self._kept_of[gang.index, ClassIdx(s)].append((kept.variable, float(kept.times)))

    def _come(self, gang: Gang) -> None:
        """A gang that waits gets its minimum, requirement by requirement, and extras."""
        placed = self.placed[gang.index]
        beyond: LinearTerms = []
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
        come = gang.requirements if new_demands(gang) else ()
        coming = [(q, term) for q in come for term in self._coming(gang, q)]
        # It is not known which of its alike pods belong to which requirement, so all count
        # together.
        least: LinearTerms = [*stays, (placed, -float(self._least(gang)))]
        extras: LinearTerms = [] if self.moves else least
        # Only in looser questions what comes counts for a minimum.
        stands_in = [term for q, term in coming if q.missing and not self.moves]
        self._at_least_nothing([*least, *stands_in])
        self._beyond(gang, [*extras, *(term for _, term in coming)])

    def _at_least_nothing(self, terms: LinearTerms) -> None:
        sums = summed(terms)
        if any(w for _, w in sums):
            self.row(sums, least=0)

    def _beyond(self, gang: Gang, terms: LinearTerms) -> None:
        """Extras of a gang are its pods beyond the minimum."""
        extra = self.extras.get(gang.index)
        if extra is not None:
            self.row([(extra, 1.0), *((v, -w) for v, w in summed(terms))], most=0)

    def _coming(self, gang: Gang, q: GroupRequirement) -> LinearTerms:
        """Units of a requirement that come."""
        count: defaultdict[ClassIdx, int] = defaultdict(int)
        for d in new_demands(gang).intersection(q.demands):
            count[gang.demands[d].pod_class] += gang.demands[d].count
        placed = self.placed[gang.index]
        found: LinearTerms = []
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
        fits = self._fits
        at_class: defaultdict[int, list[tuple[GangIdx, int]]] = defaultdict(list)
        for g, j, s in self.kept:
            at_class[j].append((g, s))
        for j in np.flatnonzero(fits.max(axis=0, initial=0)).tolist():
            count, n = len(self.classes[j].nodes), int(first[j])
            able = np.flatnonzero(fits[:, j])
            for a in able.tolist():
                self.load[a, j] = self.variable(int(fits[a, j]) * count)
            homes = at_class[j]
            takes = np.concatenate([request[asked[able]], request[[s for _, s in homes]]])
            # Where units come alone the rows of conflicts say all.
            alone_only = self.moves and homes and j in self._taken_whole
            for r in () if alone_only else that_bind(takes, free[n]):
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
        node_class = self.classes[j]
        count = len(node_class.nodes)
        for g, s in homes:
            crowd = in_the_way_of(problem, self.asked, alone, s, n)
            if crowd:
                v, units = self.kept[RunningUnits(g, j, s)]
                each = node_class.pods[g, s]
                self.row([*((self.load[a, j], 1.0) for a in crowd), (v, units / each)], most=count)
                self._taken[g].append(Taken(j, crowd, count, each))

    def sharpen(self) -> None:
        """What each level brings, and what running gangs can spare of it."""
        domains = self._domains
        lone = domains.lone(self.parts, (*self.waiting, *self.running), self.placed_again)
        levels = LevelLoads(self, self.load, domains.inside, lone)
        levels.add(self.parts, self.here, domains.number)
        rows = SpareRows(self, self.load, levels, domains.of_classes)
        for gang in self.running:
            coming = 0 if self.moves else sum(gang.demands[d].count for d in new_demands(gang))
            spare = sum(home.units for home in gang.home) + coming - self._least(gang)
            # Where nothing can be spared, the rows of each node say so.
            if spare > 0 and self._taken[gang.index]:
                rows.add(SparingGang(spare, self.placed[gang.index], self._taken[gang.index]))
        self.exclude([*self.here.values()])

    # --- all the rest -----------------------------------------------------------

    def _rest(self) -> None:
        """Units in all, bases, queues, budgets, extras."""
        loads: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        for (a, _), v in self.load.items():
            loads[a].append((v, 1.0))
        for gang in (*self.waiting, *(() if self.moves else self.running)):
            for base in (self.placed[i] for i in gang.rests_on if i in self.placed):
                self.row([(self.placed[gang.index], 1), (base, -1)], most=0)
        for gang in self.waiting:
            if gang.not_with in self.placed:
                both = self.placed[gang.index], self.placed[gang.not_with]
                self.row([(v, 1) for v in both], most=1)
        coming: defaultdict[ClassIdx, LinearTerms] = defaultdict(list)
        for (_, s), come in self.come.items():
            coming[s] += [(v, -w) for v, w in come]
        for s in self.placed_again:
            for gang in self.running:
                coming[s] += [(v, -w) for v, w in self._leaving(gang.index, s, self._one)]
        for a, s in enumerate(self.asked):
            self.row([*loads[a], *summed(coming[s])], least=0)
        totals = Totals(self, self.problem, self.running, self.kept, self.come, moves=self.moves)
        totals.limit_queues()
        totals.keep_budgets()
        if self.moves:
            loads_of = {s: loads[a] for a, s in enumerate(self.asked)}
            totals.hold_everything(loads_of, self.placed_again)

    def _leaving(self, gang: GangIdx, pod_class: ClassIdx, times: int) -> LinearTerms:
        """So many times its units of a pod class, less those that stay."""
        units = units_at_home(self.problem.gangs[gang], pod_class)
        kept = self._kept_of[gang, pod_class]
        return summed([(times, units), *((v, -w) for v, w in kept)]) if units else []

    # --- goals ----------------------------------------------------------------

    def admissions(self) -> Iterable[Admission[int]]:
        for gang in self.waiting:
            yield Admission(self.placed[gang.index], [gang.index])
        for gang in self.running:
            # Moved pods run, wherever they go.
            placed = self._one if self.moves else self.placed[gang.index]
            yield Admission(placed, [gang.index])

    def lesser(self, terms: Terms[int], most: int) -> int:
        variable = self.variable(most, whole=False)
        self.row([(variable, 1), *((v, -float(w)) for v, w in summed(terms))], most=0)
        return variable

    def extra_units(self, priority: int | None) -> Terms[int]:
        gangs = self.problem.gangs
        terms = [(v, 1) for g, v in self.extras.items() if priority in (None, gangs[g].priority)]
        return terms + [
            (self.placed[g.index], g.surplus)
            for g in self.running
            if g.surplus and priority in (None, g.priority)
        ]

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
