"""Advice to the real kube-scheduler on a real API server."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.advice.schedulers.gated_pods import pinned
from controller.runtime.steps import Step
from placement.advice_marks import ADVICE, CONDITION, GANG, GANG_MINIMUM, GATE
from tests.cluster import binaries
from tests.cluster.api import NAMESPACES, PODS, Body
from tests.cluster.build import clique, clique_set, node, pod_spec, scaling_group
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.scheduler import KubeScheduler
from tests.controller import crashing
from tests.controller.conftest import controller

MODES = ("kube-scheduler", "kube-scheduler-nominate")
POLICY = Path(__file__).parents[4] / "deploy" / "parts" / "gate" / "gate-policy.yaml"
ADVISING: dict[str, Any] = {"mode": "advise", "advice_timeout": 0.0}

pytestmark = pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")


@pytest.fixture(scope="session")
def scheduler_program(api_server_binaries: binaries.Binaries) -> Path:
    try:
        return binaries.ensure_scheduler()
    except binaries.Unavailable as error:
        pytest.skip(f"no kube-scheduler: {error}")


@pytest.fixture
def scheduler(cluster: Cluster, scheduler_program: Path, tmp_path: Path) -> Iterator[KubeScheduler]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with KubeScheduler(scheduler_program, cluster.kubeconfig(), tmp_path) as running:
            yield running


@contextmanager
def advising(cluster: Cluster, service: str, mode: str, **settings: Any) -> Iterator[None]:
    with controller(cluster.kubeconfig(), service, **{**ADVISING, "advise": (mode,), **settings}):
        yield


def member(gang: str, index: int, of: int, *, gated: bool = True, **spec: Any) -> Body:
    annotations = {GANG: gang, GANG_MINIMUM: str(of)}
    gates = {"schedulingGates": [{"name": GATE}]} if gated else {}
    return {
        "metadata": {
            "name": f"{gang}-{index}",
            "labels": {"gang": gang},
            "annotations": annotations,
        },
        "spec": {**pod_spec(gpus=1), **gates, **spec},
    }


def create(cluster: Cluster, *pods: Body) -> None:
    for pod in pods:
        pod["metadata"]["namespace"] = cluster.namespace
    cluster.api.create_all(PODS, pods)


def bound(cluster: Cluster) -> Counter[str]:
    return Counter(
        pod["metadata"]["labels"]["gang"] for pod in cluster.pods() if pod["spec"].get("nodeName")
    )


def condition(pod: Body) -> Body:
    conditions = pod.get("status", {}).get("conditions", ())
    found: list[Body] = [one for one in conditions if one["type"] == CONDITION]
    return found[0] if found else {}


def one_by_one(cluster: Cluster, pods: list[Body], until: Callable[[int], bool]) -> None:
    """In this order; the first ones each after the one before is bound."""

    def is_bound(index: int) -> bool:
        return sum(bound(cluster).values()) > index

    for index, pod in enumerate(pods):
        create(cluster, pod)
        if until(index):
            cluster.wait_until(partial(is_bound, index), "it is bound")


def test_alone_it_places_two_gangs_by_half(cluster: Cluster, scheduler: KubeScheduler) -> None:
    """What advice is for."""
    cluster.add_nodes(node("n0", gpus=2), node("n1", gpus=2))
    pods = [member(gang, index, 3, gated=False) for index in range(3) for gang in ("a", "b")]
    one_by_one(cluster, pods, lambda index: index < 4)
    assert bound(cluster) == {"a": 2, "b": 2}


@pytest.mark.parametrize("mode", MODES)
def test_with_advice_one_gang_runs_whole_and_the_other_waits(
    cluster: Cluster, service: str, scheduler: KubeScheduler, kubelet: FakeKubelet, mode: str
) -> None:
    cluster.add_nodes(node("n0", gpus=2), node("n1", gpus=2))
    create(cluster, *(member(gang, i, 3) for i in range(3) for gang in ("a", "b")))
    with advising(cluster, service, mode):
        cluster.wait_until(lambda: sum(bound(cluster).values()) == 3, "one gang is bound")
        (first,) = bound(cluster)
        cluster.wait_until(
            lambda: all(
                condition(pod).get("reason") == "Followed"
                for pod in cluster.pods()
                if pod["metadata"]["labels"]["gang"] == first
            ),
            "its pods say that the advice was followed",
        )
        assert not any(ADVICE in pod["metadata"]["annotations"] for pod in cluster.pods())
        waiting = [p for p in cluster.pods() if p["metadata"]["labels"]["gang"] != first]
        assert all(pod["spec"]["schedulingGates"] == [{"name": GATE}] for pod in waiting)
        for index in range(3):
            cluster.api.delete(PODS, f"{first}-{index}", cluster.namespace, grace=0)
        cluster.wait_until(
            lambda: sum(bound(cluster).values()) == 3 and first not in bound(cluster),
            "then the other",
        )
    assert "AdviceFollowed" in {event["reason"] for event in cluster.events()}


@pytest.mark.parametrize("advised", [False, True], ids=["alone", "advised"])
def test_on_two_hundred_nodes_two_gangs_of_150_pods(
    cluster: Cluster, service: str, scheduler: KubeScheduler, advised: bool
) -> None:
    cluster.add_nodes(*(node(f"n{i}", gpus=1) for i in range(200)))
    pods = [member(g, i, 150, gated=advised) for i in range(150) for g in ("a", "b")]
    if not advised:
        create(cluster, *pods)
        cluster.wait_until(lambda: sum(bound(cluster).values()) == 200, "all nodes are taken")
        assert set(bound(cluster)) == {"a", "b"}
        assert max(bound(cluster).values()) < 150
        return
    create(cluster, *pods)
    with advising(cluster, service, "kube-scheduler"):
        cluster.wait_until(lambda: sum(bound(cluster).values()) == 150, "one gang is bound")
        assert len(bound(cluster)) == 1


def test_pins_are_added_to_every_term_and_gates_of_others_stay(
    cluster: Cluster, service: str, scheduler: KubeScheduler
) -> None:
    cluster.add_nodes(*(node(f"n{i}", gpus=1, labels={"zone": "z"}) for i in range(3)))
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]},
        {"matchExpressions": [{"key": "none", "operator": "Exists"}]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    create(
        cluster,
        *(member("a", i, 2, affinity={"nodeAffinity": required}) for i in range(2)),
        member("b", 0, 1, schedulingGates=[{"name": GATE}, {"name": "example.com/other"}]),
    )
    with advising(cluster, service, "kube-scheduler"):
        cluster.wait_until(lambda: bound(cluster) == {"a": 2}, "the gang is bound")
    for pod in cluster.pods():
        if pod["metadata"]["labels"]["gang"] == "a":
            found = pod["spec"]["affinity"]["nodeAffinity"][
                "requiredDuringSchedulingIgnoredDuringExecution"
            ]["nodeSelectorTerms"]
            pin = [{"key": "metadata.name", "operator": "In", "values": [pod["spec"]["nodeName"]]}]
            assert [one["matchFields"] for one in found] == [pin, pin]
        else:
            # Another holds it as well: it does not wait for us alone.
            assert len(pod["spec"]["schedulingGates"]) == 2


def test_gangs_of_grove_wait_for_advice_too(
    cluster: Cluster, service: str, scheduler: KubeScheduler, kubelet: FakeKubelet
) -> None:
    """A policy gives their pods our gate; the base goes first, its scaled gang follows."""
    for body in yaml.safe_load_all(POLICY.read_text()):
        cluster.api.apply(body)
    labels = {"placement-service/advised": "true"}
    cluster.api.merge(NAMESPACES, cluster.namespace, {"metadata": {"labels": labels}})
    cluster.add_nodes(node("n0", gpus=2), node("n1", gpus=2))
    # The policy takes a moment to be known.
    cluster.wait_until(lambda: is_gated_when_created(cluster), "the policy works")
    grove = GroveStandIn(cluster.api, scheduler="default-scheduler", gate_delay=0.5)
    grove.apply(
        clique_set(
            "g",
            clique("w", 2),
            groups=[scaling_group("x", ["w"], replicas=2, least=1)],
            namespace=cluster.namespace,
        )
    )
    with advising(cluster, service, "kube-scheduler"):
        grove.start()
        cluster.wait_until(lambda: len(cluster.bound()) == 4, "base and scaled gang are bound")
    grove.stop()
    for pod in cluster.pods():
        assert "requiredDuringScheduling" in str(pod["spec"].get("affinity")), "not pinned"


def is_gated_when_created(cluster: Cluster) -> bool:
    labels = {"grove.io/podgang": "p"}
    metadata = {"name": "probe", "namespace": cluster.namespace, "labels": labels}
    cluster.api.create(PODS, {"metadata": metadata, "spec": pod_spec(gpus=0)})
    pod = cluster.api.get(PODS, "probe", cluster.namespace)
    cluster.api.delete(PODS, "probe", cluster.namespace, grace=0)
    return bool(pod["spec"].get("schedulingGates") == [{"name": GATE}])


def test_without_advice_in_time_it_decides_alone(
    cluster: Cluster, scheduler: KubeScheduler
) -> None:
    cluster.add_nodes(node("n0", gpus=2))
    create(cluster, *(member("a", i, 3) for i in range(3)))
    # Nobody listens there.
    with advising(cluster, "127.0.0.1:1", "kube-scheduler", advice_timeout=1.0):
        cluster.wait_until(lambda: bound(cluster) == {"a": 2}, "it places what it can")
        cluster.wait_until(
            lambda: {condition(pod).get("reason") for pod in cluster.pods()} == {"Late"},
            "the pods say why",
        )


@pytest.mark.parametrize("mode", MODES)
def test_killed_at_every_write_no_gang_is_advised_by_half(
    cluster: Cluster, service: str, scheduler: KubeScheduler, mode: str
) -> None:
    cluster.add_nodes(node("n0", gpus=2), node("n1", gpus=2))
    create(cluster, *(member("a", i, 3) for i in range(3)))

    def is_over() -> bool:
        return bound(cluster) == {"a": 3} and not any(
            ADVICE in pod["metadata"]["annotations"] for pod in cluster.pods()
        )

    settings = {**ADVISING, "advise": (mode,)}
    assert crashing.kill_again_and_again(
        cluster.kubeconfig(), service, at=Step.ADVISE, until=is_over, **settings
    )


PIN = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param(None, [{"matchFields": [PIN]}], id="none"),
        pytest.param(
            [{"matchExpressions": ["x"]}],
            [{"matchExpressions": ["x"], "matchFields": [PIN]}],
            id="one",
        ),
        pytest.param(
            [{"matchFields": ["y"]}], [{"matchFields": ["y", PIN]}], id="after what is there"
        ),
        pytest.param([{"matchFields": [PIN]}], [{"matchFields": [PIN]}], id="once"),
        pytest.param([{}], [{}], id="a term that matches nothing"),
    ],
)
def test_a_pin_joins_each_term(terms: list[Body] | None, want: list[Body]) -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {} if terms is None else {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}}
    assert pinned(affinity, "n1") == {"nodeAffinity": {required: {"nodeSelectorTerms": want}}}
