"""What Volcano says of queues and gangs beyond amounts: where pods run, and who gives way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from placement import v1
from tests.kubernetes.build import Body, container, node, only_gang, pod, thing, translated

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
PREEMPTABLE = "volcano.sh/preemptable"


def queue(name: str, parent: str = "root", **spec: Any) -> Body:
    return thing("Queue", "scheduling.volcano.sh/v1beta1", name, spec={"parent": parent, **spec})


def pod_group(notes: dict[str, str] | None = None, **of_pod: Any) -> list[Body]:
    """A PodGroup in the queue "team" with its pod."""
    made = thing(
        "PodGroup", "scheduling.volcano.sh/v1beta1", "v", namespace="ml",
        metadata={"annotations": notes or {}}, spec={"minMember": 1, "queue": "team"},
    )  # fmt: skip
    of_pod.setdefault("annotations", {})["scheduling.k8s.io/group-name"] = "v"
    return [made, pod("a", metadata=of_pod)]


def job(notes: dict[str, str] | None = None, **of_pod: Any) -> list[Body]:
    template = {"metadata": of_pod, "spec": {"containers": [container()]}}
    tasks = [{"name": "w", "replicas": 1, "template": template}]
    return [
        thing(
            "Job", "batch.volcano.sh/v1alpha1", "v", namespace="ml",
            metadata={"annotations": notes or {}}, spec={"queue": "team", "tasks": tasks},
        )
    ]  # fmt: skip


Made = Callable[..., list[Body]]
BOTH = pytest.mark.parametrize("made", [pod_group, job])


def node_groups(gang: v1.PodGang) -> set[str]:
    terms = gang.groups[0].pod_sets[0].template.required_node_affinity.terms
    return {
        value
        for term in terms
        for one in term.match_expressions
        if one.key == "volcano.sh/nodegroup-name"
        for value in one.values
    }


@BOTH
def test_pods_run_on_the_node_groups_of_their_queue(made: Made) -> None:
    near = {"nodeGroupAffinity": {REQUIRED: ["a", "b"], PREFERRED: ["c"]}}
    far = {"nodeGroupAntiAffinity": {REQUIRED: ["b"], PREFERRED: ["d"]}}
    assert node_groups(only_gang(node(), queue("team", affinity={**near, **far}), *made())) == {
        "a",
        "c",
        "d",
    }
    assert node_groups(only_gang(node(), queue("team"), *made())) == set()


@BOTH
def test_a_queue_has_the_node_groups_of_the_nearest_above_it(made: Made) -> None:
    above = [
        queue("top", affinity={"nodeGroupAffinity": {REQUIRED: ["far"]}}),
        queue("org", "top", affinity={"nodeGroupAffinity": {REQUIRED: ["near"]}}),
    ]
    assert node_groups(only_gang(node(), *above, queue("team", "org"), *made())) == {"near"}


@BOTH
def test_a_gang_whose_queue_is_left_no_node_group_is_refused(made: Made) -> None:
    closed = queue("team", affinity={"nodeGroupAntiAffinity": {REQUIRED: ["a"]}})
    assert list(only_gang(node(), closed, *made()).unsupported) == [
        "Queue team: spec.affinity, which leaves no group of nodes"
    ]


@BOTH
@pytest.mark.parametrize(
    ("words", "fixed"),
    [
        ({"notes": {PREEMPTABLE: "false"}}, True),
        ({"notes": {PREEMPTABLE: "no"}}, True),
        ({"annotations": {PREEMPTABLE: "0"}}, True),
        ({"labels": {PREEMPTABLE: "false"}}, True),
        ({"labels": {PREEMPTABLE: "false"}, "annotations": {PREEMPTABLE: "true"}}, False),
        ({}, False),
    ],
)
def test_a_gang_says_that_it_does_not_give_way(
    made: Made, words: dict[str, dict[str, str]], fixed: bool
) -> None:
    bodies = made(**{field: dict(own) for field, own in words.items()})
    assert only_gang(node(), queue("team"), *bodies).not_preemptible == fixed


@pytest.mark.parametrize("said_so", [True, False, None])
def test_a_queue_says_that_nothing_is_reclaimed_from_it(said_so: bool | None) -> None:
    spec: dict[str, Any] = {} if said_so is None else {"reclaimable": said_so}
    found = translated(node(), queue("team", **spec), *pod_group())
    (sent,) = found.request.snapshot.queues
    assert sent.not_reclaimable == (said_so is False)
    assert found.warnings == ()


def test_a_policy_for_numa_nodes_that_has_to_hold_is_refused() -> None:
    (of_job,) = job()
    note = "volcano.sh/numa-topology-policy"
    for policy, strict in (
        ("single-numa-node", True),
        ("restricted", True),
        ("best-effort", False),
    ):
        of_job["spec"]["tasks"][0]["topologyPolicy"] = policy
        refused = ["spec.tasks[0].topologyPolicy"] if strict else []
        assert list(only_gang(node(), queue("team"), of_job).unsupported) == refused
        refused = [f"annotation {note} of its pods"] if strict else []
        bodies = pod_group(annotations={note: policy})
        assert list(only_gang(node(), queue("team"), *bodies).unsupported) == refused
