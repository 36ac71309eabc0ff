"""Cuts of the aggregate model that say which parts fit into a domain together.

They are redundant, but far tighter. Let n[D, p] be 1 when what domain D holds is below its p-th
maximal multiset (`domain_packings`). Then sum_p n[D, p] <= 1, and for every part

    parts in domains inside D <= sum_p p[part] * n[D, p]

This holds for every plan: the units of a part that opened in D or inside it lie on nodes of D,
no unit belongs to two of the parts (those that may be parts of others there are not counted),
so the multiset of these parts fits and is below a maximal one. Where there are too many
multisets small parts are not counted either.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import le
from typing import NamedTuple, TypeVar

from ortools.sat.python import cp_model

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.aggregate_variables import AggregateVariables
from placement_service.cp_sat.domain_forest import ROOT
from placement_service.cp_sat.domain_packings import Budget, DomainPackings, Multiset
from placement_service.cp_sat.solving import Var, dot
from placement_service.cp_sat.tally import PartsAt, Tally
from placement_service.formulation.arrays import Ints

T = TypeVar("T")


class Spot(NamedTuple):
    """Parts of a kind that open in a vertex, whole or apart."""

    whole: bool
    kind: int
    vertex: int

    def of(self, tally: Tally[T]) -> T | None:
        """What the tally counts here, None where it counts nothing."""
        table = tally.whole if self.whole else tally.apart
        return table.get(PartsAt(self.kind, self.vertex))


@dataclass(slots=True, eq=False)
class _Alike:
    """At most so many parts that ask for the same units [S], and where they may be."""

    need: Ints
    most: int = 0
    spots: list[Spot] = field(default_factory=list)


class _Packed(NamedTuple):
    """One domain: which of its multisets is used, and where its parts open."""

    uses: list[Var]
    multisets: list[Multiset]
    spots: list[list[Spot]]


class PackingCuts:
    """The cuts that were added, and where a hint sets their variables."""

    def __init__(self, variables: AggregateVariables, counting: Counting) -> None:
        self._variables = variables
        self._counting = counting
        self._packed: list[_Packed] = []

    def add(self, deadline: float) -> None:
        """Add them for as many domains as the time allows."""
        variables = self._variables
        parameters = variables.parameters
        inner = self._inner_kinds()
        inside: dict[int, dict[int, list[Spot]]] = {}
        for whole, table in ((False, variables.tally.apart), (True, variables.tally.whole)):
            for kind, v in table:
                for up in variables.forest.above[v]:
                    if up != ROOT:
                        spots = inside.setdefault(up, {}).setdefault(kind, [])
                        spots.append(Spot(whole, kind, v))
        packings: dict[object, DomainPackings] = {}
        budget = Budget(parameters.packing_trials, parameters.packing_proofs, deadline)
        order = sorted(inside, key=lambda v: (-variables.forest.depth_of[v], v))
        for i, v in enumerate(order):
            classes = [
                c for c, path in zip(variables.classes, variables.paths, strict=True) if v in path
            ]
            if not 0 < sum(len(c.nodes) for c in classes) <= parameters.packing_nodes:
                continue
            hidden = frozenset[int]().union(*(inner[kind] for kind in inside[v]))
            parts: dict[bytes, _Alike] = {}
            for kind, spots in inside[v].items():
                need = variables.capacity.need(kind)
                if kind not in hidden and need.any():
                    # Parts that ask for the same need not be distinguished.
                    alike = parts.setdefault(need.tobytes(), _Alike(need))
                    alike.most += variables.total(kind)
                    alike.spots += spots
            key = DomainPackings.key(classes)
            if key not in packings:
                packings[key] = DomainPackings(
                    self._counting, variables.pod_classes, classes, parameters
                )
            mine = budget.share(len(order) - i)
            self._pack(packings[key], list(parts.values()), mine)
            budget.give_back(mine)

    def _pack(self, packing: DomainPackings, parts: list[_Alike], budget: Budget) -> None:
        parts.sort(key=lambda p: -packing.size(p.need))
        found: list[Multiset] | None = None
        while parts and found is None:
            # Half of what is left, so that something is left for the next try.
            mine = budget.share(2)
            found = packing.maximal([p.need for p in parts], [p.most for p in parts], mine)
            budget.give_back(mine)
            if found is None:
                del parts[len(parts) // 2 :]
        if not found:
            return
        cp, tally = self._variables.cp, self._variables.tally
        uses = [self._variables.new(1) for _ in found]
        cp.add(cp_model.LinearExpr.sum(uses) <= 1)
        for i, part in enumerate(parts):
            opened = [v for spot in part.spots if (v := spot.of(tally)) is not None]
            supply = [(use, p[i]) for use, p in zip(uses, found, strict=True) if p[i]]
            cp.add(cp_model.LinearExpr.sum(opened) <= dot(supply))
        self._packed.append(_Packed(uses, found, [part.spots for part in parts]))

    def _inner_kinds(self) -> list[frozenset[int]]:
        """By kind: the kinds of all parts that are parts of its parts."""
        found: list[frozenset[int]] = []
        # A part's kind has a larger index than those of its own parts.
        for k in self._variables.kinds.kinds:
            children = {c for content in (k.apart, k.whole) if content for c, _ in content.kinds}
            found.append(frozenset(children).union(*(found[c] for c in children)))
        return found

    def hint(self, tally: Tally[int]) -> None:
        """Start from multisets that cover what lies in each domain."""
        for uses, multisets, spots in self._packed:
            held = [sum(spot.of(tally) or 0 for spot in at) for at in spots]
            first = next((i for i, p in enumerate(multisets) if all(map(le, held, p))), -1)
            for i, use in enumerate(uses):
                self._variables.cp.add_hint(use, i == first)
