"""Killed at any line: nothing is bound twice, half done for good, or forgotten.

The controller dies by SIGKILL, at each numbered step in turn and at random ones; then
another one begins. PLACEMENT_KILLS says how many random deaths there are.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from functools import partial
from typing import Self

import pytest

from controller.steps import Step
from tests.cluster.api import PODS, Body
from tests.cluster.build import GPU, clique, clique_set, node
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.informer import Informer
from tests.cluster.kubelet import FakeKubelet
from tests.controller import crashing
from tests.controller.gangs import bound_of, scheduled

KILLS = int(os.environ.get("PLACEMENT_KILLS", "12"))


class Witness:
    """Every node that every pod was ever seen on."""

    def __init__(self, cluster: Cluster) -> None:
        self.nodes: dict[str, set[str]] = {}
        self._informer = Informer(cluster.api, PODS, self._see)

    def _see(self, pod: Body, is_gone: bool) -> None:
        if node := pod["spec"].get("nodeName"):
            self.nodes.setdefault(pod["metadata"]["uid"], set()).add(node)

    def __enter__(self) -> Self:
        self._informer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._informer.stop()
        assert all(len(nodes) == 1 for nodes in self.nodes.values())


def check_room(cluster: Cluster, gpus: int) -> None:
    """No node has more than it holds."""
    used: Counter[str] = Counter()
    for pod in cluster.pods():
        limits = pod["spec"]["containers"][0]["resources"].get("limits", {})
        used[pod["spec"].get("nodeName", "")] += int(limits.get(GPU, 0))
    del used[""]
    assert all(taken <= gpus for taken in used.values()), used


def say_so(cluster: Cluster, *gangs: str) -> bool:
    """Whether gangs are reported as placed as well as can be."""
    return all(
        scheduled(cluster, gang).get("status") == "True"
        and cluster.gangs()[gang]["status"].get("placementScore") == 1.0
        for gang in gangs
    )


def is_gone(cluster: Cluster, gang: str) -> bool:
    return bound_of(cluster, gang) == 0


@pytest.mark.parametrize(
    ("step", "visit"),
    [
        *((step, 1) for step in Step),
        (Step.BIND, 2),
        (Step.BIND, 5),
        (Step.BOUND, 3),
        (Step.BOUND, 6),
        (Step.WRITE, 2),
        (Step.COLLECT, 3),
    ],
    ids=lambda value: value.name.lower() if isinstance(value, Step) else str(value),
)
def test_after_a_crash_at_any_step_the_next_one_finishes(
    cluster: Cluster,
    service: str,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    step: Step,
    visit: int,
) -> None:
    cluster.add_nodes(node("a", gpus=8), node("b", gpus=8))
    for name in ("g", "h"):
        grove.apply(clique_set(name, clique("worker", 4, gpus=2), namespace=cluster.namespace))
    grove.settle()
    with Witness(cluster):
        first = crashing.begin(cluster.kubeconfig(), service, die_at=step, visit=visit)
        first.join(20)
        assert first.exitcode == -9
        second = crashing.begin(cluster.kubeconfig(), service)
        try:
            cluster.wait_until(lambda: len(cluster.bound()) == 8, "all pods are bound")
            cluster.wait_until(lambda: say_so(cluster, "g-0", "h-0"), "the gangs say so")
        finally:
            crashing.kill(second)
    check_room(cluster, 8)


@pytest.mark.timeout(120 + 10 * KILLS)
def test_random_kills_lose_nothing(
    cluster: Cluster, service: str, grove: GroveStandIn, kubelet: FakeKubelet
) -> None:
    """Gangs come and go while controllers are killed at random steps and moments."""
    cluster.add_nodes(*(node(f"n{i}", gpus=8) for i in range(4)))
    choose = random.Random(7)
    names = [f"g{i}" for i in range(6)]
    sizes = {name: choose.choice([2, 3, 4]) for name in names}
    grove.start()
    seen: Counter[str] = Counter()
    with Witness(cluster) as witness:
        for kill in range(KILLS):
            name = names[kill % len(names)]
            if kill >= len(names):
                grove.forget(cluster.namespace, name)
                cluster.wait_until(partial(is_gone, cluster, f"{name}-0"), "the gang is gone")
            grove.apply(
                clique_set(name, clique("w", sizes[name], gpus=2), namespace=cluster.namespace)
            )
            step, visit = choose.choice([*Step, Step.BIND, Step.BOUND]), choose.randint(1, 4)
            one = crashing.begin(cluster.kubeconfig(), service, die_at=step, visit=visit)
            one.join(choose.uniform(1.0, 3.0))
            seen[step.name if one.exitcode == -9 else "AT_RANDOM"] += 1
            crashing.kill(one)
            check_room(cluster, 8)
        last = crashing.begin(cluster.kubeconfig(), service)
        try:
            started = time.monotonic()
            wanted = sum(sizes[name] for name in names[: min(KILLS, len(names))])
            cluster.wait_until(lambda: len(cluster.bound()) == wanted, "all pods are bound")
            print(
                f"{KILLS} kills at {dict(seen)}; {len(witness.nodes)} pods bound;"
                f" the last controller was done after {time.monotonic() - started:.1f} s"
            )
        finally:
            crashing.kill(last)
    check_room(cluster, 8)
