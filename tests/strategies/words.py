"""What all questions are made of: names, features and sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto

from hypothesis import strategies as st

from placement_service.entities.request import PodGang, PodSet, Snapshot

NAMESPACE = "ml"
GPU = "nvidia.com/gpu"
LEVELS = ("rack", "block")
APPS = ("a", "b")
#: When snapshots are taken, and how long gangs waited then, in seconds.
NOW = 1_000_000
AGES = (0, 0, 59, 120, 3_000, 3_000, 20_000)


class Feature(Enum):
    """What may occur in a snapshot beyond nodes with GPUs and gangs that want them."""

    NODE_RULES = auto()
    HOST_PORTS = auto()
    ANTI_AFFINITY = auto()
    AFFINITY = auto()
    SPREAD = auto()
    RUNNING = auto()
    PRIORITIES = auto()
    BASES = auto()
    PREVIOUS_NODES = auto()
    MIXED_SETS = auto()
    CPU_ONLY = auto()
    OVERLAPS = auto()
    QUEUES = auto()
    AGES = auto()
    TOLD = auto()
    DEVICES = auto()
    COMPUTE_DOMAINS = auto()


EVERYTHING = frozenset(Feature)
PACKING_ONLY = frozenset({Feature.RUNNING, Feature.PRIORITIES, Feature.OVERLAPS, Feature.AGES})
BETWEEN_PODS = {Feature.ANTI_AFFINITY, Feature.AFFINITY, Feature.SPREAD}


@dataclass(frozen=True, slots=True)
class Size:
    """The most of each; `pods` are pending pods in all."""

    nodes: int
    gangs: int
    groups: int
    pods: int


FULL = Size(nodes=3, gangs=2, groups=1, pods=3)
TINY = Size(nodes=4, gangs=3, groups=2, pods=6)
SMALL = Size(nodes=10, gangs=6, groups=3, pods=24)
rarely = st.integers(0, 7).map(lambda n: n == 7)


def with_sets(snapshot: Snapshot, change: Callable[[PodSet], PodSet]) -> tuple[PodGang, ...]:
    return tuple(
        replace(
            gang,
            groups=tuple(
                replace(group, pod_sets=tuple(map(change, group.pod_sets))) for group in gang.groups
            ),
        )
        for gang in snapshot.gangs
    )
