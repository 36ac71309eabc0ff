"""Whatever an object holds, the answer is a request or a list of problems, never a crash."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from placement.kubernetes import InputError, Objects, expand, translate

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
WORDS = ("", "a", "b", "1", "500m", "True", "In", "Exists", "Always", "NoSchedule", "cpu", "rack")
KINDS = (
    ("v1", "Node"),
    ("v1", "Pod"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("scheduler.grove.io/v1alpha1", "PodGang"),
    ("grove.io/v1alpha1", "PodCliqueSet"),
    ("grove.io/v1alpha1", "ClusterTopologyBinding"),
)

leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(WORDS) | st.floats()
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6)
    ),
    max_leaves=25,
)


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    version, kind = draw(st.sampled_from(KINDS))
    metadata = draw(st.dictionaries(st.sampled_from(NAMES), values, max_size=3))
    name = draw(st.sampled_from(("a", "b", "a-0", "b-0")))
    return {
        **draw(st.dictionaries(st.sampled_from(NAMES), values, max_size=5)),
        "spec": draw(st.dictionaries(st.sampled_from(NAMES), values, max_size=6) | values),
        "apiVersion": version,
        "kind": kind,
        "metadata": draw(st.just({**metadata, "name": name}) | values),
    }


@settings(max_examples=300, deadline=None)
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
