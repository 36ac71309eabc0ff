"""Which devices each pod gets, once it is decided which pods a node gets. The largest come first. A
pod of whole GPUs gets the free partition of its size inside the smallest wholly free partition that
holds one. That keeps the most of every size: taking from a block of size u costs one block of each
size up to u, and the least u costs least. Where no partition of its size is free and the node does
not insist, it gets free devices, again out of the smallest free partitions. Shares go to the
fullest device that has room. Where that fails, as it may with network devices and overlapping
partitions, the next best way is tried. Pods in a reservation get its devices first, other pods none
of them. The rule is that of binary buddy allocation: the partitions of an NVSwitch board nest in
the same way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from placement_service.entities.request import Binding, Node, PodTemplate, Policy, Snapshot
from placement_service.entities.reservations import Reservation
from placement_service.formulation.devices.boards import (
    Gift,
    Leaving,
    State,
    board_of,
    state_of,
    without,
)
from placement_service.formulation.devices.wants import ALL, NONE, Want, want_of

#: Ways to give devices to one pod that are compared, the most promising ones.
MOST_WAYS = 500
#: Ways that are tried on one node.
MOST_TRIED = 20_000


class _Taker(NamedTuple):
    """A pod that gets devices; `own` are those of its reservation, `barred` those of others."""

    pod: str
    want: Want
    own: frozenset[int]
    barred: frozenset[int]


def name_devices(
    snapshot: Snapshot, policy: Policy, bindings: Sequence[Binding], gone: Collection[str] = ()
) -> tuple[Binding, ...]:
    """The bindings with devices, in the same order; the running pods in `gone` leave theirs.

    Raises ValueError when the devices of a node do not hold its pods: a defect of the engine.
    """
    columns = snapshot.columns
    with_devices = np.flatnonzero(columns.parts.where(lambda parts: parts.devices)).tolist()
    nodes = {columns.names[n]: n for n in with_devices}
    here: defaultdict[str, list[Binding]] = defaultdict(list)
    for b in bindings:
        if b.node in nodes:
            here[b.node].append(b)
    if not here:
        return tuple(bindings)
    template_of = {
        name: s.template
        for gang in snapshot.gangs
        for group in gang.groups
        for s in group.pod_sets
        for name in (*(p.name for p in s.pods), *(p.name for p in s.bound_pods if gone))
    }
    left = _left_behind(snapshot, policy, template_of, frozenset(gone))
    held: defaultdict[str, list[Reservation]] = defaultdict(list)
    for reservation in snapshot.reservations:
        if reservation.devices:
            held[reservation.node].append(reservation)
    given: dict[str, tuple[int, ...]] = {}
    for name, mine in here.items():
        takers = []
        used = {b.reservation for b in mine}
        for b in mine:
            want = want_of(template_of[b.pod], policy)
            if want is not None:
                ignores = template_of[b.pod].ignores_reservations
                takers.append(_taker(b, want, held[name], used, ignores=ignores))
        given.update(_Board(without(columns[nodes[name]], left.get(name, ()))).give(takers))
    return tuple(b._replace(devices=given.get(b.pod, ())) for b in bindings)


def _left_behind(
    snapshot: Snapshot,
    policy: Policy,
    template_of: Mapping[str, PodTemplate],
    gone: Collection[str],
) -> Mapping[str, list[Leaving]]:
    """What running pods leave on each node; devices of reservations stay held."""
    left: defaultdict[str, list[Leaving]] = defaultdict(list)
    for gang in snapshot.gangs if gone else ():
        for group in gang.groups:
            for pod in group.running_pods:
                want = want_of(template_of[pod.name], policy) if pod.name in gone else None
                if want is not None and not pod.reservation:
                    left[pod.node].append((pod.devices, want))
    return left


def _taker(
    binding: Binding,
    want: Want,
    held: Sequence[Reservation],
    used: Collection[str],
    *,
    ignores: bool,
) -> _Taker:
    """The pod of a binding on a node of which some reservations are `used` and all are `held`."""
    own = {d for r in held if r.name == binding.reservation for d in r.devices}
    barred = {
        d
        for r in held
        if not (ignores or r.name == binding.reservation or (r.allocate_once and r.name in used))
        for d in r.devices
    }
    return _Taker(binding.pod, want, frozenset(own), frozenset(barred - own))


class _Board:
    """The devices of one node while they are given out."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._board = board_of(node, switches=True, required=False)
        self._start = state_of(self._board, node.devices)
        self._tries = 0

    def give(self, takers: Sequence[_Taker]) -> Mapping[str, tuple[int, ...]]:
        """Devices for each pod."""
        order = sorted(takers, key=self._turn)
        given: dict[str, tuple[int, ...]] = {}
        if not self._settle(order, 0, self._start, given):
            pods = ", ".join(taker.pod for taker in order)
            raise ValueError(f"{self._node.name} has no devices for {pods}")
        return given

    def _turn(self, taker: _Taker) -> tuple[object, ...]:
        want = taker.want
        loads = [want.load(memory) for memory in self._board.memory]
        size = max((max(load) for load in loads if load is not None), default=0)
        # Pods that insist on a partition come first: others can use what these leave.
        return (
            not want.in_partition,
            not taker.own,
            not want.whole,
            -want.number * size,
            -want.nics,
            taker.pod,
        )

    def _settle(
        self, order: Sequence[_Taker], at: int, state: State, given: dict[str, tuple[int, ...]]
    ) -> bool:
        if at == len(order):
            return True
        for gift in self._best_first(state, order[at]):
            self._tries += 1
            if self._tries > MOST_TRIED:
                return False
            given[order[at].pod] = tuple(sorted(self._board.indices[i] for i in gift.devices))
            if self._settle(order, at + 1, gift.after, given):
                return True
        return False

    def _best_first(self, state: State, taker: _Taker) -> Iterator[Gift]:
        board, want = self._board, taker.want
        barred = {i for i, index in enumerate(board.indices) if index in taker.barred}
        own = {i for i, index in enumerate(board.indices) if index in taker.own}
        open_to = state._replace(
            left=tuple(NONE if i in barred else left for i, left in enumerate(state.left))
        )
        free = {i for i, left in enumerate(open_to.left) if left == ALL}
        parts = board.free_partitions(open_to)
        blocks = {i: max((len(p) for p in parts if i in p), default=1) for i in free}
        turn = sorted(range(len(state.left)), key=lambda i: (i not in own, blocks.get(i, 0), i))

        def cost(gift: Gift) -> tuple[object, ...]:
            mine = set(gift.devices)
            # A device that is shared already is part of no free partition, and costs none.
            partition = gift.devices in board.partitions and mine <= free
            around = max((len(p) for p in parts if mine <= set(p)), default=len(board.indices))
            rest = [sum(gift.after.left[i]) for i in gift.devices]
            return (
                -len(mine & own),
                want.whole and bool(board.partitions) and not partition,
                around if partition else sum(blocks.get(i, 0) for i in mine),
                sum(rest),
                gift.devices,
            )

        gifts: Iterable[Gift] = board.gifts(open_to, want, turn)
        for gift in sorted(islice(gifts, MOST_WAYS), key=cost):
            left = tuple(
                state.left[i] if i in barred else now for i, now in enumerate(gift.after.left)
            )
            yield Gift(gift.devices, State(left, gift.after.nics))
