"""The adapters by the names that the settings use, and how the cycle of advice is put together."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Literal

from controller.advice.adapter import Adapter
from controller.advice.kai import Kai
from controller.advice.koordinator import Koordinator
from controller.advice.kube_scheduler import KubeScheduler
from placement.cluster import Cluster

AdapterName = Literal[
    "kube-scheduler",
    "kube-scheduler-nominate",
    "kai",
    "kai-pool",
    "koordinator",
    "koordinator-hints",
]


def adapters(
    names: Sequence[AdapterName], cluster: Cluster, executor: Executor, *, pool: str
) -> list[Adapter]:
    """One adapter a name. `pool` is the node pool of `kai-pool`.

    In the order in which they are asked whether a pod is theirs: kube-scheduler's gate is on
    pods of any scheduler, so it comes last.
    """

    def made(name: AdapterName) -> Adapter:
        match name:
            case "kube-scheduler":
                return KubeScheduler(cluster, executor, mode="pin")
            case "kube-scheduler-nominate":
                return KubeScheduler(cluster, executor, mode="nominate")
            case "kai":
                return Kai(cluster)
            case "kai-pool":
                return Kai(cluster, pool=pool)
            case "koordinator":
                return Koordinator(cluster, mode="reservations")
            case "koordinator-hints":
                return Koordinator(cluster, mode="hints")

    return [made(name) for name in sorted(names, key=lambda one: one.startswith("kube"))]
