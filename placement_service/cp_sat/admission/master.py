"""The master: which gangs can be admitted at all, by rows and patterns of domains.

A small integer program over classes of identical gangs. It knows domains only through rows
(`bounds.counting`) and through patterns of what fits one domain (`patterns`), so its size does not
grow with nodes or pods. What it leaves out only makes it a relaxation: its optimum bounds every
plan, and its solution is the target that the decoder then tries to place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

from ortools.sat.python import cp_model

from placement_service.bounds.counting import Counting
from placement_service.bounds.near_rows import NearRows
from placement_service.bounds.place_rows import PlaceRows
from placement_service.cp_sat.admission.near_places import NearPlaces
from placement_service.cp_sat.admission.patterns import add_patterns
from placement_service.cp_sat.admission.shared_places import SharedPlaces
from placement_service.cp_sat.parameters import MODEL_DEFAULTS, ModelParameters
from placement_service.cp_sat.solving import Answer, Strategy, Var, dot, hold, lesser, optimise
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import pods_of
from placement_service.formulation.tiers.goal import Admission, Terms
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN
from placement_service.heuristic.slot_layout import Layout


class Torn(NamedTuple):
    """Gangs that could lie whole in a place and do not, and the places that those use which could
    not, as far as it is known.
    """

    gangs: tuple[GangIdx, ...] = ()
    places: Mapping[GangIdx, tuple[int, ...]] = MappingProxyType({})


class AdmissionMaster:
    """The master of a counted problem; its goals are those of the objective.

    A solve that found anything moves `gangs`, `torn` and `layout`: the gangs that its solution
    admits, those of them that lie whole in no place, and how its patterns fill the domains with
    their parts, None without patterns.
    """

    def __init__(
        self,
        counting: Counting,
        parameters: ModelParameters = MODEL_DEFAULTS,
        places: Sequence[PlaceRows] = (),
        *,
        wide: bool = False,
        each: bool = False,
        alone: bool = False,
    ) -> None:
        """With `places` it also counts which gangs lie whole in which of them, and if `wide`
        how many places those use that lie whole in none; if `each` how many all use, where
        few classes prefer any. If those that lie whole in none are `alone`, no others are near.
        """
        self.counting = counting
        self.problem = counting.problem
        self.cp = cp_model.CpModel()
        self.gangs: tuple[GangIdx, ...] = ()
        self.torn = Torn()
        self.layout: Layout | None = None
        self._variables()
        for c, z, e in zip(counting.classes, self._admitted, self._extras, strict=True):
            self.cp.add(e <= z * sum(k for _, k in c.extras))
        for row in counting.rows:
            weights = [(z, int(w)) for z, w in zip(self._admitted, row.weight, strict=True) if w]
            weights += [(e, int(w)) for e, w in zip(self._extras, row.extra, strict=True) if w]
            self.cp.add(dot(weights) <= row.capacity)
        self._follow_bases()
        self._run_in_one_way()
        self._near = self._near_gangs()
        self._shared: dict[int, SharedPlaces] = {}
        for rows in places:
            known = NearPlaces(self.cp, rows, self._admitted, wide=wide, each=each, alone=alone)
            self._shared |= known.shared
            for i, near in known.near.items():
                if i in self._near:
                    self.cp.add(near <= self._near[i])
                self._near[i] = near
        self._patterns = add_patterns(self.cp, counting, self._admitted, parameters.master_patterns)

    def _variables(self) -> None:
        classes, new = self.counting.classes, self.cp.new_int_var
        self._admitted = [new(0, len(c.gangs), "") for c in classes]
        self._extras = [new(0, len(c.gangs) * sum(k for _, k in c.extras), "") for c in classes]
        running: Counter[int] = Counter()
        for g in self.problem.gangs:
            if g.placeable and not g.pending:
                running[g.priority] += g.extras
        #: By priority, extras of gangs whose minimum runs; nothing is counted against them.
        self._extras_of_running = {p: new(0, most, "") for p, most in running.items()}

    def _near_gangs(self) -> dict[int, Var]:
        """By class, how many admitted gangs may lie whole in one place that they prefer.

        Only of classes of which not all can.
        """
        near = NearRows(self.counting)
        found: dict[int, Var] = {}
        for weights, room in near.rows():
            for c in weights:
                if c not in found:
                    found[c] = self.cp.new_int_var(0, len(self.counting.classes[c].gangs), "")
                    self.cp.add(found[c] <= self._admitted[c])
            self.cp.add(dot([(found[c], w) for c, w in weights.items()]) <= room)
        return found

    def _follow_bases(self) -> None:
        """No more gangs than the admitted ones that they are based on can have.

        Of bases alike each counts with as many as any of them has.
        """
        classes, gangs = self.counting.classes, self.problem.gangs
        class_of = {g: i for i, c in enumerate(classes) for g in c.gangs}
        for i, mine in enumerate(classes):
            for followers in (
                Counter(gangs[g].base for g in mine.gangs),
                Counter(gangs[g].part for g in mine.gangs),
            ):
                free = 0
                most: dict[int, int] = {}
                for base, count in followers.items():
                    if base < 0 or not gangs[base].pending:
                        free += count
                    elif base in class_of:
                        at = class_of[base]
                        most[at] = max(most.get(at, 0), count)
                if free < len(mine.gangs):
                    terms = [(self._admitted[at], -count) for at, count in most.items()]
                    self.cp.add(dot([(self._admitted[i], 1), *terms]) <= free)

    def _run_in_one_way(self) -> None:
        """No more gangs begin anew than the gangs that do not stay for them."""
        classes, gangs = self.counting.classes, self.problem.gangs
        class_of = {g: i for i, c in enumerate(classes) for g in c.gangs}
        for i, mine in enumerate(classes):
            others = [gangs[g].not_with for g in mine.gangs if gangs[g].begins_anew]
            of_others = Counter(class_of[g] for g in others if g in class_of)
            if of_others:
                terms = [(self._admitted[at], 1) for at in of_others]
                every = sum(len(classes[at].gangs) for at in of_others)
                free = len(mine.gangs) - of_others.total()
                self.cp.add(dot([(self._admitted[i], 1), *terms]) <= free + every)

    # --- goals ----------------------------------------------------------------

    def admissions(self) -> Iterable[Admission[Var]]:
        for z, c in zip(self._admitted, self.counting.classes, strict=True):
            yield Admission(z, c.gangs)

    def lesser(self, terms: Terms[Var], most: int) -> Var:
        return lesser(self.cp, terms, most)

    def extra_units(self, priority: int | None) -> Terms[Var]:
        both = zip(self.counting.classes, self._extras, strict=True)
        terms = [(e, 1) for c, e in both if priority in (None, c.priority)]
        for z, c in zip(self._admitted, self.counting.classes, strict=True):
            surplus = max(self.problem.gangs[g].surplus for g in c.gangs)
            if surplus and priority in (None, c.priority):
                terms.append((z, surplus))
        running = self._extras_of_running.items()
        return terms + [(e, 1) for p, e in running if priority in (None, p)]

    def kept_pods(self) -> Terms[Var] | None:
        """Running pods that stay; not known where they may stay though their gang moves."""
        gangs = self.problem.gangs
        if any(g.keeps for g in gangs):
            return None
        terms: Terms[Var] = []
        for z, e, c in zip(self._admitted, self._extras, self.counting.classes, strict=True):
            gang = gangs[c.gangs[0]]
            if gang.home:
                least = sum(r.missing * pods_of(gang, r.demands[0]) for r in gang.requirements)
                terms += [(z, least), (e, 1)]
        return terms

    @property
    def counts_wide(self) -> bool:
        """Whether it counts the places of gangs that lie whole in none."""
        return bool(self._shared)

    def topology_cost(self) -> Terms[Var]:
        """The least number of places beyond the first: of each gang alone, and of those that
        compete for large places."""
        least = (c.beyond for c in self.counting.classes)
        both = enumerate(zip(self._admitted, least, strict=True))
        terms = [(z, w * UNITS_PER_DOMAIN) for c, (z, w) in both if w and c not in self._shared]
        for c, near in self._near.items():
            if c not in self._shared:
                terms += [(self._admitted[c], UNITS_PER_DOMAIN), (near, -UNITS_PER_DOMAIN)]
        for c, shared in self._shared.items():
            terms += [(use, UNITS_PER_DOMAIN) for use in shared.uses]
            terms.append((self._admitted[c], -UNITS_PER_DOMAIN))
        return terms

    def fragmentation_cost(self) -> None:
        return None

    def hardness(self) -> Terms[Var]:
        """Larger for gangs with large parts: they are harder to place."""
        return [(z, _hardness(self.counting, i)) for i, z in enumerate(self._admitted)]

    # --- solving --------------------------------------------------------------

    @contextmanager
    def admitting(self, gangs: Iterable[GangIdx]) -> Iterator[None]:
        """For a while, admit as many gangs of each class as there are among these."""
        chosen = set(gangs)
        for c, z in zip(self.counting.classes, self._admitted, strict=True):
            number = sum(g in chosen for g in c.gangs)
            self._limit(z, number, number)
        yield
        for c, z in zip(self.counting.classes, self._admitted, strict=True):
            self._limit(z, 0, len(c.gangs))

    def _limit(self, variable: Var, least: int, most: int) -> None:
        domain = self.cp.proto.variables[variable.index].domain
        domain[0], domain[1] = least, most

    def hold(
        self, terms: Terms[Var], *, at_least: int | None = None, at_most: int | None = None
    ) -> None:
        """Keep a goal at what was reached."""
        hold(self.cp, terms, at_least, at_most)

    def solve(
        self,
        terms: Terms[Var],
        *,
        maximize: bool,
        seconds: float,
        effort: float,
        direct: bool = False,
        near: bool = False,
        by_lp: bool = True,
    ) -> Answer:
        """Optimise one goal; the answer has no plan, `gangs` and `layout` are a target. See
        `Strategy` of `direct`, `near` and `by_lp`.
        """
        # One worker with full linearisation closes these models, mostly; without preparations less
        # of it is better. Two workers leave some bounds at the trivial value, as measured. Without
        # probing they are settled in two thirds of the time, and by their linear relaxation in five
        # sixths of that.
        found = optimise(
            self.cp,
            terms,
            maximize=maximize,
            seconds=seconds,
            effort=effort,
            strategy=Strategy(
                linear=1 if direct else 2, brief=True, direct=direct, near=near, by_lp=by_lp
            ),
        )
        if isinstance(found, Answer):
            return found
        counts = [found.solver.value(z) for z in self._admitted]
        chosen = self._chosen(counts)
        self.gangs = tuple(g for mine in chosen for g in mine)
        self.torn = self._torn(chosen, found.solver)
        self.layout = self._patterns.layout(found.solver) if self._patterns else None
        return Answer(None, found.value, found.bound, found.proven)

    def _chosen(self, counts: Sequence[int]) -> list[Sequence[GangIdx]]:
        """So many gangs of each class: the oldest, and first those whose bases are chosen."""
        classes, gangs = self.counting.classes, self.problem.gangs
        chosen = [c.gangs[:k] for c, k in zip(classes, counts, strict=True)]
        there = {g for mine in chosen for g in mine if gangs[g].base < 0}

        def lacks_base(g: GangIdx) -> bool:
            base = gangs[g].base
            return base >= 0 and gangs[base].pending and base not in there

        return [sorted(c.gangs, key=lacks_base)[:k] for c, k in zip(classes, counts, strict=True)]

    def _torn(self, chosen: Sequence[Sequence[GangIdx]], solver: cp_model.CpSolver) -> Torn:
        gangs = tuple(
            g
            for c, near in sorted(self._near.items())
            for g in chosen[c][: len(chosen[c]) - solver.value(near)]
        )
        places = {
            g: mine
            for c, shared in self._shared.items()
            for g, mine in zip(chosen[c], shared.of_each(len(chosen[c]), solver), strict=False)
        }
        return Torn(gangs, places)


def _hardness(counting: Counting, index: int) -> int:
    """Larger for gangs with large parts: they are harder to decode."""
    gang_class = counting.classes[index]
    total = 0
    for parts in gang_class.parts:
        for content, times in parts:
            total += times * sum(k for _, k in content) ** 2
    return total
