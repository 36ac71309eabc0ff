"""Gangs that run, and gangs that come before them: questions about evictions."""

from __future__ import annotations

from dataclasses import replace

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import (
    PODS,
    BoundPod,
    PackingScope,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.formulation.eviction.running_gangs import open_running_gangs
from tests.service.questions import GPU, gang, node

PREEMPT = Policy(eviction=EvictionPolicy.PREEMPT)
RECLAIM = Policy(eviction=EvictionPolicy.RECLAIM)
REPACK = Policy(eviction=EvictionPolicy.REPACK)


def running(
    name: str, *nodes: str, gpus: int = 4, priority: int = 0, minimum: int | None = None
) -> PodGang:
    """A gang that runs with a pod on each of some nodes."""
    pods = tuple(
        BoundPod(f"namespaces/ml/pods/{name}-{i}", f"nodes/{n}") for i, n in enumerate(nodes)
    )
    sets = (PodSet(PodTemplate({GPU: gpus, PODS: 1}, {"app": name}), (), pods),)
    least = len(nodes) if minimum is None else minimum
    group = PodGroup("worker", least, sets)
    return PodGang(f"namespaces/ml/podgangs/{name}", (group,), priority)


def urgent(gpus: int = 8, priority: int = 100) -> PodGang:
    return replace(gang("urgent", pods=1, gpus=gpus), priority=priority)


def new(pods: int, level: str = "") -> PodGang:
    """Pods as large as a node, which may all need one domain of a level."""
    one = replace(gang("new", pods=pods, gpus=8), priority=100)
    scopes = (PackingScope("all", ("worker",), level),) if level else ()
    return replace(one, packing_scopes=scopes)


def cluster(*gangs: PodGang, used: int = 8, nodes: int = 1) -> Snapshot:
    return Snapshot(tuple(node(f"n{i}", used=used) for i in range(nodes)), gangs)


def opened(snapshot: Snapshot, policy: Policy = PREEMPT) -> list[int]:
    return sorted(open_running_gangs(snapshot, policy).opened)
