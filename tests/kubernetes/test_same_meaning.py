"""One gang told in the words of many schedulers is the same question."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from placement import v1
from tests.kubernetes.build import (
    Body,
    container,
    gang,
    group,
    kai_queue,
    node,
    pack,
    pod,
    priority_class,
    request,
    thing,
)

RACK, GPU = "example.com/rack", "nvidia.com/gpu"
RACKS = {"n0": "r0", "n1": "r0", "n2": "r1"}
#: The groups of the gang, with how many pods there are and how many have to run.
GROUPS = {"a": (2, 2), "b": (3, 1)}
MEMBERS = {name: [f"{name}-{i}" for i in range(count)] for name, (count, _) in GROUPS.items()}
CONTAINER: Body = {"containers": [container(gpu="2")]}
URGENT = "urgent"


def pods(labels: dict[str, str], notes: Callable[[str], dict[str, str]], **spec: str) -> list[Body]:
    return [
        pod(name, metadata={"labels": labels, "annotations": notes(of)}, **{**CONTAINER, **spec})
        for of, names in MEMBERS.items()
        for name in names
    ]


def grove() -> list[Body]:
    groups = [group(of, *names, least=GROUPS[of][1]) for of, names in MEMBERS.items()]
    labels = {"kai.scheduler/queue": "team"}
    told = gang(
        metadata={"labels": labels}, podgroups=groups, **pack(RACK),
        priorityClassName=URGENT,
    )  # fmt: skip
    return [kai_queue("team", limit=6, quota=4), told, *pods({}, lambda _: {})]


def koordinator() -> list[Body]:
    prefix = "gang.scheduling.koordinator.sh/"
    layers = [{"topologyLayer": "Rack", "labelKey": [RACK]}]
    rules = {"gatherStrategy": [{"layer": "Rack", "strategy": "MustGather"}]}
    together = json.dumps([f"ml/{of}" for of in GROUPS])

    def notes(of: str) -> dict[str, str]:
        return {
            f"{prefix}name": of,
            f"{prefix}min-available": str(GROUPS[of][1]),
            f"{prefix}groups": together,
            f"{prefix}network-topology-spec": json.dumps(rules),
        }

    return [
        thing("ElasticQuota", "scheduling.sigs.k8s.io/v1alpha1", "team", namespace="any",
              spec={"max": {GPU: 6}, "min": {GPU: 4}}),
        thing("ClusterNetworkTopology", "scheduling.koordinator.sh/v1alpha1", "default",
              spec={"networkTopologySpec": layers}),
        *pods({"quota.scheduling.koordinator.sh/name": "team"}, notes, priorityClassName=URGENT),
    ]  # fmt: skip


def volcano_cluster() -> list[Body]:
    queue = {"capability": {GPU: 6}, "deserved": {GPU: 4}}
    return [
        thing("Queue", "scheduling.volcano.sh/v1beta1", "team", spec=queue),
        *(
            thing("HyperNode", "topology.volcano.sh/v1alpha1", rack, spec={"tier": 1, "members": [
                {"type": "Node", "selector": {"exactMatch": {"name": name}}}
                for name, of in RACKS.items() if of == rack]})
            for rack in sorted({*RACKS.values()})
        ),
    ]  # fmt: skip


VOLCANO_SPEC = {
    "queue": "team",
    "priorityClassName": URGENT,
    "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
}


def volcano() -> list[Body]:
    least = {of: least for of, (_, least) in GROUPS.items()}
    spec = {**VOLCANO_SPEC, "minMember": sum(least.values()), "minTaskMember": least}
    key = "scheduling.k8s.io/group-name"
    return [
        *volcano_cluster(),
        thing("PodGroup", "scheduling.volcano.sh/v1beta1", "g", namespace="ml", spec=spec),
        *pods({}, lambda of: {key: "g", "volcano.sh/task-spec": of}),
    ]


def volcano_job() -> list[Body]:
    tasks = [
        {"name": of, "replicas": count, "minAvailable": least, "template": {"spec": CONTAINER}}
        for of, (count, least) in GROUPS.items()
    ]
    spec = {**VOLCANO_SPEC, "tasks": tasks}
    return [
        *volcano_cluster(),
        thing("Job", "batch.volcano.sh/v1alpha1", "g", namespace="ml", spec=spec),
    ]


def kueue() -> list[Body]:
    """Pod sets of one group share a domain."""
    quota = {"name": GPU, "nominalQuota": 4, "borrowingLimit": 2}
    groups = [{"coveredResources": [GPU], "flavors": [{"name": "any", "resources": [quota]}]}]
    lender = [
        {"coveredResources": [GPU], "flavors": [
            {"name": "any", "resources": [{"name": GPU, "nominalQuota": 100}]}]}
    ]  # fmt: skip
    pod_sets = [
        {
            "name": of, "count": count, "minCount": least, "template": {"spec": CONTAINER},
            "topologyRequest": {"required": RACK, "podSetGroupName": "all"},
        }
        for of, (count, least) in GROUPS.items()
    ]  # fmt: skip
    version = "kueue.x-k8s.io/v1beta2"
    return [
        thing("Cohort", version, "all", spec={"resourceGroups": lender}),
        thing("ClusterQueue", version, "team",
              spec={"cohortName": "all", "namespaceSelector": {}, "resourceGroups": groups}),
        thing("LocalQueue", version, "local", namespace="ml", spec={"clusterQueue": "team"}),
        thing("Workload", version, "g", namespace="ml",
              spec={"queueName": "local", "priority": 7, "podSets": pod_sets}),
    ]  # fmt: skip


def meaning(*bodies: Body) -> object:
    """What a question says, whatever its words."""
    nodes = [node(name, labels={RACK: rack}) for name, rack in RACKS.items()]
    asked = request(*nodes, priority_class(URGENT, 7), *bodies)
    (sent,) = asked.gangs
    (scope,) = sent.packing_scopes
    queue = next(q for q in asked.snapshot.queues if q.name == sent.queue)
    return (
        sent.priority,
        list(sent.unsupported),
        sorted((of.min_replicas, amounts(of)) for of in sent.groups),
        # Which groups share which nodes.
        len(scope.groups) in (0, len(GROUPS)),
        domains(asked, scope.required_level),
        queue.limit["gpus"],
        queue.guaranteed["gpus"],
    )


def amounts(of: v1.PodGroup) -> list[tuple[int, int]]:
    return [(len(some.pods), some.template.requests.extended[GPU]) for some in of.pod_sets]


def domains(asked: v1.ComputePlacementRequest, level: str) -> list[list[str]]:
    found: dict[str, list[str]] = {}
    for one in asked.snapshot.nodes:
        found.setdefault(one.labels[level], []).append(one.name)
    return sorted(found.values())


@pytest.mark.parametrize("told", [koordinator, volcano, volcano_job, kueue])
def test_a_gang_means_the_same_in_other_words(told: Callable[[], list[Body]]) -> None:
    assert meaning(*told()) == meaning(*grove())
