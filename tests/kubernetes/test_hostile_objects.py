"""Whatever an object holds, the answer is a request or a list of problems, never a crash."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.kubernetes import (
    InputError,
    Objects,
    Problem,
    expand,
    translate,
)
from placement.kubernetes.schema import kinds, known_fields
from placement.kubernetes.trimming import Trimmer

#: Of the profile in use.
EXAMPLES = settings().max_examples

#: Every field name that something here reads, so that values land where they are looked at.
NAMES = (
    "affinity", "allocatable", "annotations", "apiVersion", "cliqueNames", "cliques", "conditions",
    "containers", "deletionTimestamp", "domain", "effect", "filter", "globalDefault",
    "initContainers", "key", "kind", "labelSelector", "labels", "levels", "limits",
    "matchExpressions", "matchLabelKeys", "matchLabels", "maxSkew", "metadata", "minAvailable",
    "minReplicas", "name", "namespace", "namespaceSelector", "nodeAffinity", "nodeName",
    "nodeSelectorTerms", "operator", "overhead", "ownerReferences", "pack", "packConstraint",
    "packDomain", "phase", "podAffinity", "podAntiAffinity", "podCliqueScalingGroups",
    "podGroupNames", "podReferences", "podSpec", "podgroups", "ports", "preferred", "priority",
    "priorityClassName", "replicas", "requests", "requiredDuringSchedulingIgnoredDuringExecution",
    "required", "resourceSharing", "resources", "restartPolicy", "reuseReservationRef",
    "schedulingGates", "spec", "status", "taints", "template", "tolerations", "topologyConstraint",
    "topologyConstraintGroupConfigs", "topologyKey", "topologyName", "topologySpreadConstraints",
    "type", "uid", "value", "values", "volumes",
)  # fmt: skip
WORDS = (
    "", "a", "b", "1", "500m", "True", "In", "Exists", "Always", "NoSchedule", "cpu", "rack",
    "gpu", "Available", "n1", "2026-01-01T00:00:00Z", "1h", "WaitForFirstConsumer", "default",
    "[", "{}", '{"gpu": [{"minor": 0}], "name": "a"}', '["ml/a", 1]', "true", "0.5",
    'device.driver == "a"', "MustGather", "nvidia.com/gpu",
)  # fmt: skip
#: Names inside the kinds beyond Grove's, and keys of annotations and labels that are read.
MORE_NAMES = (
    "allocatable", "allocateOnce", "allocation", "allowedTopologies", "attributes", "basic",
    "capacity", "cel", "channel", "claimName", "claims", "clusterQueue", "cohortName",
    "controller", "count", "creationTimestamp", "devices", "deviceClassName", "disruptionsAllowed",
    "driver", "ephemeral", "exactly", "expires", "expression", "flavors", "gang", "generation",
    "gpu", "health", "labelKey", "limit", "matchLabelExpressions", "minAvailable", "minCount",
    "minMember", "minor", "networkTopologySpec", "nodeLabel", "nodeSelector", "nominalQuota",
    "object", "owners", "parent", "parentQueue", "parentTopologyLayer", "persistentVolumeClaim",
    "podGroupName", "podGroups", "podName", "policy", "pool", "preemptMinRuntime",
    "preemptibility", "quota", "requiredTopologyLevel", "reservedFor", "resourceClaimName",
    "resourceClaimTemplate", "resourceClaimTemplateName", "resourceClaims", "resourceClaimStatuses",
    "resourceGroups", "resourceSliceCount", "results", "schedulingConstraints", "schedulingGroup",
    "schedulingPolicy", "selectedNode", "selector", "selectors", "startTime", "storageClassName",
    "subGroups", "topology", "topologyLayer", "ttl", "volumeBindingMode", "volumeName",
    "workloadRef", "pod-group-name", "kai.scheduler/queue", "kai.scheduler/subgroup-name",
    "gpu-fraction", "gpu-memory", "pod-group.scheduling.sigs.k8s.io",
    "gang.scheduling.koordinator.sh/name", "gang.scheduling.koordinator.sh/min-available",
    "gang.scheduling.koordinator.sh/groups", "gang.scheduling.koordinator.sh/network-topology-spec",
    "scheduling.koordinator.sh/device-allocated", "scheduling.koordinator.sh/gpu-partitions",
    "scheduling.koordinator.sh/reservation-allocated",
    "scheduling.koordinator.sh/reservation-affinity",
)  # fmt: skip
ODD: tuple[Any, ...] = (0, 1, -1, True, None, [], {}, 2**70, 0.5, float("inf"), [[]])
ALL_NAMES = (*NAMES, *MORE_NAMES)
KINDS = tuple((f"{kind.group}/v1".lstrip("/"), kind.name) for kind in kinds.KINDS)

leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(WORDS) | st.floats()
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(ALL_NAMES), inner, max_size=6)
    ),
    max_leaves=25,
)


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    version, kind = draw(st.sampled_from(KINDS))
    metadata = draw(st.dictionaries(st.sampled_from(ALL_NAMES), values, max_size=3))
    name = draw(st.sampled_from(("a", "b", "a-0", "b-0")))
    return {
        **draw(st.dictionaries(st.sampled_from(ALL_NAMES), values, max_size=5)),
        "spec": draw(st.dictionaries(st.sampled_from(ALL_NAMES), values, max_size=6) | values),
        "apiVersion": version,
        "kind": kind,
        "metadata": draw(st.just({**metadata, "name": name}) | values),
    }


@settings(max_examples=2 * EXAMPLES)
@given(st.lists(bodies() | values, max_size=5))
def test_any_objects_give_a_request_or_problems(objects: list[Any]) -> None:
    read = Objects.of(objects)
    for use in (translate, expand):
        try:
            use(read)
        except InputError as error:
            for problem in error.problems:
                assert problem.message
                assert str(problem)


@given(st.lists(bodies(), max_size=4))
def test_any_objects_can_be_trimmed(objects: list[dict[str, Any]]) -> None:
    trimmer = Trimmer()
    for body in objects:
        trimmer.trim(body)


def _valid(kind: kinds.Kind, seed: int) -> dict[str, Any]:
    """An object of a kind with every known field, each of some hostile type."""
    rng = random.Random(f"{kind}{seed}")
    kinds_, types = known_fields._table()

    def fill(number: int, depth: int) -> Any:
        if number < 0 or depth > 7 or rng.random() < 0.08:
            return rng.choice(
                [*WORDS, 0, 1, -1, True, None, [], {}, 2**70, 0.5, float("inf"), [[]]]
            )
        known = types[number]
        if "*" in known:
            return {word: fill(known["*"], depth + 1) for word in rng.sample(WORDS, 2)}
        made = {name: fill(below, depth + 1) for name, below in known.items() if rng.random() < 0.7}
        return [made, made] if rng.random() < 0.3 else made

    filled = fill(kinds_.get(f"{kind.group}/{kind.name}", kinds_["batch/Job"]), 0)
    body: dict[str, Any] = filled if isinstance(filled, dict) else {}
    told = body.get("metadata")
    metadata: dict[str, Any] = told if isinstance(told, dict) else {}
    words = (*MORE_NAMES, "a")
    for field in ("labels", "annotations"):
        metadata[field] = {rng.choice(words): rng.choice(WORDS) for _ in range(6)}
    return {
        **body,
        "kind": kind.name,
        "apiVersion": f"{kind.group}/v1".lstrip("/"),
        "metadata": {**metadata, "name": rng.choice("ab"), "namespace": "default"},
    }


@pytest.mark.parametrize("seed", range(60))
def test_objects_of_all_fields_and_wrong_types_give_problems_at_most(seed: int) -> None:
    rng = random.Random(seed)
    objects = Objects.of([_valid(rng.choice(kinds.KINDS), seed * 10 + i) for i in range(6)])
    found: tuple[Problem, ...] = ()
    try:
        translate(objects)
    except InputError as error:
        found = error.problems
    assert all(problem.message for problem in found)
