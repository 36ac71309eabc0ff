"""What runs counts in its queue, also where its gang is not part of the request."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from controller.asking.request import without
from controller.cluster.cache import ClusterCache
from placement import v1
from placement.errors import InvalidRequestError, Violation
from placement.resources import KAI_QUEUES
from tests.cluster.api import Resource
from tests.cluster.build import clique, clique_set, node
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.schedulers import install_kinds
from tests.controller.asked import ask, sent
from tests.controller.bodies import OURS, gang, member
from tests.controller.conftest import Start
from tests.controller.gang_facts import bound_of, scheduled
from tests.kubernetes import build

QUEUES = Resource("scheduling.run.ai/v2", "queues", namespaced=False)


def cache_of(*bodies: build.Body) -> ClusterCache:
    """A cluster with a queue of four GPUs."""
    cache = ClusterCache(OURS, others=[KAI_QUEUES])
    queue = build.kai_queue("team", limit=4)
    cache.of(KAI_QUEUES).observe("Queue", queue)
    for body in (build.node("n1"), *bodies):
        cache.observe(body["kind"], body)
    return cache


def worker(name: str, gpus: int = 1, **more: str) -> build.Body:
    return member(name, containers=[build.container(gpu=str(gpus))], **more)


def team(name: str, *pods: str, **labels: str) -> build.Body:
    body = gang(name, *pods)
    body["metadata"]["labels"] = {"kai.scheduler/queue": "team", **labels}
    return body


def used(request: v1.ComputePlacementRequest) -> Mapping[str, int]:
    (queue,) = request.snapshot.queues
    return queue.used


def test_gangs_that_run_count_though_they_are_not_sent() -> None:
    asked = ask(
        cache_of(
            worker("a", 2, node="n1"),
            worker("b", 1, node="n1"),
            worker("c"),
            team("two", "a", **{"kai.scheduler/preemptibility": "non-preemptible"}),
            team("one", "b"),
            team("waits", "c"),
        )
    )
    assert sent(asked) == ["waits"]
    assert used(asked.request) == {"gpus": 3}
    assert asked.request.snapshot.queues[0].used_not_preemptible == {"gpus": 2}


def test_a_gang_of_the_request_counts_by_itself() -> None:
    asked = ask(cache_of(worker("a", node="n1"), worker("b"), team("half", "a", "b")))
    assert sent(asked) == ["half"]
    assert used(asked.request) == {}


def test_shares_of_gpus_count_in_thousandths() -> None:
    def shared(name: str) -> build.Body:
        body = member(name, node="n1", containers=[build.container(cpu="1")])
        body["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
        return body

    bodies = [shared(name) for name in "abc"]
    asked = ask(cache_of(*bodies, worker("w"), team("runs", *"abc"), team("waits", "w")))
    assert used(asked.request) == {"gpus": 1, "milligpus": 500, "cpu": 3000}


@pytest.mark.parametrize(
    ("size", "want"),
    [("40960", {"gpus": 1, "milligpus": 500, "cpu": 3000}), ("", {"gpus": 3, "cpu": 3000})],
    ids=["of a known device", "of an unknown one"],
)
def test_shares_in_bytes_count_as_the_service_counts_them(
    size: str, want: Mapping[str, int]
) -> None:
    def shared(name: str) -> build.Body:
        body = member(name, node="n1", containers=[build.container(cpu="1")])
        body["metadata"]["annotations"] = {"gpu-memory": "20480"}
        return body

    node = build.node("n1", labels={"nvidia.com/gpu.memory": size} if size else None)
    pods = [shared(name) for name in "abc"]
    asked = ask(cache_of(node, *pods, worker("w"), team("runs", *"abc"), team("waits", "w")))
    assert used(asked.request) == want


def test_what_a_gang_of_the_next_batch_runs_already_counts() -> None:
    cache = cache_of(worker("a"), worker("b", node="n1"), worker("c"), team("first", "a"),
                     team("second", "b", "c"))  # fmt: skip
    asked = ask(cache, most=1)
    assert sent(asked) == ["first"]
    assert used(asked.request) == {"gpus": 1}


@pytest.mark.parametrize("fault", ["of the gang", "of a pod"])
def test_a_gang_that_cannot_be_read_counts_in_its_queue(fault: str) -> None:
    bad = team("bad", "a", "b")
    if fault == "of the gang":
        bad["spec"]["priorityClassName"] = "deleted"
    odd = worker("b") if fault == "of the gang" else member("b", tolerations="all")
    asked = ask(cache_of(worker("a", 2, node="n1"), odd, worker("c"), bad, team("waits", "c")))
    assert list(asked.refused) == [("ml", "bad")]
    assert used(asked.request) == {"gpus": 2}


def test_a_gang_of_another_scheduler_counts_in_its_queue() -> None:
    """What the gang says comes before what its pods say."""
    theirs = build.pod(
        "a",
        labels={"kai.scheduler/queue": "another"},
        schedulerName="kube",
        nodeName="n1",
        containers=[build.container(gpu="2")],
    )
    fixed = {"kai.scheduler/preemptibility": "non-preemptible"}
    asked = ask(cache_of(theirs, worker("b"), team("theirs", "a", **fixed), team("waits", "b")))
    assert sent(asked) == ["waits"]
    assert used(asked.request) == {"gpus": 2}
    assert asked.request.snapshot.queues[0].used_not_preemptible == {"gpus": 2}


def test_what_the_service_refuses_counts_in_its_queue() -> None:
    asked = ask(cache_of(worker("a", 2, node="n1"), worker("b"), team("half", "a", "b"),
                         worker("c"), team("waits", "c")))  # fmt: skip
    at = sent(asked).index("half")
    error = InvalidRequestError(violations=[Violation(f"gangs[{at}].name", "is odd")])
    smaller = without(asked, error)
    assert smaller is not None
    assert sent(smaller) == ["waits"]
    assert used(smaller.request) == {"gpus": 2}


def test_a_queue_keeps_its_limit_from_one_plan_to_the_next(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    install_kinds(cluster.api)
    cluster.api.create(QUEUES, build.kai_queue("team", limit=4))
    cluster.add_nodes(node("a", gpus=8))
    labels = {"kai.scheduler/queue": "team"}
    start()
    for name in ("first", "second"):
        grove.apply(clique_set(name, clique("w", 3, labels=labels), namespace=cluster.namespace))
        grove.settle()
        cluster.wait_until(lambda: bound_of(cluster, "first-0") == 3, "the first gang is bound")
    cluster.wait_until(
        lambda: scheduled(cluster, "second-0").get("reason") == "QueueLimit", "the second waits"
    )
    assert bound_of(cluster, "second-0") == 0
