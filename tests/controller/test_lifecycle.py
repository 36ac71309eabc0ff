"""What happens to gangs in their lives: pods lost, gangs scaled, updated, deleted, and the
controller restarted in the middle of it.

A `Witness` judges every moment. PLACEMENT_WALKS says how many random lives there are.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from controller.cycle import Cycle
from controller.runtime.steps import Step
from tests.cluster.api import PODS, ApiError, Body
from tests.cluster.build import clique, clique_set, node, pack, scaling_group, topology_binding
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import STAGES, GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.controller.conftest import Start, controller
from tests.controller.gang_facts import bound_of, scheduled
from tests.controller.witness import Witness
from tests.waiting import LONG

WALKS = int(os.environ.get("PLACEMENT_WALKS", "2"))
RACK = "example.com/rack"


def racks(cluster: Cluster, grove: GroveStandIn, *, nodes: int, gpus: int) -> None:
    """Two racks, r and s, of so many nodes: r0, r1 ... and s0, s1 ..."""
    cluster.add_nodes(
        *(
            node(f"{rack}{index}", gpus=gpus, labels={RACK: rack})
            for rack in ("r", "s")
            for index in range(nodes)
        )
    )
    grove.apply(topology_binding("default", rack=RACK))


def names(cluster: Cluster, gang: str) -> set[str]:
    """The pods of a gang that are bound."""
    return {
        pod["metadata"]["name"]
        for pod in cluster.pods()
        if pod["spec"].get("nodeName") and pod["metadata"]["labels"]["grove.io/podgang"] == gang
    }


def placed(cluster: Cluster, *gangs: str) -> bool:
    return all(scheduled(cluster, gang).get("status") == "True" for gang in gangs)


def lose(cluster: Cluster, pod: str) -> None:
    cluster.api.delete(PODS, pod, cluster.namespace, grace=0)


def test_pods_beyond_the_minimum_come_as_there_is_room(
    cluster: Cluster, witness: Witness, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    cluster.add_nodes(node("a", gpus=6))
    grove.apply(clique_set("g", clique("w", 4, least=2, gpus=2), namespace=cluster.namespace))
    grove.settle()
    start()
    cluster.wait_until(lambda: placed(cluster, "g-0"), "the minimum and one more are bound")
    assert len(cluster.bound()) == 3
    message = scheduled(cluster, "g-0")["message"]
    assert message.startswith("3 pods are bound, the minimum is 2, 1 more waits: ")
    cluster.add_nodes(node("b", gpus=2))
    cluster.wait_until(lambda: len(cluster.bound()) == 4, "so is the last")
    cluster.wait_until(
        lambda: scheduled(cluster, "g-0")["message"] == "4 pods are bound, the minimum is 2",
        "which is said",
    )


def test_a_pod_lost_before_its_gang_is_whole_holds_the_others_back(
    cluster: Cluster, witness: Witness, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    """Three of four pods may be bound; one goes, and comes again: none is bound before all
    four may be."""
    cluster.add_nodes(node("a", gpus=8))
    grove.apply(clique_set("g", clique("w", 4, gpus=2), namespace=cluster.namespace))
    for stage in STAGES[:-1]:
        stage(grove)
    grove.open_gates(limit=3)
    start(waiting_notice=0.0)
    cluster.wait_until(
        lambda: scheduled(cluster, "g-0").get("reason") == "WaitingForPods", "the gang waits"
    )
    assert "3 of 4 pods" in scheduled(cluster, "g-0")["message"]
    free = [p for p in cluster.pods() if not p["spec"].get("schedulingGates")]
    lose(cluster, free[0]["metadata"]["name"])
    cluster.wait_until(
        lambda: "2 of 4 pods" in scheduled(cluster, "g-0")["message"], "for two pods now"
    )
    # The gate of the last one opens, and the lost one is not there yet.
    grove.open_gates()
    cluster.wait_until(
        lambda: "3 of 4 pods" in scheduled(cluster, "g-0")["message"], "for one again"
    )
    assert cluster.bound() == {}
    grove.settle()
    cluster.wait_until(lambda: placed(cluster, "g-0"), "the gang is bound")
    assert len(cluster.bound()) == 4


def test_a_gang_that_grows_and_shrinks_keeps_the_pods_it_has(
    cluster: Cluster, witness: Witness, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    """In its rack, though the other one has more room."""
    racks(cluster, grove, nodes=2, gpus=8)
    cluster.add_nodes(node("s9", gpus=8, labels={RACK: "s"}))

    def resize(pods: int) -> None:
        grove.apply(
            clique_set(
                "g",
                clique("w", pods, least=2, gpus=4),
                constraint=pack(required="rack", topology="default"),
                namespace=cluster.namespace,
            )
        )

    resize(2)
    start()
    grove.start()
    cluster.wait_until(lambda: len(cluster.bound()) == 2, "two run")
    first = cluster.bound()
    resize(4)
    cluster.wait_until(lambda: len(cluster.bound()) == 4, "four run")
    assert first.items() <= cluster.bound().items()
    resize(3)
    cluster.wait_until(lambda: len(cluster.pods()) == 3, "three run")
    cluster.wait_until(
        lambda: scheduled(cluster, "g-0")["message"].startswith("3 pods"), "which is said"
    )


def test_replicas_that_are_taken_away_make_room_for_who_waits(
    cluster: Cluster, witness: Witness, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    cluster.add_nodes(node("a", gpus=8))

    def resize(replicas: int) -> None:
        grove.apply(
            clique_set(
                "g",
                clique("decode", 2, gpus=2),
                groups=[scaling_group("d", ["decode"], replicas=replicas, least=1)],
                namespace=cluster.namespace,
            )
        )

    resize(2)
    start()
    grove.start()
    cluster.wait_until(lambda: placed(cluster, "g-0", "g-0-d-0"), "base and scaled gang run")
    grove.apply(clique_set("h", clique("w", 2, gpus=2), namespace=cluster.namespace))
    cluster.wait_until(
        lambda: scheduled(cluster, "h-0").get("status") == "False", "another one waits"
    )
    base = names(cluster, "g-0")
    resize(1)
    cluster.wait_until(lambda: placed(cluster, "h-0"), "until the scaled one is gone")
    assert names(cluster, "g-0") == base
    resize(2)
    cluster.wait_until(
        lambda: scheduled(cluster, "g-0-d-0").get("status") == "False", "which waits in turn"
    )


def test_a_gang_deleted_while_it_runs_makes_room_at_once(
    cluster: Cluster, witness: Witness, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    """Also for one of the same name, which is another gang."""
    cluster.add_nodes(node("a", gpus=8))
    first = clique_set("g", clique("w", 4, gpus=2), namespace=cluster.namespace)
    grove.apply(first)
    start()
    grove.start()
    cluster.wait_until(lambda: placed(cluster, "g-0"), "the gang runs")
    before = names(cluster, "g-0")
    uid = cluster.gangs()["g-0"]["metadata"]["uid"]
    grove.forget(cluster.namespace, "g")
    # With its pods: they would be those of the new one, by their names.
    cluster.wait_until(lambda: not (cluster.gangs() or cluster.pods()), "the gang is gone")
    grove.apply(first)
    cluster.wait_until(lambda: placed(cluster, "g-0"), "the new one runs")
    assert cluster.gangs()["g-0"]["metadata"]["uid"] != uid
    assert not names(cluster, "g-0") & before


def test_an_update_goes_pod_by_pod_through_a_full_cluster(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    """Old pod deleted, new pod gated, reference changed, gate taken away: each new pod goes
    where the old one was, for nothing else is free, and the other pods stay."""
    racks(cluster, grove, nodes=1, gpus=6)

    def update(cpu: str) -> None:
        for name in ("g", "h"):
            grove.apply(
                clique_set(
                    name,
                    clique("w", 3, gpus=2, cpu=cpu),
                    constraint=pack(required="rack", topology="default"),
                    namespace=cluster.namespace,
                )
            )

    def cpus() -> list[str]:
        return [
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            for pod in cluster.pods()
            if pod["spec"].get("nodeName")
        ]

    with Witness(cluster) as witness:
        update("1")
        start()
        grove.start()
        cluster.wait_until(lambda: placed(cluster, "g-0", "h-0"), "both gangs run")
        update("2")
        cluster.wait_until(lambda: cpus() == ["2"] * 6, "both gangs are updated")
        cluster.wait_until(lambda: placed(cluster, "g-0", "h-0"), "both say that they run")
        witness.check()
    assert witness.pods_bound == 12
    # Three pods of each gang were replaced one by one, and never two at once.
    assert sum(half.lost for half in witness.halves) == 6


def test_a_controller_that_is_stopped_while_it_binds_finishes_the_gang(
    cluster: Cluster,
    witness: Witness,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    service: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And begins no other: the next one does."""
    cluster.add_nodes(node("a", gpus=8), node("b", gpus=8))
    for name in ("g", "h"):
        grove.apply(clique_set(name, clique("w", 4, gpus=2), namespace=cluster.namespace))
    grove.settle()
    binding, stopping = threading.Event(), threading.Event()
    stop = Cycle.stop

    def stop_and_say_so(cycle: Cycle) -> None:
        stop(cycle)
        stopping.set()

    monkeypatch.setattr(Cycle, "stop", stop_and_say_so)

    def on_step(step: Step) -> None:
        if step is Step.BIND and not binding.is_set():
            binding.set()
            assert stopping.wait(LONG)

    with ExitStack() as first:
        first.enter_context(
            controller(cluster.kubeconfig(), service, on_step=on_step, parallel_calls=1)
        )
        assert binding.wait(LONG)
    assert sorted([bound_of(cluster, "g-0"), bound_of(cluster, "h-0")]) == [0, 4]
    with controller(cluster.kubeconfig(), service):
        cluster.wait_until(lambda: placed(cluster, "g-0", "h-0"), "both gangs are bound")


