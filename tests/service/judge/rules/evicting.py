"""Clusters in which plans evict."""

from __future__ import annotations

from typing import Any

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import Policy
from tests.scenario import Group, Scenario


def cluster(drawing: str, policy: EvictionPolicy) -> Scenario:
    return Scenario(drawing, policy=Policy(eviction=policy))


def old(scenario: Scenario, *told: str, gpus: int = 8, **more: Any) -> Scenario:
    """A gang that runs, with eight GPUs on each of these nodes."""
    return scenario.gang("old", Group("w", gpus=gpus, told=told), **more)
