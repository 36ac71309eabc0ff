"""The devices of one node: what is left of them, and the ways to give a pod some.

Two states are alike when exchanging partitions and switches turns one into the other; `Board.key`
is equal for such states where partitions and switches nest or are disjoint, as they are on every
board we know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import factorial, prod
from typing import NamedTuple

from placement_service.entities.devices import Device, PartitionPolicy
from placement_service.entities.request import Node
from placement_service.formulation.devices.wants import ALL, NONE, WHOLE, Grade, Load, Want, graded

Position = int
Set = tuple[Position, ...]


class State(NamedTuple):
    """What is left of each device, and how many network devices of each switch."""

    left: tuple[Load, ...]
    nics: tuple[int, ...]


#: Devices of a pod that leaves, and what it has of each.
Leaving = tuple[Collection[int], Want]


class Gift(NamedTuple):
    """Devices by position, and what is there afterwards."""

    devices: Set
    after: State


class _Group(NamedTuple):
    """A partition, a switch or both, with the groups and single devices right inside."""

    grade: Grade | None
    switch: int
    inner: tuple[_Group, ...]
    devices: Set


@dataclass(frozen=True)
class Board:
    """What does not change about a node's devices. A device is known by its position.

    Nodes with equal layouts share one.

    `switches` are devices by switch, where that matters. `insists` says that whole devices
    are given as a partition only, `tells` that it matters which ones are left whole.
    """

    indices: tuple[int, ...]
    memory: tuple[int, ...]
    switches: tuple[Set, ...]
    partitions: tuple[Set, ...]
    grades: tuple[Grade, ...]
    insists: bool
    tells: bool

    def key(self, state: State, numbers: dict[object, int]) -> object:
        """Equal only for states that take the same pods; `numbers` are those given before."""
        forest = self._forest
        if forest is None:
            return self, state
        left, kinds = state.left, self._kinds

        def of(group: _Group) -> int:
            nics = state.nics[group.switch] if group.switch >= 0 else -1
            inner = [of(inside) for inside in group.inner]
            for i in group.devices:
                inner.append(numbers.setdefault((left[i], kinds[i]), len(numbers)))
            inner.sort()
            return numbers.setdefault((group.grade, nics, *inner), len(numbers))

        return self.insists, of(forest)

    @cached_property
    def _graded(self) -> Sequence[tuple[Set, Grade]]:
        """The partitions, where it matters which of them are left whole."""
        return tuple(zip(self.partitions, self.grades, strict=True)) if self.tells else ()

    @cached_property
    def _kinds(self) -> Sequence[object]:
        """What a device is besides what is left of it."""
        single = {part[0]: grade for part, grade in self._graded if len(part) == 1}
        return tuple((memory, single.get(i)) for i, memory in enumerate(self.memory))

    @cached_property
    def symmetries(self) -> int:
        """No more states than this have the same key."""
        return 1 if self._forest is None else _symmetries(self._forest)

    @cached_property
    def _forest(self) -> _Group | None:
        return _forest(len(self.indices), self.switches, self._graded)

    def free_partitions(self, state: State) -> list[Set]:
        """Partitions of which nothing is in use."""
        return [p for p in self.partitions if all(state.left[i] == ALL for i in p)]

    def gifts(self, state: State, want: Want, turn: Sequence[int] | None = None) -> Iterator[Gift]:
        """The ways to give a pod what it wants; at least one of those that are alike. With a
        `turn`, the order in which devices are preferred, ways that keep partitions whole are kept
        apart.
        """
        for devices in self._chosen(state, want, turn):
            left = list(state.left)
            for i in devices:
                load = want.load(self.memory[i])
                assert load is not None
                left[i] = load.off(left[i])
            for nics in self._nics(state.nics, devices, want.nics):
                yield Gift(devices, State(tuple(left), nics))

    def _chosen(self, state: State, want: Want, turn: Sequence[int] | None) -> Iterator[Set]:
        if not want.number:
            if not want.nics:
                yield ()
            return
        if want.in_partition:
            serving = (
                p for p, g in zip(self.partitions, self.grades, strict=True) if g.serves(want)
            )
            free = set(self.free_partitions(state))
            yield from (p for p in serving if len(p) == want.number and p in free)
            return
        if want.whole and (self.insists or turn is not None):
            fitting = [p for p in self.free_partitions(state) if len(p) == want.number]
            yield from fitting
            if self.insists or (fitting and not want.nics):
                return
        alike: dict[object, list[int]] = {}
        switch_of = self._switch_of()
        for i in range(len(state.left)) if turn is None else turn:
            left = state.left[i]
            load = want.load(self.memory[i])
            if load is not None and load != NONE and load.fits(left):
                # Which partitions are left whole matters only where they count.
                at = i if self.tells else switch_of.get(i, -1)
                alike.setdefault((left, self.memory[i], at), []).append(i)
        yield from _pick(list(alike.values()), want.number)

    def _switch_of(self) -> Mapping[int, int]:
        return {i: s for s, devices in enumerate(self.switches) for i in devices}

    def _nics(self, nics: tuple[int, ...], devices: Set, wanted: int) -> Iterator[tuple[int, ...]]:
        """One at least on every switch of the devices, on no other."""
        if not wanted:
            yield nics
            return
        switch_of = self._switch_of()
        mine = sorted({switch_of.get(i, -1) for i in devices})
        if mine[0] < 0 or any(not nics[s] for s in mine):
            return
        for more in _spread([nics[s] - 1 for s in mine], max(0, wanted - len(mine))):
            after = list(nics)
            for s, n in zip(mine, more, strict=True):
                after[s] -= 1 + n
            yield tuple(after)


def board_of(node: Node, *, switches: bool, required: bool) -> Board:
    """The board of a node; switches only where some pod wants network devices.

    `required` says that some pod insists on a partition.
    """
    positions = {d.index: i for i, d in enumerate(node.devices)}
    table = {
        tuple(sorted(positions[d] for d in part)): grade
        for part, grade in graded(node.partitions).items()
    }
    insists = node.partition_policy is PartitionPolicy.HONOR and bool(table)
    by_switch: dict[str, list[int]] = {}
    for i, device in enumerate(node.devices):
        if device.pcie_switch and switches:
            by_switch.setdefault(device.pcie_switch, []).append(i)
    return Board(
        tuple(positions),
        tuple(d.memory_bytes for d in node.devices),
        tuple(map(tuple, by_switch.values())),
        tuple(table),
        tuple(table.values()),
        insists,
        insists or (required and bool(table)),
    )


def boards_of(nodes: Mapping[str, Node], *, switches: bool, required: bool) -> dict[str, Board]:
    """The same for each of some nodes."""
    known: dict[object, Board] = {}

    def board(node: Node) -> Board:
        devices = tuple((d.index, d.memory_bytes, d.pcie_switch) for d in node.devices)
        layout = devices, node.partitions, node.partition_policy
        if layout not in known:
            known[layout] = board_of(node, switches=switches, required=required)
        return known[layout]

    return {name: board(node) for name, node in nodes.items()}


def state_of(board: Board, devices: Sequence[Device]) -> State:
    """What is left of a board's devices; nothing of those that are not healthy."""
    return State(
        tuple(left_of(d) for d in devices),
        tuple(max(devices[i].nics for i in switch) for switch in board.switches),
    )