class Life:
    """Random things that happen to three sets of gangs, to their pods and the controller."""

    def __init__(
        self, cluster: Cluster, grove: GroveStandIn, service: str, chance: random.Random
    ) -> None:
        self._cluster = cluster
        self._grove = grove
        self._service = service
        self._chance = chance
        self._cpu = {name: 1 for name in ("g", "h", "s")}
        self._running = ExitStack()
        self.told: list[str] = []

    def begin(self) -> None:
        self.write_all()
        self._start()

    def write_all(self) -> None:
        """All sets are asked for, in some size."""
        for name in self._cpu:
            self._write(name)

    def comes_to_rest(self) -> bool:
        """Whether everything runs that is asked for; what is due is done on the way."""
        due = self._grove.step()
        pods = self._cluster.pods()
        return (
            all(pod["status"]["phase"] == "Running" for pod in pods)
            and placed(self._cluster, *self._cluster.gangs())
            and not due
            and not self._grove.step()
        )

    def stop(self) -> None:
        self._running.close()

    def go_on(self) -> None:
        """One thing happens; half of the time it is Grove that does something."""
        happens: Callable[[], None] = self._chance.choice(
            [
                *[self._stage] * 8,
                *[self._lose] * 3,
                *[self._scale] * 2,
                self._update,
                self._forget,
                self._restart,
            ]
        )
        self.told.append(happens.__name__)
        happens()

    def _set(self, name: str) -> Body:
        pods: dict[str, Any] = {"gpus": 2, "cpu": str(self._cpu[name])}
        if name == "g":
            cliques = [clique("w", self._chance.randint(2, 4), least=2, **pods)]
            return clique_set(name, *cliques, namespace=self._cluster.namespace)
        if name == "h":
            return clique_set(
                name,
                clique("w", 3, **pods),
                constraint=pack(required="rack", topology="default"),
                replicas=self._chance.randint(1, 2),
                namespace=self._cluster.namespace,
            )
        replicas = self._chance.randint(1, 3)
        return clique_set(
            name,
            clique("router", 1, gpus=0),
            clique("decode", 2, **pods),
            groups=[scaling_group("d", ["decode"], replicas=replicas, least=1)],
            namespace=self._cluster.namespace,
        )

    def _write(self, name: str) -> None:
        self._grove.apply(self._set(name))

    def _stage(self) -> None:
        if self._chance.random() < 0.5:
            self._grove.step(self._chance)
        else:
            self._chance.choice(STAGES)(self._grove)

    def _lose(self) -> None:
        pods = sorted(pod["metadata"]["name"] for pod in self._cluster.pods())
        if pods:
            # It may be on its way out, and gone by now.
            with suppress(ApiError):
                lose(self._cluster, self._chance.choice(pods))

    def _scale(self) -> None:
        self._write(self._chance.choice("ghs"))

    def _update(self) -> None:
        name = self._chance.choice("ghs")
        self._cpu[name] += 1
        self._write(name)

    def _forget(self) -> None:
        """Deleted, and made again under the same name later."""
        name = self._chance.choice("ghs")
        self._write(name)
        self._grove.forget(self._cluster.namespace, name)

    def _start(self) -> None:
        self._running.enter_context(controller(self._cluster.kubeconfig(), self._service))

    def _restart(self) -> None:
        self._running.close()
        self._start()


@pytest.mark.parametrize("seed", range(WALKS))
def test_whatever_happens_every_gang_is_whole_in_the_end_and_rules_held_all_the_time(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, service: str, seed: int
) -> None:
    life = Life(cluster, grove, service, random.Random(seed))
    # What is lost behind the controller's back it learns a moment later.
    with Witness(cluster, grace=1.0):
        # Each rack has room for everything, 32 GPUs by two, wherever it begins.
        racks(cluster, grove, nodes=3, gpus=12)
        try:
            life.begin()
            for _ in range(60):
                life.go_on()
            life.write_all()
            cluster.wait_until(life.comes_to_rest, f"everything runs after {life.told}")
        finally:
            life.stop()
