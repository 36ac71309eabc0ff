"""Gangs of any author: what the readers of all kinds agree on.

Grove's PodGangs, KAI's and Koordinator's PodGroups and the rest are read by a module each
(`grove.pod_gangs`, `kai.gangs`, `koordinator.gangs`, ...). From here on they are alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from placement import v1
from placement.kubernetes.objects import Object
from placement.kubernetes.pods.pods import Pod

#: Label of a scaled gang's pods: the name of the base gang.
BASE_POD_GANG: Final = "grove.io/base-podgang"

Key = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A pod group as written; `pods` are namespace and name of each member."""

    name: str
    min_replicas: int
    pods: tuple[Key, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Gang:
    """A gang as written. `reuses` is the gang whose nodes it prefers.

    `queue`, `preemptible` and `priority_class` are what the gang itself says; empty or None
    where it says nothing. `fixed_from` is the priority from which a gang that says nothing is
    not preemptible. With `pods_name_queues` labels of its object name no queue, only those of its
    pods. `parts` names the gangs that make it up, where their scheduler knows several that only
    run together. `unsupported` names what cannot be honoured.
    """

    object: Object
    groups: tuple[Group, ...]
    scopes: tuple[v1.PackingScope, ...] = ()
    priority_class: str = ""
    priority: int | None = None
    initialized: bool = True
    terminating: bool = False
    reuses: Key | None = None
    queue: str = ""
    pods_name_queues: bool = False
    preemptible: bool | None = None
    fixed_from: int | None = None
    created: datetime | None = None
    parts: tuple[Key, ...] = ()
    unsupported: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        return self.object.key

    @property
    def resource_name(self) -> str:
        return f"namespaces/{self.object.namespace}/podgangs/{self.object.name}"

    def members(self, pods: Mapping[Key, Pod]) -> list[Pod]:
        """The pods of all groups that are there."""
        return [pods[key] for group in self.groups for key in group.pods if key in pods]

    def has_home(self, pod: Pod) -> bool:
        """Whether a member lives where the gang does; others are not sent."""
        return pod.namespace == self.object.namespace