def without(node: Node, gone: Iterable[Leaving]) -> Node:
    """The node once pods have left the devices that they have."""
    freed: dict[int, Load] = {}
    memory = {d.index: d.memory_bytes for d in node.devices}
    for devices, want in gone:
        for d in devices:
            load = want.load(memory[d]) if d in memory else None
            if load is not None:
                before = freed.get(d, NONE)
                freed[d] = Load(before.compute + load.compute, before.memory + load.memory)
    if not freed:
        return node

    def cleared(device: Device) -> Device:
        load = freed.get(device.index, NONE)
        return replace(
            device,
            used_milli=max(0, device.used_milli - load.compute),
            used_memory_milli=max(0, device.used_memory_milli - load.memory),
        )

    return replace(node, devices=tuple(map(cleared, node.devices)))


def left_of(device: Device) -> Load:
    """What is left of a device, in thousandths; nothing of one that is not healthy."""
    if not device.healthy:
        return NONE
    return Load(max(0, WHOLE - device.used_milli), max(0, WHOLE - device.used_memory_milli))


def _pick(groups: Sequence[Sequence[int]], count: int) -> Iterator[Set]:
    """So many devices, the first ones of each group."""
    for taken in _spread([len(g) for g in groups], count):
        yield tuple(sorted(i for g, n in zip(groups, taken, strict=True) for i in g[:n]))


def _spread(room: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    """Every way to take so many out of several."""
    if count > sum(room):
        return
    if not room:
        yield ()
        return
    for here in range(min(room[0], count), -1, -1):
        for rest in _spread(room[1:], count - here):
            yield (here, *rest)


def _symmetries(group: _Group) -> int:
    inside = len(group.inner) + len(group.devices)
    return prod(map(_symmetries, group.inner), start=factorial(inside))


def _forest(
    count: int, switches: Sequence[Set], partitions: Sequence[tuple[Set, Grade]]
) -> _Group | None:
    """Partitions and switches as they lie inside each other; None when some only overlap."""
    sets: dict[frozenset[int], tuple[Grade | None, int]] = {}
    for part, grade in partitions:
        if len(part) > 1:
            sets[frozenset(part)] = grade, -1
    for s, devices in enumerate(switches):
        found = sets.get(frozenset(devices))
        sets[frozenset(devices)] = found[0] if found is not None else None, s
    ordered = sorted(sets, key=lambda s: (-len(s), sorted(s)))
    if any(a & b and not (a <= b or b <= a) for a in ordered for b in ordered):
        return None

    def group(
        devices: frozenset[int],
        inside: Collection[frozenset[int]],
        *,
        grade: Grade | None,
        switch: int,
    ) -> _Group:
        tops = [s for s in inside if not any(s < other for other in inside)]
        inner = (
            group(
                s,
                [other for other in inside if other < s],
                grade=sets[s][0],
                switch=sets[s][1],
            )
            for s in tops
        )
        alone = devices.difference(*tops)
        return _Group(grade, switch, tuple(inner), tuple(sorted(alone)))

    return group(frozenset(range(count)), ordered, grade=None, switch=-1)
