"""Devices: every pod gets existing GPUs, whole ones or shares, as its node allows.

Only nodes that list their devices are checked; no other node can serve shares or network devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from placement_service.entities.devices import Device, PartitionPolicy
from placement_service.entities.request import Node, PodTemplate, Policy
from placement_service.judge.outcome import EvictedPod, NewPod
from placement_service.judge.plan import Plan

#: A whole device, in thousandths.
WHOLE = 1000


@dataclass(slots=True)
class _Load:
    """What is in use of a device, in thousandths."""

    compute: int = 0
    memory: int = 0

    def add(self, other: _Load, sign: int = 1) -> None:
        self.compute += sign * other.compute
        self.memory += sign * other.memory

    @property
    def most(self) -> int:
        return max(self.compute, self.memory)


@dataclass(slots=True)
class _Board:
    """The devices of one node and what pods make of them."""

    node: Node
    devices: Mapping[int, Device]
    load: dict[int, _Load] = field(default_factory=dict)

    @property
    def idle(self) -> set[int]:
        """Healthy devices that nobody uses."""
        return {i for i, d in self.devices.items() if d.healthy and not self.load[i].most}


def pods_get_the_devices_that_they_ask_for(plan: Plan) -> Iterator[str]:
    """As many as they ask for, different ones, all of their node and healthy."""
    for node, pods in plan.new_by_node if plan.lists_devices else ():
        devices = {device.index: device for device in node.devices}
        for pod in pods:
            template = pod.template
            count = _count(template, plan.policy)
            where = f"pod {pod.name} on node {node.name}"
            if not devices:
                if pod.devices:
                    yield f"{where} gets devices {_list(pod.devices)}, but the node lists none"
                if template.device_share is not None or template.same_pcie_nics:
                    yield f"{where} asks for parts of devices, but the node lists none"
                if template.required_partition is not None:
                    yield f"{where} insists on a partition, but the node lists no devices"
            elif len(pod.devices) != count or len(set(pod.devices)) != count:
                yield f"{where} gets devices {_list(pod.devices)}, it asks for {count}"
            else:
                bad = [i for i in pod.devices if i not in devices or not devices[i].healthy]
                if bad:
                    yield f"{where} gets devices {_list(bad)}, which are missing or unhealthy"


def devices_are_not_overfilled(plan: Plan) -> Iterator[str]:
    """No pod gets a part of a device that is in use or held for others."""
    for board, pods in _boards(plan):
        given = {i for pod in pods for i in pod.devices if i in board.devices}
        for i in sorted(given):
            load = board.load[i]
            if load.most > WHOLE:
                yield (
                    f"device {i} of node {board.node.name} would have {load.compute} thousandths "
                    f"of its compute and {load.memory} of its memory in use"
                )
        for pod in pods:
            share = pod.template.device_share
            if share is not None and share.memory_bytes:
                there = [board.devices[i] for i in pod.devices if i in board.devices]
                unknown = [device.index for device in there if not device.memory_bytes]
                if unknown:
                    yield (
                        f"pod {pod.name} asks for bytes of devices {_list(unknown)} of node "
                        f"{board.node.name}, whose memory is not known"
                    )
        yield from _held_for_others(plan, board, pods)


def whole_devices_form_partitions(plan: Plan) -> Iterator[str]:
    """Where the node requires it; where the node only prefers it, if a partition is free."""
    for board, pods in _boards(plan):
        node = board.node
        partitions = [set(partition.devices) for partition in node.partitions]
        for pod in pods:
            if not partitions or pod.template.device_share is not None or not pod.devices:
                continue
            if set(pod.devices) in partitions:
                continue
            what = f"pod {pod.name} gets devices {_list(pod.devices)} of node {node.name}"
            if node.partition_policy is PartitionPolicy.HONOR:
                yield f"{what}, which are no partition"
                continue
            # Network devices come before a partition that is only preferred.
            usable = board.idle - _barred(plan, pod)
            free = [p for p in partitions if len(p) == len(pod.devices) and p <= usable]
            if free and not pod.template.same_pcie_nics:
                yield f"{what}, which are no partition, though {_list(free[0])} is one and free"


def pods_get_the_partitions_that_they_insist_on(plan: Plan) -> Iterator[str]:
    """One of exactly their size, with the best score of those or the bandwidth asked for."""
    for board, pods in _boards(plan):
        for pod in pods:
            required = pod.template.required_partition
            if required is None:
                continue
            what = f"pod {pod.name} gets devices {_list(pod.devices)} of node {board.node.name}"
            alike = [p for p in board.node.partitions if len(p.devices) == len(pod.devices)]
            mine = [p for p in alike if set(p.devices) == set(pod.devices)]
            if not mine:
                yield f"{what}, which are no partition, but it insists on one"
                continue
            best = max(p.score for p in alike)
            score = max(p.score for p in mine)
            if required.best_score and score < best:
                yield f"{what}, a partition of score {score}, but the best has {best}"
            bandwidth = max(p.ring_bandwidth for p in mine)
            if bandwidth < required.ring_bandwidth:
                yield (
                    f"{what}, a partition with a ring bandwidth of {bandwidth} bytes per second, "
                    f"but it needs {required.ring_bandwidth}"
                )


def network_devices_are_near(plan: Plan) -> Iterator[str]:
    """Every switch of a pod's GPUs gives it one at least, and together they give as many as it
    needs.

    Each network device serves one pod.
    """
    for board, pods in _boards(plan):
        nics: Counter[str] = Counter()
        for device in board.devices.values():
            nics[device.pcie_switch] = max(nics[device.pcie_switch], device.nics)
        slots = [(switch, n) for switch, most in nics.items() for n in range(most) if switch]
        wishes: list[tuple[NewPod, set[str]]] = []
        for pod in pods:
            if needed := pod.template.same_pcie_nics:
                near = {board.devices[i].pcie_switch for i in pod.devices if i in board.devices}
                wishes += [(pod, {switch}) for switch in sorted(near)]
                wishes += [(pod, near)] * (needed - len(near))
        owner: dict[tuple[str, int], int] = {}
        for w, (pod, _) in enumerate(wishes):
            if not _give(w, wishes, slots, owner, set()):
                yield (
                    f"pod {pod.name} needs {pod.template.same_pcie_nics} network devices on the "
                    f"switches of its devices {_list(pod.devices)} of node {board.node.name}"
                )


def _give(
    wish: int,
    wishes: list[tuple[NewPod, set[str]]],
    slots: list[tuple[str, int]],
    owner: dict[tuple[str, int], int],
    seen: set[tuple[str, int]],
) -> bool:
    """Finds a network device for a wish, moving earlier wishes if it helps (matching)."""
    for slot in slots:
        if slot[0] in wishes[wish][1] and slot not in seen:
            seen.add(slot)
            if slot not in owner or _give(owner[slot], wishes, slots, owner, seen):
                owner[slot] = wish
                return True
    return False


def _boards(plan: Plan) -> Iterator[tuple[_Board, tuple[NewPod, ...]]]:
    """Each node that lists devices and gets new pods, as it is after the plan."""
    for node, pods in plan.new_by_node if plan.lists_devices else ():
        if not node.devices:
            continue
        board = _left_by(node, plan.evicted_by_node.get(node.name, ()))
        for pod in pods:
            for i in pod.devices:
                if i in board.load:
                    board.load[i].add(_load(pod.template, board.devices[i]))
        yield board, pods


def _left_by(node: Node, leaving: Iterable[EvictedPod]) -> _Board:
    """The devices of a node once some pods have gone."""
    board = _Board(node, {device.index: device for device in node.devices})
    board.load = {
        device.index: _Load(device.used_milli, device.used_memory_milli) for device in node.devices
    }
    for evicted in leaving:
        for i in evicted.pod.devices:
            if i in board.load and not evicted.pod.reservation:
                board.load[i].add(_load(evicted.template, board.devices[i]), -1)
    return board


def whole_devices_beyond(
    plan: Plan, node: Node, pods: Iterable[NewPod], leaving: Iterable[EvictedPod]
) -> int:
    """How many whole devices new pods get beyond those that nobody uses once some pods have gone;
    0 where the node lists none.
    """
    if not node.devices:
        return 0
    whole = [pod for pod in pods if pod.template.device_share is None]
    asked = sum(_count(pod.template, plan.policy) for pod in whole)
    return max(0, asked - len(_left_by(node, leaving).idle))


def _held_for_others(plan: Plan, board: _Board, pods: tuple[NewPod, ...]) -> Iterator[str]:
    """Devices of reservations go to the pods that use them; those take no others before."""
    for reservation in plan.reservations_by_node.get(board.node.name, ()):
        held = set(reservation.devices)
        users = plan.users_of.get(reservation.name, ())
        if not held or (reservation.allocate_once and users):
            continue
        names = {user.name for user in users}
        for pod in pods:
            taken = held & set(pod.devices)
            if taken and pod.name not in names and not pod.template.ignores_reservations:
                yield (
                    f"pod {pod.name} gets devices {_list(taken)} of node {board.node.name}, "
                    f"which {reservation.name} holds for others"
                )
        given = {i for user in users for i in user.devices}
        left = held & board.idle - given
        beyond = next((user for user in users if set(user.devices) - held), None)
        if beyond is not None and left:
            yield (
                f"pod {beyond.name} in {reservation.name} gets devices {_list(beyond.devices)} "
                f"of node {board.node.name}, though {_list(left)} of the reservation are free"
            )


def _barred(plan: Plan, pod: NewPod) -> set[int]:
    """Devices of the pod's node that reservations hold for others."""
    if pod.template.ignores_reservations:
        return set()
    return {
        i
        for reservation in plan.reservations_by_node.get(pod.node.name, ())
        for i in reservation.devices
        if reservation.name != pod.reservation
        and not (reservation.allocate_once and plan.users_of.get(reservation.name))
    }


def _count(template: PodTemplate, policy: Policy) -> int:
    """How many devices a pod gets."""
    if template.device_share is not None:
        return template.device_share.count
    return policy.whole_gpus(template.requests)


def _load(template: PodTemplate, device: Device) -> _Load:
    """What a pod takes of each of its devices."""
    share = template.device_share
    if share is None:
        return _Load(WHOLE, WHOLE)
    memory = share.memory_milli
    if share.memory_bytes and device.memory_bytes:
        memory = -(-share.memory_bytes * WHOLE // device.memory_bytes)
    return _Load(share.compute_milli, memory)


def _list(devices: object) -> str:
    return str(sorted(devices))  # type: ignore[call-overload]
