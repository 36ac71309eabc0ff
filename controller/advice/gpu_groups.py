"""Which of KAI's groups the shares of GPUs in one answer belong to.

KAI distinguishes the GPUs of a node only where they are shared: the pods that share one are its
"GPU group". KAI's binder holds a GPU for a new group, and puts the other pods of the group there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import uuid4

from controller.binding.device_notes import Notes
from controller.cluster.gang_state import Body
from placement import v1
from placement.kubernetes.pods.pods import KAI_GROUP
from placement.kubernetes.pods.shares import ANNOTATIONS

_SEPARATOR: Final = ","


class GpuGroups:
    """The existing groups, by node and device, and those that one answer makes: pods of several
    gangs may share a GPU that is free now.
    """

    def __init__(self, known: Mapping[str, Mapping[int, str]]) -> None:
        self._groups = {node: dict(groups) for node, groups in known.items()}

    def of(self, binding: v1.Binding, pod: Body) -> Notes:
        """What is noted for a pod that has shares of GPUs; nothing for others."""
        if not shares_gpus(pod) or not binding.devices:
            return ()
        there = self._groups.setdefault(binding.node.removeprefix("nodes/"), {})
        chosen = [there.setdefault(device, str(uuid4())) for device in binding.devices]
        return ((KAI_GROUP, _SEPARATOR.join(chosen)),)


def shares_gpus(pod: Body) -> bool:
    """Whether KAI gives a pod shares of GPUs, and not whole ones."""
    annotations = pod["metadata"].get("annotations") or {}
    return any(name in annotations for name in ANNOTATIONS)


def noted_groups(notes: Notes) -> tuple[str, ...]:
    """The groups that `GpuGroups` noted."""
    text = dict(notes).get(KAI_GROUP, "")
    return tuple(text.split(_SEPARATOR)) if text else ()


def group_labels(groups: tuple[str, ...]) -> dict[str, str]:
    """The labels that KAI's binder gives a pod of these groups."""
    if len(groups) == 1:
        return {KAI_GROUP: groups[0]}
    return {f"{KAI_GROUP}/{group}": group for group in groups}
