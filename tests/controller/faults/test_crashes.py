"""Killed at any line: nothing is bound twice, half done for good, or forgotten.

The controller dies by SIGKILL, at each numbered step in turn and at random ones; then
another one begins. A `Witness` sees what each of them did. PLACEMENT_KILLS says how many
random deaths there are.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from functools import partial
from typing import Any

import pytest

from controller.runtime.steps import Step
from placement import v1
from placement.client import PlacementClient
from placement.testing import scripted_server
from tests.cluster.build import clique, clique_set, node
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.proxy import FaultProxy, Refuse
from tests.controller import crashing
from tests.controller.event_judge import UNDER_FAULTS
from tests.controller.gang_facts import bound_of, scheduled, serve_gang
from tests.controller.witness import Witness
from tests.waiting import LONG

KILLS = int(os.environ.get("PLACEMENT_KILLS", "12"))


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
        # Nothing is evicted here; see `test_evictions`.
        *((step, 1) for step in Step if step not in (Step.EVICT, Step.EVICTED, Step.ADVISE)),
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
    with Witness(cluster, UNDER_FAULTS):
        first = crashing.begin(cluster.kubeconfig(), service, die_at=step, visit=visit)
        first.join(LONG)
        assert first.exitcode == -9
        second = crashing.begin(cluster.kubeconfig(), service)
        try:
            cluster.wait_until(lambda: len(cluster.bound()) == 8, "all pods are bound")
            cluster.wait_until(lambda: say_so(cluster, "g-0", "h-0"), "the gangs say so")
        finally:
            crashing.kill(second)


def test_a_crash_while_the_service_thinks_costs_nothing(
    cluster: Cluster, service: str, grove: GroveStandIn, kubelet: FakeKubelet
) -> None:
    """One dies while its question is under way, one as the slow answer comes, and one in the
    middle of carrying it out."""
    asked, thought = threading.Event(), threading.Event()

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        asked.set()
        assert thought.wait(LONG)
        with PlacementClient(service) as client:
            return client.compute(request)

    cluster.add_nodes(node("a", gpus=8))
    serve_gang(cluster, grove)
    with Witness(cluster, UNDER_FAULTS), scripted_server(answer) as slow:
        config = cluster.kubeconfig()
        first = crashing.begin(config, slow.address)
        assert asked.wait(LONG)
        crashing.kill(first)
        assert cluster.bound() == {}
        asked.clear()
        second = crashing.begin(config, slow.address, die_at=Step.APPLY)
        assert asked.wait(LONG)
        thought.set()
        second.join(LONG)
        assert second.exitcode == -9
        assert cluster.bound() == {}
        third = crashing.begin(config, slow.address, die_at=Step.BOUND, visit=2, parallel_calls=1)
        third.join(LONG)
        assert third.exitcode == -9
        assert len(cluster.bound()) == 2
        last = crashing.begin(config, slow.address)
        try:
            cluster.wait_until(lambda: say_so(cluster, "g-0"), "the gang is bound, and says so")
        finally:
            crashing.kill(last)


def test_crashes_while_a_half_bound_gang_is_reported_and_finished(
    cluster: Cluster,
    service: str,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
) -> None:
    """Each one dies a step later than the one before; what is bound stays where it is."""
    cluster.add_nodes(node("a", gpus=8), node("b", gpus=8))
    serve_gang(cluster, grove, gpus=4)
    stubborn = max(pod["metadata"]["name"] for pod in cluster.pods())
    config = cluster.kubeconfig(url=fault_proxy.url)
    # One call after another, so that the others are bound before the one that is refused.
    how: dict[str, Any] = {"parallel_calls": 1, "half_bound_limit": 0.0}

    def dies(step: Step, visit: int = 1) -> None:
        one = crashing.begin(config, service, die_at=step, visit=visit, **how)
        one.join(LONG)
        assert one.exitcode == -9

    with Witness(cluster, UNDER_FAULTS) as witness:
        fault_proxy.fault(Refuse(403), method="POST", path=f"/{stubborn}/binding$")
        dies(Step.BOUND, visit=4)
        assert len(cluster.bound()) == 3
        before = cluster.bound()
        # The report that it is half bound, before and after it is written.
        dies(Step.WRITE)
        assert not scheduled(cluster, "g-0")
        dies(Step.REQUEUE)
        assert scheduled(cluster, "g-0")["reason"] == "HalfBound"
        assert "runs 3 of 4 pods" in scheduled(cluster, "g-0")["message"]
        fault_proxy.clear()
        dies(Step.BIND)
        assert cluster.bound() == before
        dies(Step.BOUND)
        assert len(cluster.bound()) == 4
        assert scheduled(cluster, "g-0")["reason"] == "HalfBound"
        dies(Step.WRITE)
        last = crashing.begin(config, service, **how)
        try:
            cluster.wait_until(lambda: say_so(cluster, "g-0"), "the gang says that it is whole")
        finally:
            crashing.kill(last)
        assert before.items() <= cluster.bound().items()
    # Refused is refused: no pod was bound but by the one request that did it.
    assert witness.pods_bound == 4


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
    # Pods that wait are deleted with their gang; a new one of its name is another gang.
    with Witness(cluster, UNDER_FAULTS) as witness:
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
            witness.check()
        last = crashing.begin(cluster.kubeconfig(), service)
        try:
            started = time.monotonic()
            wanted = sum(sizes[name] for name in names[: min(KILLS, len(names))])
            cluster.wait_until(lambda: len(cluster.bound()) == wanted, "all pods are bound")
            print(
                f"{KILLS} kills at {dict(sorted(seen.items()))};"
                f" the last controller was done after {time.monotonic() - started:.1f} s"
            )
        finally:
            crashing.kill(last)
