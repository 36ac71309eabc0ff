"""Evictions: which pods may be evicted, which are, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from placement_service.entities.selectors import LabelSelector


class EvictionPolicy(Enum):
    """Which running pods may give way; `placement.v1.EvictionPolicy` says more."""

    NONE = "NONE"
    PREEMPT = "PREEMPT"
    RECLAIM = "RECLAIM"
    REPACK = "REPACK"


class EvictionKind(Enum):
    """Why a running pod has to go."""

    PREEMPT = "PREEMPT"
    RECLAIM = "RECLAIM"
    MOVE = "MOVE"


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """At most `allowed` of the pods that `selector` matches in its namespace may be evicted.

    `selector` None matches no pod.
    """

    name: str
    selector: LabelSelector | None
    allowed: int

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether the budget covers a pod."""
        return (
            self.selector is not None
            and self.name.split("/")[1] == namespace
            and self.selector.matches(labels)
        )


@dataclass(frozen=True, slots=True)
class Eviction:
    """Takes a running pod of a gang off its node.

    `for_gang` gets the room; `to_node`, only of a MOVE, is where the pod that
    replaces this one runs, and `to_devices` those that it gets there.
    """

    pod: str
    gang: str
    node: str
    kind: EvictionKind
    for_gang: str = ""
    to_node: str = ""
    reason: str = ""
    to_devices: tuple[int, ...] = ()
