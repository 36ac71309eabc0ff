"""What pods want of single devices, as numbers: the kinds of a question that boards serve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from placement_service.entities.devices import DevicePartition
from placement_service.entities.request import PodTemplate, Policy, Snapshot

#: A whole GPU, in thousandths.
WHOLE = 1000


class Load(NamedTuple):
    """Compute and memory of one device, in thousandths of it."""

    compute: int
    memory: int

    def fits(self, left: Load) -> bool:
        """Whether it fits into what is left of a device."""
        return self.compute <= left.compute and self.memory <= left.memory

    def off(self, left: Load) -> Load:
        """What is left of a device when this is taken."""
        return Load(left.compute - self.compute, left.memory - self.memory)


#: All of a device.
ALL = Load(WHOLE, WHOLE)
NONE = Load(0, 0)


class Want(NamedTuple):
    """`number` different devices and so much of each, and network devices on their switches.

    `in_partition` says that it insists on a partition, as RequiredPartition has it.
    """

    number: int
    compute: int = WHOLE
    memory: int = WHOLE
    memory_bytes: int = 0
    whole: bool = True
    nics: int = 0
    in_partition: bool = False
    best_score: bool = False
    ring_bandwidth: int = 0

    def load(self, memory_bytes: int) -> Load | None:
        """What it takes of a device with so much memory; None where that is not known."""
        if not self.memory_bytes:
            return Load(self.compute, self.memory)
        if not memory_bytes:
            return None
        return Load(self.compute, -(-self.memory_bytes * WHOLE // memory_bytes))


def want_of(template: PodTemplate, policy: Policy) -> Want | None:
    """What a pod wants of single devices; None for nothing."""
    share, nics = template.device_share, template.same_pcie_nics
    if share is not None:
        return Want(
            share.count, share.compute_milli, share.memory_milli, share.memory_bytes, False, nics
        )
    count = policy.whole_gpus(template.requests)
    if not (count or nics):
        return None
    required = template.required_partition
    if required is None:
        return Want(count, nics=nics)
    return Want(
        count,
        nics=nics,
        in_partition=True,
        best_score=required.best_score,
        ring_bandwidth=required.ring_bandwidth,
    )


def requires_partition(snapshot: Snapshot) -> bool:
    """Whether some pod insists on a partition."""
    return any(
        s.template.required_partition is not None
        for gang in snapshot.gangs
        for group in gang.groups
        for s in group.pod_sets
    )


def wants_network(snapshot: Snapshot) -> bool:
    """Whether some pod wants network devices beside its GPUs."""
    return any(
        s.template.same_pcie_nics
        for gang in snapshot.gangs
        for group in gang.groups
        for s in group.pod_sets
    )


class Grade(NamedTuple):
    """What pods may ask of a partition: whether none of its size has more, and its bandwidth."""

    best: bool
    ring_bandwidth: int

    def serves(self, want: Want) -> bool:
        """Whether it is good enough for a pod that insists on a partition."""
        return (self.best or not want.best_score) and self.ring_bandwidth >= want.ring_bandwidth


def graded(partitions: Sequence[DevicePartition]) -> dict[tuple[int, ...], Grade]:
    """The partitions of a node, each as a sorted set of devices, with the grade of each."""
    best: dict[int, int] = {}
    for p in partitions:
        best[len(p.devices)] = max(best.get(len(p.devices), p.score), p.score)
    found: dict[tuple[int, ...], Grade] = {}
    for p in partitions:
        devices = tuple(sorted(p.devices))
        # A partition that is listed twice counts as the better of both.
        grade = Grade(p.score == best[len(devices)], p.ring_bandwidth)
        before = found.get(devices, grade)
        found[devices] = Grade(
            grade.best or before.best, max(grade.ring_bandwidth, before.ring_bandwidth)
        )
    return dict(sorted(found.items()))
