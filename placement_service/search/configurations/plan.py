"""From parts in domains to a plan: gangs, nodes, and what configurations leave out.

A filling does not say which gang gets which of its parts. They go first to gangs that want one
domain of a broader level, so that as many of these as possible are whole. Then the units of the
parts in a domain get its nodes, and the rest of the gangs, such as small pods, is placed greedily.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from placement_service.bounds.configurations import Configurations
from placement_service.cp_sat.configurations.master import Filling
from placement_service.cp_sat.configurations.part_assignment import Place, Wish, assign
from placement_service.formulation.indices import DemandIdx, GangIdx, NodeIdx
from placement_service.formulation.plan import Plan, Units, may_be_placed, oldest_first, units_of
from placement_service.formulation.problem import Gang
from placement_service.heuristic.one_gang.begun_gang import BegunGang
from placement_service.heuristic.one_gang.domain_choice import minimum_units
from placement_service.heuristic.plan_builder import bases_first
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.search.configurations.plan_columns import Parts, plan_parts
from placement_service.search.exchange.slot_exchange import exchange_slots
from placement_service.search.exchange.slots import Group, GroupOf, Piece, RequirementUnits, Slots

#: A gang that must lie in one domain counts more than all that only prefer it.
REQUIRED = 1000


class DemandOnNode(NamedTuple):
    """A demand of a gang, and a node that some of its units have."""

    demand: DemandIdx
    node: NodeIdx


class Realisation:
    """Makes plans of fillings of some configurations."""

    def __init__(self, configurations: Configurations) -> None:
        self.configurations = configurations
        self.counting = configurations.counting
        self.problem = configurations.counting.problem
        self.topology = configurations.counting.topology
        self._groups: dict[int, list[list[Piece]]] = {}

    def plan(
        self, filling: Filling, *, seconds: float, effort: float, near: Plan | None = None
    ) -> Plan:
        """The gangs of a filling that can be placed as it says, `near` where a plan has them."""
        every = self.problem.gangs
        gangs = [every[i] for i in filling.gangs if self._is_plain(every[i])]
        slots = Slots({d: dict(parts) for d, parts in filling.domains.items()})
        stay = self._stay(slots, gangs, near) if near else set()
        late = time.monotonic() + seconds
        if self._give(slots, [g for g in gangs if g.index not in stay], seconds, effort):
            self._bring_together(slots, [g for g in gangs if self._must(g)], late)
        return self._place(slots, gangs)

    def _is_plain(self, gang: Gang) -> bool:
        """Whether nodes may be chosen for its units one by one."""
        special = any(self.problem.special[d.pod_class] for d in gang.demands)
        return (
            not special
            and not (gang.home or gang.begins_anew)
            and self.topology.tree(gang) is not None
        )

    # --- parts ----------------------------------------------------------------------

    def groups(self, gang: Gang) -> list[list[Piece]]:
        """The pieces of a gang; those in one list must share a domain."""
        if gang.index not in self._groups:
            self._groups[gang.index] = list(self._cut(gang))
        return self._groups[gang.index]

    def _cut(self, gang: Gang) -> Iterator[list[Piece]]:
        tree = self.topology.tree(gang)
        assert tree is not None
        level = self.configurations.level
        requirement_of = {d: i for i, q in enumerate(gang.requirements) for d in q.demands}
        bound: set[int] = set()
        for part in tree.bound_by(lambda r: self.counting.within(r, level)):
            inside = sorted({requirement_of[d] for d in part.demands})
            assert part.scope is not None
            pin = part.scope.pin if part.required == level else -1
            pieces = self._pieces(gang, inside, pin)
            bound.update(inside)
            if pieces:
                yield pieces
        for i, requirement in enumerate(gang.requirements):
            shape = self._shape(gang, i)
            if i not in bound and shape >= 0:
                one = self.configurations.kind_of(shape, 1)
                for _ in range(requirement.missing):
                    yield [Piece(one, (RequirementUnits(i, 1),), -1)]

    def _pieces(self, gang: Gang, requirements: list[int], pin: int) -> list[Piece]:
        units: dict[int, list[RequirementUnits]] = {}
        for i in requirements:
            shape, missing = self._shape(gang, i), gang.requirements[i].missing
            if shape >= 0 and missing:
                units.setdefault(shape, []).append(RequirementUnits(i, missing))
        return [
            Piece(self.configurations.kind_of(shape, sum(u.units for u in mine)), tuple(mine), pin)
            for shape, mine in units.items()
        ]

    def _shape(self, gang: Gang, requirement: int) -> int:
        """The shape of the units of a requirement, -1 where they are not counted."""
        demands = gang.requirements[requirement].demands
        classes = tuple(gang.demands[d].pod_class for d in demands)
        return self.configurations.shape_of.get(classes, -1)

    # --- gangs to places ------------------------------------------------------------

    def _stay(self, slots: Slots, gangs: list[Gang], near: Plan) -> set[GangIdx]:
        """Slots for gangs where a plan has them; the gangs that have all theirs. What is no longer
        there, they have near the others, except where all of a gang must lie in one place.
        """
        parts = plan_parts(self.configurations, near)
        torn: list[tuple[Gang, list[list[Piece]], set[int]]] = []
        stay = set()
        for gang in gangs:
            if gang.index not in parts:
                continue
            kept, rest = Slots(slots.left), []
            for pieces in self.groups(gang):
                domain = _take_out(parts[gang.index], pieces)
                if domain < 0 or not kept.take(gang.index, [pieces], [domain]):
                    rest.append(pieces)
            if rest and (self._must(gang) or not kept.given):
                kept.give_all_back()
                continue
            slots.add(kept)
            stay.add(gang.index)
            if rest:
                torn.append((gang, rest, set(kept.given)))
        for gang, rest, domains in torn:
            places = self._places(slots, self._broad(gang))
            self._give_anywhere(slots, gang, rest, places, domains)
        return stay

    def _places(self, slots: Slots, level: int) -> list[list[int]]:
        """The domains with slots, by place of a broad level; none without one."""
        found: dict[int, list[int]] = {}
        for domain in slots.left if level >= 0 else ():
            found.setdefault(self._place_of(level, domain), []).append(domain)
        return list(found.values())

    def _give(self, slots: Slots, gangs: list[Gang], seconds: float, effort: float) -> bool:
        """Slots for gangs: those that lie whole in a broad domain first, then the others. Returns
        whether some that must lie in one have slots in several.
        """
        places: list[Place] = []
        inside: list[list[int]] = []
        at_level: dict[int, list[int]] = {}
        for level in sorted({self._broad(g) for g in gangs} - {-1}):
            mine = self._places(slots, level)
            at_level[level] = list(range(len(inside), len(inside) + len(mine)))
            inside += mine
        for domains in inside:
            parts: dict[int, int] = {}
            for domain in domains:
                for k, n in slots.left[domain].items():
                    parts[k] = parts.get(k, 0) + n
            every = set(domains)
            places.append(
                Place(parts, frozenset(i for i, d in enumerate(inside) if every.issuperset(d)))
            )
        able = [g for g in gangs if self._broad(g) >= 0 and self.groups(g)]
        wishes = []
        for g in able:
            need: dict[int, int] = {}
            for piece in (p for pieces in self.groups(g) for p in pieces):
                need[piece.kind] = need.get(piece.kind, 0) + 1
            weight = REQUIRED if self._must(g) else 1
            wishes.append(Wish(need, at_level[self._broad(g)], weight))
        granted = assign(wishes, places, seconds=seconds, effort=effort)
        waiting = {g.index: g for g in gangs}
        for i, at in sorted(granted.items()):
            if slots.take(able[i].index, self.groups(able[i]), inside[at]):
                del waiting[able[i].index]
        torn = False
        for g in sorted(waiting.values(), key=lambda g: (not self._must(g), -g.value, g.index)):
            able_places = [inside[at] for at in at_level.get(self._broad(g), ())]
            if not self._must(g):
                self._give_anywhere(slots, g, self.groups(g), able_places)
            elif not any(slots.take(g.index, self.groups(g), one) for one in able_places):
                torn = slots.take(g.index, self.groups(g), list(slots.left)) or torn
        return torn

    def _bring_together(self, slots: Slots, gangs: list[Gang], late: float) -> None:
        """Slots in one place for each of these gangs; those for which there are none have none."""
        levels = {self._broad(g) for g in gangs}
        if len(levels) == 1:
            place_of = partial(self._place_of, levels.pop())
            exchange_slots(self.configurations, slots, {g.index for g in gangs}, place_of, late)
        for g in gangs:
            slots.drop_torn(g.index, partial(self._place_of, self._broad(g)))

    def _give_anywhere(
        self,
        slots: Slots,
        gang: Gang,
        groups: list[list[Piece]],
        places: list[list[int]],
        others: Collection[int] = (),
    ) -> None:
        """Slots for some groups of a gang, in places where it has `others`, then in those that have
        most of these parts.
        """
        if not groups:
            return
        rest = list(groups)
        taken = Slots(slots.left)

        def rank(inside: list[int]) -> tuple[bool, int]:
            return set(inside).isdisjoint(others), -self._fitting(slots, groups, inside)

        for inside in sorted(places, key=rank):
            rest = [g for g in rest if not taken.take(gang.index, [g], inside)]
        if taken.take(gang.index, rest, list(slots.left)):
            slots.add(taken)
        else:
            taken.give_all_back()

    @staticmethod
    def _fitting(slots: Slots, groups: list[list[Piece]], inside: list[int]) -> int:
        """How many groups some domains have slots for, one kind at a time."""
        have: dict[int, int] = {}
        for domain in inside:
            for k, n in slots.left[domain].items():
                have[k] = have.get(k, 0) + n
        found = 0
        for pieces in groups:
            if all(have.get(p.kind, 0) > 0 for p in pieces):
                found += 1
                for p in pieces:
                    have[p.kind] -= 1
        return found

    def _broad(self, gang: Gang) -> int:
        """The level at which all of a gang must or should be in one domain, -1 for none."""
        whole = [s for s in gang.scopes if len(s.demands) == len(gang.demands)]
        levels = [s.required if s.required >= 0 else s.preferred for s in whole]
        mine = self.configurations.level
        return max(
            (i for i in levels if i >= 0 and i != mine and self.counting.within(mine, i)),
            default=-1,
        )

    def _must(self, gang: Gang) -> bool:
        broad = self._broad(gang)
        return any(s.required == broad >= 0 for s in gang.scopes)

    def _place_of(self, level: int, domain: int) -> int:
        inside = self.topology.inside(self.configurations.level, domain)
        return int(self.problem.levels[level].place_of[inside[0]])

    # --- nodes ----------------------------------------------------------------------

    def _place(self, slots: Slots, gangs: list[Gang]) -> Plan:
        begun: dict[GangIdx, dict[DemandOnNode, int]] = {}
        for domain, groups in slots.given.items():
            self._give_nodes(domain, groups, begun)
        residual = ResidualCapacity(self.problem)
        works: dict[int, BegunGang] = {}
        for g in gangs:
            if len(self.groups(g)) and g.index not in begun:
                continue
            work = BegunGang(self.topology, residual, g.index)
            work.begin(units_of(begun.get(g.index, {})))
            works[g.index] = work
        plan: dict[GangIdx, Units] = {}
        mine = [g for g in gangs if g.index in works]
        mine.sort(key=lambda g: (-g.priority, -g.value, oldest_first(g)))
        for g in bases_first(mine):
            may = may_be_placed(self.problem, g, plan)
            may = may and residual.queues.allows(g, minimum_units(g))
            if may and works[g.index].finish():
                plan[g.index] = works[g.index].units()
                residual.queues.charge(g, plan[g.index])
            else:
                works[g.index].give_up()
        return plan

    def _give_nodes(
        self,
        domain: int,
        groups: list[GroupOf],
        begun: dict[GangIdx, dict[DemandOnNode, int]],
    ) -> None:
        """Nodes of a domain for all units of its groups."""
        pieces = [(gang, piece) for gang, mine in groups for piece in mine]
        kinds = self.configurations.kinds
        units = np.zeros(len(self.configurations.accepts), dtype=np.int64)
        for _, piece in pieces:
            units[kinds[piece.kind].shape] += kinds[piece.kind].size
        nodes = self.configurations.nodes_of(domain, units)
        assert nodes is not None, "a configuration that does not fit its domain"
        for index, piece in pieces:
            gang = self.problem.gangs[index]
            mine = begun.setdefault(index, {})
            for i, count in piece.units:
                for _ in range(count):
                    node = nodes[kinds[piece.kind].shape].pop()
                    d = self._demand(gang, i, node, mine)
                    if d is not None:
                        at = DemandOnNode(d, NodeIdx(node))
                        mine[at] = mine.get(at, 0) + 1

    def _demand(
        self, gang: Gang, requirement: int, node: int, taken: Mapping[DemandOnNode, int]
    ) -> DemandIdx | None:
        """Which demand of a requirement goes to a node."""
        for d in gang.requirements[requirement].demands:
            used = sum(n for at, n in taken.items() if at.demand == d)
            fits = self.configurations.usable[gang.demands[d].pod_class][node]
            if fits and used < gang.demands[d].count:
                return DemandIdx(d)
        return None


def _take_out(parts: Parts, pieces: Group) -> int:
    """Takes pieces out of the parts of a gang; the domain where they are, -1 if none has them."""
    kinds = Counter(piece.kind for piece in pieces)
    for domain in sorted({domain for domain, _ in parts}):
        if all(parts[domain, k] >= n for k, n in kinds.items()):
            parts.subtract({(domain, k): n for k, n in kinds.items()})
            return domain
    return -1
