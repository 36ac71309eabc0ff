"""Which devices of a node keep a pod away: "no partition of 4 is free on h1: 0-3 has GPU 2 in use".

It looks at the devices as the snapshot lists them, before any plan, and at one pod alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from placement_service.entities.devices import (
    Device,
    DeviceShare,
    PartitionPolicy,
    RequiredPartition,
)
from placement_service.entities.request import Node, PodTemplate, Policy
from placement_service.explain import wording as words

#: A whole device, in thousandths.
WHOLE = 1000


def devices_in_the_way(node: Node, template: PodTemplate, policy: Policy) -> str:
    """Why the devices of a node do not hold one such pod; empty when nothing is found."""
    share, nics = template.device_share, template.same_pcie_nics
    if not node.devices:
        needs = share is not None or nics > 0 or template.required_partition is not None
        return f"{node.short_name} does not list its GPUs" if needs else ""
    if share is not None:
        able = [d for d in node.devices if d.healthy and _holds(d, share)]
        return _no_room_for_share(node, share, able) or _no_network(node, able, share.count, nics)
    count = policy.whole_gpus(template.requests)
    if not count:
        return ""
    able = [d for d in node.devices if d.whole]
    if len(able) < count:
        verb = "is" if len(able) == 1 else "are"
        there = f"{words.gpus(len(node.devices))} on {node.short_name}"
        state = _state_of([d for d in node.devices if not d.whole])
        return f"{len(able)} of {there} {verb} wholly free: {state}"
    free = {d.index for d in able}
    return _no_partition(node, count, free, template.required_partition) or _no_network(
        node, able, count, nics
    )


def _no_partition(
    node: Node, count: int, free: set[int], required: RequiredPartition | None
) -> str:
    honoured = node.partition_policy is PartitionPolicy.HONOR and node.partitions
    if required is None and not honoured:
        return ""
    alike = [p for p in node.partitions if len(p.devices) == count]
    if not alike:
        return f"{node.short_name} has no partition of {words.gpus(count)}"
    asked = f"{count}"
    if required is not None and required.best_score:
        best = max(p.score for p in alike)
        if any(p.score < best for p in alike):
            asked = f"{count} with the best score, {best},"
        alike = [p for p in alike if p.score == best]
    if required is not None and required.ring_bandwidth:
        least = words.amount("memory", required.ring_bandwidth).partition(" ")[0]
        alike = [p for p in alike if p.ring_bandwidth >= required.ring_bandwidth]
        if not alike:
            return f"no partition of {asked} on {node.short_name} has a ring bandwidth of {least}/s"
        asked = f"{asked} and {least}/s"
    table = sorted(tuple(sorted(p.devices)) for p in alike)
    if any(free.issuperset(part) for part in table):
        return ""
    by_index = {d.index: d for d in node.devices}
    each = [
        f"{_ranges(part)} has {_state_of([by_index[i] for i in part if i not in free])}"
        for part in table
    ]
    if len(each) > words.MOST_NAMES:
        each = [*each[: words.MOST_NAMES], f"{len(each) - words.MOST_NAMES} more are not free"]
    return f"no partition of {asked} is free on {node.short_name}: {'; '.join(each)}"


def _no_room_for_share(node: Node, share: DeviceShare, able: Sequence[Device]) -> str:
    if len(able) >= share.count:
        return ""
    want = _share_word(share)
    if share.count > 1:
        verb = "has" if len(able) == 1 else "have"
        there = f"{words.gpus(len(node.devices))} on {node.short_name}"
        return f"{len(able)} of {there} {verb} {want} left, and a pod needs {share.count}"
    left = words.listed([f"GPU {d.index} has {_left_of(d, share)}" for d in node.devices])
    return f"no GPU on {node.short_name} has {want} left: {left}"


def _holds(device: Device, share: DeviceShare) -> bool:
    return device.used_milli + share.compute_milli <= WHOLE and _has_memory(device, share)


def _has_memory(device: Device, share: DeviceShare) -> bool:
    memory = share.memory_milli
    if share.memory_bytes:
        if not device.memory_bytes:
            return False
        memory = -(-share.memory_bytes * WHOLE // device.memory_bytes)
    return device.used_memory_milli + memory <= WHOLE


def _no_network(node: Node, able: Sequence[Device], count: int, nics: int) -> str:
    """What the switches of the devices lack that are free for a pod of so many, if anything."""
    if not nics:
        return ""
    near = [d for d in able if d.pcie_switch and d.nics]
    there = sum({d.pcie_switch: d.nics for d in near}.values())
    if not near:
        return f"no GPU that is free on {node.short_name} is on a switch with network devices"
    if count == 1:
        return f"no GPU that is free on {node.short_name} has {_devices(nics)} on its switch"
    if len(near) >= count and there >= nics:
        return (
            f"no {count} GPUs that are free on {node.short_name} have {_devices(nics)} on "
            "their switches, one on each at least"
        )
    return (
        f"of {words.gpus(count)} with {_devices(nics)} {node.short_name} has {len(near)} on "
        f"switches with {there}"
    )


def _devices(nics: int) -> str:
    return "1 network device" if nics == 1 else f"{nics} network devices"


def _state_of(devices: Sequence[Device]) -> str:
    """``GPU 2 in use and GPU 5 unhealthy``."""
    found: dict[str, list[int]] = {}
    for d in devices:
        found.setdefault("in use" if d.healthy else "unhealthy", []).append(d.index)
    return words.listed([f"{_gpus(indices)} {what}" for what, indices in found.items()])


def _left_of(device: Device, share: DeviceShare) -> str:
    """What is left of a device, as a part of it, or in bytes where these are asked for and lack."""
    if not device.healthy:
        return "none"
    if share.memory_bytes and not _has_memory(device, share):
        left = device.memory_bytes * (WHOLE - device.used_memory_milli) // WHOLE
        return words.amount("memory", left) if device.memory_bytes else "memory that is not known"
    return f"{(WHOLE - max(device.used_milli, device.used_memory_milli)) / 10:g} %"


def _share_word(share: DeviceShare) -> str:
    if share.memory_bytes:
        return words.amount("memory", share.memory_bytes)
    return f"{max(share.compute_milli, share.memory_milli) / 10:g} %"


def _gpus(indices: Sequence[int]) -> str:
    return f"GPU {indices[0]}" if len(indices) == 1 else f"GPUs {_ranges(indices)}"


def _ranges(indices: Iterable[int]) -> str:
    """``0-3``, ``0-1, 4``."""
    runs: list[list[int]] = []
    for i in sorted(indices):
        if runs and runs[-1][-1] == i - 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    return ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs)
