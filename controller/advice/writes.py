"""One place through which all advice is written: nothing is sent once another replica leads.

Between any two writes the process may die; tests make it do so before each of them.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.authority import Heartbeat
from controller.steps import Step
from placement.cluster import ApiError, Cluster


def guarded(cluster: Cluster, heartbeat: Heartbeat, *, may_act: Callable[[], bool]) -> Cluster:
    """The cluster as advice may use it; a write raises `ApiError` when we may not act."""

    def before(method: str) -> None:
        if method == "GET":
            heartbeat.beat()
            return
        heartbeat.step(Step.ADVISE)
        # After the step: a process that stood still there may have lost its lease.
        if not may_act():
            raise ApiError(0, "not sent: another replica leads")

    return cluster.guarded(before)
