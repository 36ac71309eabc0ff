"""What runs counts in its queue, also where its gang cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from controller.advice.objects import Objects
from controller.advice.request import build_request
from controller.advice.schedulers.kube_scheduler import KubeScheduler
from controller.cluster.gang_state import key_of
from placement.resources import KAI_QUEUES, NODES, POD_GANGS, PODS, Resource
from tests.kubernetes import build


@pytest.mark.parametrize("minimum", [1, -1])
def test_what_runs_of_a_gang_that_cannot_be_read_counts(minimum: int) -> None:
    queue = build.kai_queue("team", limit=4)
    pod = build.pod("a", nodeName="n1", containers=[build.container(gpu="2")])
    gang = build.gang("g", podgroups=[build.group("w", "a", minReplicas=minimum)])
    gang["metadata"]["labels"] = {"kai.scheduler/queue": "team"}
    stores: dict[Resource, dict[Any, build.Body]] = {
        resource: {key_of(body): body}
        for resource, body in (
            (NODES, build.node("n1")),
            (PODS, pod),
            (POD_GANGS, gang),
            (KAI_QUEUES, queue),
        )
    }
    adapter = KubeScheduler(None, None, mode="pin")  # type: ignore[arg-type]
    request = build_request(Objects(1, stores), [adapter], now=0.0)
    runs = sum(
        len(pods.bound_pods)
        for one in request.request.gangs
        for group in one.groups
        for pods in group.pod_sets
    )
    (used,) = request.request.snapshot.queues
    assert bool(request.refused) == (minimum < 0)
    assert 2 * runs + used.used["gpus"] == 2


def test_a_queue_that_cannot_be_read_lets_nothing_in() -> None:
    """Without it there would be no limit."""
    queue = build.kai_queue("team", limit=4)
    queue["spec"] |= {"preemptMinRuntime": "1x", "reclaimMinRuntime": "1x", "resources": 5}
    stores: dict[Resource, dict[Any, build.Body]] = {
        resource: {key_of(body): body}
        for resource, body in ((NODES, build.node("n1")), (KAI_QUEUES, queue))
    }
    adapter = KubeScheduler(None, None, mode="pin")  # type: ignore[arg-type]
    request = build_request(Objects(1, stores), [adapter], now=0.0)
    (closed,) = request.request.snapshot.queues
    assert (closed.name, closed.limit["gpus"]) == ("queues/team", 0)
    assert request.refused[key_of(queue)].startswith("Queue: spec.resources")
