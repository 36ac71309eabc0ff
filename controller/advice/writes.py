"""All advice is written through this module: nothing is sent once another replica leads. The
process may die between any two writes; tests kill it before each of them.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.runtime.authority import Heartbeat
from controller.runtime.steps import Step
from placement.cluster import ApiError, Cluster


def guarded(cluster: Cluster, heartbeat: Heartbeat, *, may_act: Callable[[], bool]) -> Cluster:
    """The cluster as advice may use it; a write raises `ApiError` when we may not act."""

    def before(method: str) -> None:
        if method == "GET":
            heartbeat.beat()
            return
        heartbeat.step(Step.ADVISE)
        # Asked after the step: a process that was held up there may have lost its lease.
        if not may_act():
            raise ApiError(0, "not sent: another replica leads")

    return cluster.guarded(before)
