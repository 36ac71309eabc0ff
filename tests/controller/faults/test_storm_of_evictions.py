"""Running gangs give way while any request may fail, and pods are deleted meanwhile."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.cluster.api import PODS, PRIORITY_CLASSES, ApiError, Body, Resource
from tests.cluster.build import clique, clique_set, node, priority_class
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.proxy import Cut, Drop, FaultProxy, Hang, LoseAnswer, Refuse
from tests.cluster.schedulers import install_kinds
from tests.controller.conftest import controller
from tests.controller.gang_facts import bound_of
from tests.kubernetes import build

QUEUES = Resource("scheduling.run.ai/v2", "queues", namespaced=False)
QUEUE = "kai.scheduler/queue"
LIMITS = {"qa": 4, "qb": 6}
GPUS = 4


def gang(cluster: Cluster, name: str, pods: int, gpus: int, queue: str, priority: str) -> Body:
    return clique_set(
        name,
        clique("w", pods, gpus=gpus, labels={QUEUE: queue}),
        namespace=cluster.namespace,
        priority_class=priority,
    )


@contextmanager
def room_is_kept(cluster: Cluster) -> Iterator[None]:
    """No node and no queue ever has more than it may."""
    too_much: list[Counter[str]] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            used = Counter[str]()
            for pod in cluster.pods():
                if not (at := pod["spec"].get("nodeName")):
                    continue
                gpus = int(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
                used.update({at: gpus, pod["metadata"]["labels"][QUEUE]: gpus})
            if any(amount > LIMITS.get(place, GPUS) for place, amount in used.items()):
                too_much.append(used)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert not too_much, too_much[0]


def test_through_a_storm_who_matters_most_runs_and_no_limit_is_passed(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    service: str,
) -> None:
    chance = random.Random(0)
    install_kinds(cluster.api)
    for name, value in (("high", 1000), ("higher", 2000)):
        cluster.api.create(PRIORITY_CLASSES, priority_class(name, value))
    for name, limit in LIMITS.items():
        cluster.api.create(QUEUES, build.kai_queue(name, limit=limit))
    cluster.add_nodes(*(node(f"n{i}", gpus=GPUS) for i in range(3)))
    config = cluster.kubeconfig(url=fault_proxy.url)
    settings: dict[str, Any] = {
        "eviction": "preempt",
        "eviction_timeout": 20.0,
        "lease_namespace": cluster.namespace,
    }
    with (
        room_is_kept(cluster),
        controller(config, service, watch_silence=2.0, **settings),
    ):
        grove.start()
        for name, pods, gpus, queue in (
            ("l0", 2, 1, "qa"),
            ("l1", 2, 1, "qb"),
            ("l2", 1, 2, "qb"),
            ("l3", 1, 2, "qa"),
        ):
            grove.apply(gang(cluster, name, pods, gpus, queue, ""))
        cluster.wait_until(lambda: len(cluster.bound()) == 6, "all run")
        for fault in (Refuse(409), Refuse(429), Refuse(500), Drop(), LoseAnswer(), Hang(0.2)):
            fault_proxy.fault(fault, when=lambda _: chance.random() < 0.06)
        fault_proxy.fault(Cut(after=2), when=lambda _: chance.random() < 0.2)
        urgent = [
            ("h0", 2, 1, "qa", "high"),
            ("h1", 1, 2, "qa", "higher"),
            ("h2", 2, 2, "qb", "high"),
            ("h3", 1, 2, "qb", "higher"),
        ]
        for one in urgent:
            grove.apply(gang(cluster, *one))
            time.sleep(0.4)
            # It may be evicted at this moment.
            with suppress(ApiError):
                bound = sorted(cluster.bound())
                cluster.api.delete(PODS, chance.choice(bound), cluster.namespace, grace=0)
        time.sleep(1.0)
        fault_proxy.clear()
        cluster.wait_until(
            lambda: all(bound_of(cluster, f"{name}-0") == pods for name, pods, *_ in urgent),
            "who matters most runs",
        )
