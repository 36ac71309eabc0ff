"""Parts of placed gangs that can change places, and the racks that may hold them.

Whole units are those of which no node holds two (see `counting`). A part is all of a gang that
one rack has to hold, where it is made of whole units alone, or a single whole unit that no rack
binds. Nodes that accept the same whole units, beside all that stays, are of one type: parts fit
into a rack together exactly when their units can be given nodes of their own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from placement_service.bounds.node_matching import give_nodes
from placement_service.cp_sat.admission.patterns import whole_units
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.plan import Plan, Units
from placement_service.formulation.problem import Gang, UnitsOnNode
from placement_service.heuristic.one_gang.begun_gang import BegunGang
from placement_service.heuristic.plan_builder import bases_first
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.search.blocks.problem import broadest_level
from placement_service.search.incumbent import State

#: Units of each shape.
Vector = tuple[int, ...]

#: Bits of a packed vector for each shape: no rack holds so many units.
_BITS = 32


@dataclass(slots=True, eq=False)
class MovablePart:
    """Whole units of a gang that lie in one rack; `demands` counts them by demand.

    `owner` is the gang, or the base of the set, that should lie in one block; -1 for none.
    `packed` is the vector of units as one number, see `packed`.
    """

    gang: GangIdx
    owner: int
    rack: int
    units: Vector = ()
    size: int = 0
    packed: int = 0
    demands: Counter[int] = field(default_factory=Counter)


def packed(units: Vector) -> int:
    """A vector as one number: sums and differences of vectors are those of their numbers."""
    return sum(n << _BITS * i for i, n in enumerate(units))


def unpacked(number: int, length: int) -> Vector:
    """The vector that a number stands for."""
    return tuple([number >> _BITS * i & (1 << _BITS) - 1 for i in range(length)])


@dataclass(frozen=True, slots=True)
class Rack:
    """`nodes` by type; racks of one `signature` have as many of each type."""

    block: int
    nodes: Mapping[int, Sequence[int]]
    signature: Vector
    capacity: int


class MovableParts:
    """The parts of a plan that can change places.

    `anchors` are the blocks where owners have anything that stays, `together` the gangs that
    must lie in one block. `usable` is false where no move has an effect.
    """

    def __init__(self, state: State) -> None:
        self.state, self.problem = state, state.problem
        self.usable = False
        self.parts: list[MovablePart] = []
        self.racks: dict[int, Rack] = {}
        self.anchors: dict[int, set[int]] = {}
        self.together: set[int] = set()
        self._broad = broadest_level(state)
        whole = whole_units(state.counting) if self._broad >= 0 else None
        if whole is None:
            return
        self._whole = whole[0]
        self._rack_level = self._most_required()
        topology, levels = state.counting.topology, self.problem.levels
        if self._rack_level >= 0 and topology.parent(self._rack_level, self._broad) is None:
            return
        self._block: Ints = levels[self._broad].domain
        self._rack: Ints = np.arange(self.problem.node_count)
        if self._rack_level >= 0:
            self._rack = levels[self._rack_level].domain
        self._rack = np.where(self._block >= 0, self._rack, -1)
        self._sets = {g.base for g in self.problem.gangs if g.set_level == self._broad}
        self._fixed: dict[GangIdx, Units] = {}
        self._kept: dict[GangIdx, list[UnitsOnNode]] = {}
        self._small: dict[GangIdx, list[UnitsOnNode]] = {}
        for index, units in state.plan.items():
            self._cut(self.problem.gangs[index], units)
        self._make_racks()
        self.usable = any(part.owner >= 0 for part in self.parts)

    def _most_required(self) -> int:
        """The level below the blocks that most scopes require."""
        levels = self.problem.levels
        found: Counter[int] = Counter(
            s.required
            for g in self.problem.pending
            for s in g.scopes
            if s.required not in (-1, self._broad) and not levels[s.required].is_host
        )
        return max(sorted(found), key=lambda level: found[level], default=-1)

    # --- parts ------------------------------------------------------------------------

    def _cut(self, gang: Gang, units: Units) -> None:
        owner = self._owner(gang)
        if not self._can_move(gang):
            self._fixed[gang.index] = units
            self._anchor(owner, units)
            return
        kept: list[UnitsOnNode] = []
        small: list[UnitsOnNode] = []
        for mine, bound in self._pieces(gang, units):
            rack = int(self._rack[mine[0].node])
            whole = all(self._whole[gang.demands[u.demand].pod_class] for u in mine)
            if whole and rack >= 0:
                counts = Counter[int]()
                for u in mine:
                    counts[u.demand] += u.units
                self.parts.append(MovablePart(gang.index, owner, rack, demands=counts))
            elif whole or bound:
                kept += mine
                self._anchor(owner, mine)
            else:
                small += mine
        self._kept[gang.index], self._small[gang.index] = kept, small
        if any(s.required == self._broad for s in gang.scopes):
            self.together.add(gang.index)

    def _owner(self, gang: Gang) -> int:
        if gang.base >= 0 and gang.set_level == self._broad:
            return gang.base
        whole = (s for s in gang.scopes if len(s.demands) == len(gang.demands))
        cares = any(self._broad in (s.required, s.preferred) for s in whole)
        return gang.index if cares or gang.index in self._sets else -1

    def _anchor(self, owner: int, units: Sequence[UnitsOnNode]) -> None:
        if owner >= 0:
            blocks = {int(self._block[u.node]) for u in units}
            self.anchors.setdefault(owner, set()).update(blocks)

    def _can_move(self, gang: Gang) -> bool:
        """Whether its parts may lie anywhere else, by the rules of the gang."""
        tree = self.state.counting.topology.tree(gang)
        if tree is None or not gang.pending or gang.home or gang.runs_in_part:
            return False
        if any(self.problem.special[d.pod_class] for d in gang.demands):
            return False
        if gang.extras and not all(self._whole[d.pod_class] for d in gang.demands):
            return False
        for s in gang.scopes:
            if s.pin >= 0 or s.running or s.preferred not in (-1, self._broad):
                return False
            everything = len(s.demands) == len(gang.demands)
            if s.required not in (-1, self._rack_level, *((self._broad,) * everything)):
                return False
        return True

    def _pieces(self, gang: Gang, units: Units) -> Iterator[tuple[list[UnitsOnNode], bool]]:
        """Units that one rack has to hold (then true), and all others one by one."""
        tree = self.state.counting.topology.tree(gang)
        assert tree is not None
        inside: set[int] = set()
        for part in tree.bound_by(lambda level: level == self._rack_level):
            inside.update(part.demands)
            mine = [u for u in units if u.demand in part.demands]
            if mine:
                yield mine, True
        for u in units:
            if u.demand not in inside:
                for _ in range(u.units):
                    yield [u._replace(units=1)], False

    # --- racks ------------------------------------------------------------------------

    def _make_racks(self) -> None:
        problem = self.problem
        residual = ResidualCapacity(problem)
        residual.take_plan(self._fixed)
        for some in (self._kept, self._small):
            residual.take_plan({i: tuple(units) for i, units in some.items()})
        members = np.flatnonzero(self._whole).tolist()
        takes: Bools = np.array([residual.row(ClassIdx(s)) > 0 for s in members])
        accepts, shape = np.unique(takes, axis=0, return_inverse=True)
        self._shape = dict(zip(members, shape.reshape(-1).tolist(), strict=True))
        kinds, of = np.unique(accepts.T, axis=0, return_inverse=True)
        self.open: Bools = kinds.astype(bool)
        nodes: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        type_of: Ints = of.reshape(-1)
        useful: Bools = np.any(self.open[type_of], axis=1)
        for n in np.flatnonzero((self._rack >= 0) & useful).tolist():
            nodes[int(self._rack[n])][int(type_of[n])].append(n)
        for rack, mine in sorted(nodes.items()):
            signature = tuple(len(mine.get(t, ())) for t in range(len(self.open)))
            block = int(self._block[next(iter(mine.values()))[0]])
            self.racks[rack] = Rack(block, mine, signature, sum(signature))
        for part in self.parts:
            demands = problem.gangs[part.gang].demands
            units = Counter[int]()
            for d, n in part.demands.items():
                units[self._shape[demands[d].pod_class]] += n
            part.units = tuple(units[s] for s in range(len(accepts)))
            part.size, part.packed = sum(part.units), packed(part.units)

    # --- back to a plan ---------------------------------------------------------------

    def plan(self, racks: Sequence[int]) -> Plan:
        """The plan with each part in its rack, and small pods placed anew beside them.

        Gangs whose small pods find no room are left out, and so are those that are based on them.
        """
        begun = {index: list(units) for index, units in self._kept.items()}
        inside: dict[int, list[MovablePart]] = {}
        for part, at in zip(self.parts, racks, strict=True):
            inside.setdefault(at, []).append(part)
        for rack, parts in inside.items():
            self._give_nodes(self.racks[rack], parts, begun)
        gangs, residual = self.problem.gangs, ResidualCapacity(self.problem)
        residual.take_plan(self._fixed)
        works: dict[GangIdx, BegunGang] = {}
        for index, units in begun.items():
            works[index] = BegunGang(self.state.counting.topology, residual, index)
            works[index].begin(tuple(units))
        # Gangs of small pods alone may lie anywhere.
        order = sorted(works, key=lambda i: (not begun[i], -gangs[i].priority, -gangs[i].value, i))
        found = dict(self._fixed)
        for gang in bases_first([gangs[i] for i in order]):
            if works[gang.index].finish():
                found[gang.index] = works[gang.index].units()
            else:
                works[gang.index].give_up()
        for gang in bases_first([gangs[i] for i in found]):
            if not self.state.builder.base_is_placed(gang, found):
                del found[gang.index]
        return found

    def _give_nodes(
        self, rack: Rack, parts: Sequence[MovablePart], begun: dict[GangIdx, list[UnitsOnNode]]
    ) -> None:
        units = np.array([part.units for part in parts]).sum(axis=0)
        given = give_nodes(units, rack.signature, self.open)
        assert given is not None, "parts that do not fit their rack"
        left = {t: list(nodes) for t, nodes in rack.nodes.items()}
        nodes: dict[int, list[int]] = {}
        for (shape, t), count in given.items():
            nodes.setdefault(shape, []).extend(left[t].pop() for _ in range(count))
        for part in parts:
            demands = self.problem.gangs[part.gang].demands
            for d, count in part.demands.items():
                mine = nodes[self._shape[demands[d].pod_class]]
                begun[part.gang] += [UnitsOnNode._make((d, mine.pop(), 1)) for _ in range(count)]
