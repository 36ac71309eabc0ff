"""GPUs of nodes that list them, which leavers give back one by one.

Columns only bound what fits (see `formulation.devices`) once somebody has left. Where it matters
which GPUs come free, for shares of them and for partitions, a question says what each of them has
left. What reservations hold and network devices are left out: with them more may have to leave,
never less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from placement_service.entities.node import Node
from placement_service.entities.request import BoundPod, Policy, Snapshot
from placement_service.formulation.arrays import Bools
from placement_service.formulation.devices.boards import left_of
from placement_service.formulation.devices.device_blocks import honours
from placement_service.formulation.devices.wants import ALL, NONE, Load, Want, graded, want_of
from placement_service.formulation.planning_questions import Devices, DeviceWant, OnDevice
from placement_service.planning.leavers import Leavers

#: What leavers give back of the devices of a node: by leaver and device.
_Given = dict[tuple[int, int], Load]


def freed_devices(
    leavers: Leavers,
    policy: Policy,
    wants: Sequence[Want | None],
    able: Bools,
    staying: Mapping[int, Sequence[tuple[Want, int]]],
) -> Iterator[Devices]:
    """The nodes where it matters which devices come free.

    Each demand wants something of devices or nothing, of its `able` nodes [D, N]; of the plan so
    many units of some wants are `staying` on a node.
    """
    nodes = leavers.snapshot.columns
    for row, given in _given(leavers, policy).items():
        node = nodes[row]
        here = [(d, 0, want) for d, want in enumerate(wants) if want is not None and able[d, row]]
        mine = here + [(-1, units, want) for want, units in staying.get(row, ())]
        if here and _tells(node, [want for _, _, want in mine], given):
            taken = [_want(node, d, units, want) for d, units, want in mine]
            yield Devices(
                row,
                tuple(left_of(device) for device in node.devices),
                tuple(OnDevice(v, i, *load) for (v, i), load in given.items()),
                tuple(one for one in taken if one is not None),
            )


def _given(leavers: Leavers, policy: Policy) -> dict[int, _Given]:
    """What leavers give back, by the place of the node."""
    nodes, found = leavers.snapshot.columns, defaultdict[int, _Given](dict)
    for pod, want in _users(leavers.snapshot, policy):
        row = nodes.row_of.get(pod.node)
        if row is None:
            continue
        for i, device in enumerate(nodes[row].devices):
            if device.index in pod.devices and device.healthy:
                load = want.load(device.memory_bytes) or ALL
                for v in leavers.of.get(pod.name, ()):
                    # Extras that are alike leave one by one.
                    before = found[row].get((v, i), NONE) if leavers.names[v] else NONE
                    more = before.compute + load.compute, before.memory + load.memory
                    found[row][v, i] = Load(*more)
    return found


def _users(snapshot: Snapshot, policy: Policy) -> Iterator[tuple[BoundPod, Want]]:
    """The running pods whose devices are known, and what they want of each."""
    for gang in snapshot.gangs:
        for group in gang.groups:
            for pod_set in group.pod_sets:
                want = want_of(pod_set.template, policy)
                if want is not None:
                    yield from ((pod, want) for pod in pod_set.bound_pods if pod.devices)


def _tells(node: Node, wants: Sequence[Want], given: _Given) -> bool:
    """Whether the number of free GPUs does not tell what fits."""
    partly = any(load != ALL for load in given.values())
    partly |= any(left_of(device) not in (ALL, NONE) for device in node.devices)
    return partly or any(
        not want.whole or want.in_partition or (honours(node) and want.number) for want in wants
    )


def _want(node: Node, demand: int, units: int, want: Want) -> DeviceWant | None:
    """What a unit takes of the devices of a node; None for what is not known."""
    told = [want.load(device.memory_bytes) for device in node.devices]
    loads = tuple(load for load in told if load is not None)
    if not want.number or len(loads) < len(told):
        return None
    partitions = None
    if want.in_partition or (want.whole and honours(node)):
        place = {device.index: i for i, device in enumerate(node.devices)}
        partitions = tuple(
            tuple(place[index] for index in devices)
            for devices, grade in graded(node.partitions).items()
            if len(devices) == want.number and place.keys() >= set(devices) and grade.serves(want)
        )
    return DeviceWant(demand, units, want.number, loads, partitions)
