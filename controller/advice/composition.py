"""The adapters by the names that the settings use, and how the cycle of advice is put together."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Literal

from controller.advice.adapter import Adapter
from controller.advice.schedulers.kai import Kai
from controller.advice.schedulers.kai_pins import KaiPins
from controller.advice.schedulers.koordinator import Koordinator
from controller.advice.schedulers.koordinator_hints import KoordinatorHints
from controller.advice.schedulers.kube_scheduler import KubeScheduler
from controller.advice.schedulers.volcano import Volcano
from placement.cluster import Cluster

AdapterName = Literal[
    "kube-scheduler",
    "kube-scheduler-nominate",
    "kai",
    "kai-pool",
    "kai-pins",
    "koordinator",
    "koordinator-hints",
    "volcano",
]


def adapters(
    names: Sequence[AdapterName],
    cluster: Cluster,
    executor: Executor,
    *,
    pool: str,
    kai_settle: float,
) -> list[Adapter]:
    """One adapter for each name. `pool` is the node pool of `kai-pool`, `kai_settle` how long `kai`
    waits for what KAI has decided.

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
                return Kai(cluster, executor, settle=kai_settle)
            case "kai-pool":
                return Kai(cluster, executor, pool=pool)
            case "kai-pins":
                return KaiPins(cluster, executor)
            case "koordinator":
                return Koordinator(cluster, executor)
            case "koordinator-hints":
                return KoordinatorHints(cluster, executor)
            case "volcano":
                return Volcano(cluster, executor)

    return [made(name) for name in sorted(names, key=lambda one: one.startswith("kube"))]
