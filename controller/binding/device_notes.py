"""Which devices a pod gets, in the form that the agents on its node read.

Koordinator's agents on the node read an annotation of the pod, which its scheduler writes when it
binds. A pod that has the annotation before gets exactly those devices. It is written only where a
Device object lists the devices of the node. Network devices are chosen here: any that are free on
the switches of the pod's GPUs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from controller.cluster.gang_state import Body, Key, node_of
from placement import v1
from placement.kubernetes.nodes.device_annotations import ALLOCATED, read_allocated
from placement.kubernetes.values.reading import At

#: Annotations of a pod, as an immutable value.
Notes = tuple[tuple[str, str], ...]

_CORE: Final = "koordinator.sh/gpu-core"
_RATIO: Final = "koordinator.sh/gpu-memory-ratio"
_RDMA: Final = "koordinator.sh/rdma"


class DeviceNotes:
    """Writes for the bindings of one answer; `boards` are the Device objects."""

    def __init__(
        self,
        request: v1.ComputePlacementRequest,
        boards: Mapping[Key, Body],
        pods: Mapping[Key, Body],
    ) -> None:
        self._boards = boards
        self._pods = pods
        self._taken: dict[str, set[int]] = {}
        self._templates: dict[str, v1.PodTemplate] = {}
        self._memory: dict[str, dict[int, int]] = {}
        if boards:
            self._templates = {
                pod.name: s.template
                for gang in request.gangs
                for group in gang.groups
                for s in group.pod_sets
                for pod in s.pods
            }
            self._memory = {
                node.name: {device.index: device.memory_bytes for device in node.devices}
                for node in request.snapshot.nodes
                if node.devices
            }

    def of(self, binding: v1.Binding) -> Notes:
        """What is written on the pod of a binding; nothing where nobody would read it."""
        node = binding.node.removeprefix("nodes/")
        board = self._boards.get(("", node))
        template = self._templates.get(binding.pod)
        if board is None or template is None or not binding.devices:
            return ()
        listed = [d for d in (board.get("spec") or {}).get("devices") or () if isinstance(d, dict)]
        ids = {d.get("minor"): d.get("id") for d in listed if d.get("type") == "gpu"}
        memory = self._memory.get(binding.node, {})
        allocated: dict[str, Any] = {
            "gpu": [
                {
                    "minor": minor,
                    "resources": _resources(template, memory.get(minor, 0)),
                    **({"id": ids[minor]} if ids.get(minor) else {}),
                }
                for minor in binding.devices
            ]
        }
        if template.same_pcie_nics:
            chosen = self._network(node, listed, binding.devices, template.same_pcie_nics)
            allocated["rdma"] = [
                {
                    "minor": device["minor"],
                    "resources": {_RDMA: "100"},
                    **({"id": device["id"]} if device.get("id") else {}),
                }
                for device in chosen
            ]
        return ((ALLOCATED, json.dumps(allocated, separators=(",", ":"))),)

    def _network(
        self, node: str, listed: Iterable[Body], gpus: Iterable[int], wanted: int
    ) -> list[Body]:
        """Free network devices: one of each switch of the GPUs, then more of any of them."""
        if node not in self._taken:
            self._taken[node] = {
                minor
                for pod in self._pods.values()
                if node_of(pod) == node
                for minor in read_allocated(At(pod, {}).get("metadata").get("annotations")).nics
            }
        taken, minors = self._taken[node], set(gpus)
        by_switch: dict[object, list[Body]] = {}
        mine: dict[object, None] = {}
        for device in listed:
            switch = (device.get("topology") or {}).get("pcieID")
            if device.get("type") == "gpu" and device.get("minor") in minors:
                mine[switch] = None
            elif device.get("type") == "rdma" and device.get("health") is not False:
                by_switch.setdefault(switch, []).append(device)
        free = {s: [d for d in by_switch.get(s, ()) if d.get("minor") not in taken] for s in mine}
        chosen = [devices.pop(0) for devices in free.values() if devices]
        while len(chosen) < wanted and any(free.values()):
            # The switch with most free devices, because other pods need the scarce ones.
            chosen.append(max(free.values(), key=len).pop(0))
        taken.update(device["minor"] for device in chosen)
        return chosen


def _resources(template: v1.PodTemplate, memory_bytes: int) -> dict[str, str]:
    """What a pod takes of one GPU, in hundredths."""
    if not template.HasField("device_share"):
        return {_CORE: "100", _RATIO: "100"}
    share = template.device_share
    memory = share.memory_milli
    if share.memory_bytes and memory_bytes:
        memory = -(-share.memory_bytes * 1000 // memory_bytes)
    amounts = {_CORE: -(-share.compute_milli // 10), _RATIO: -(-memory // 10)}
    return {name: str(amount) for name, amount in amounts.items() if amount}
