"""Every kind of fault between controller and API server at once."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack

import pytest

from tests.cluster.api import PODS
from tests.cluster.build import (
    clique,
    clique_set,
    node,
    pack,
    scaling_group,
    topology_binding,
)
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.proxy import (
    Cut,
    Drop,
    FaultProxy,
    Hang,
    LoseAnswer,
    Refuse,
)
from tests.controller.conftest import controller
from tests.controller.event_judge import UNDER_FAULTS
from tests.controller.gang_facts import scheduled
from tests.controller.witness import Witness


@pytest.mark.parametrize("seed", range(2))
def test_through_a_storm_of_faults_every_gang_is_bound_in_the_end(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    service: str,
    seed: int,
) -> None:
    """Any request may fail in any way for a while, and pods are deleted meanwhile."""
    chance = random.Random(seed)
    gangs = [
        *(clique_set(f"g{i}", clique("w", 2, gpus=2), namespace=cluster.namespace) for i in "0123"),
        clique_set(
            "packed",
            clique("w", 2, gpus=1),
            constraint=pack(required="rack", topology="default"),
            namespace=cluster.namespace,
        ),
        clique_set(
            "scaled",
            clique("router", 1, gpus=0),
            clique("decode", 1, gpus=2),
            groups=[scaling_group("d", ["decode"], replicas=2, least=1)],
            namespace=cluster.namespace,
        ),
    ]
    chance.shuffle(gangs)
    # What is lost behind the controller's back it learns a moment later.
    with Witness(cluster, UNDER_FAULTS, grace=10.0), ExitStack() as stack:
        racks = {"n0": "r", "n1": "r", "n2": "s"}
        cluster.add_nodes(
            *(node(name, labels={"example.com/rack": rack}) for name, rack in racks.items())
        )
        grove.apply(topology_binding("default", rack="example.com/rack"))
        config = cluster.kubeconfig(url=fault_proxy.url)
        stack.enter_context(controller(config, service, watch_silence=2.0))
        grove.start()
        for fault in (Refuse(409), Refuse(429), Refuse(500), Drop(), LoseAnswer(), Hang(0.2)):
            fault_proxy.fault(fault, when=lambda _: chance.random() < 0.08)
        fault_proxy.fault(Cut(after=2), when=lambda _: chance.random() < 0.3)
        for gang in gangs:
            grove.apply(gang)
            time.sleep(0.4)
            if bound := sorted(cluster.bound()):
                cluster.api.delete(PODS, chance.choice(bound), cluster.namespace, grace=0)
        time.sleep(1.0)
        fault_proxy.clear()
        cluster.wait_until(lambda: len(cluster.bound()) == 13, "every pod is bound")
        cluster.wait_until(
            lambda: all(
                scheduled(cluster, name).get("status") == "True" for name in cluster.gangs()
            ),
            "every gang says so",
        )
