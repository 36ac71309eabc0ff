"""A PodSpec as a whole: what is refused or ignored, and every problem by its path."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.kubernetes.objects import not_a_name
from placement.kubernetes.pods.podspec import PodSpec, PodSpecReader
from tests.kubernetes.build import (
    container,
    gang,
    group,
    node,
    only_gang,
    pod,
    pod_problems,
    template,
)


def read(**spec: Any) -> PodSpec:
    return PodSpecReader().read({"containers": [{}], **spec})


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        (
            {"volumes": [{"name": "a", "awsElasticBlockStore": {}}]},
            "volumes[0].awsElasticBlockStore",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Gt", "value": "5"}]},
            "tolerations[0].operator Gt",
        ),
        (
            {
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "topologyKey": "rack",
                                "namespaceSelector": {"matchLabels": {"a": "b"}},
                            }
                        ]
                    }
                }
            },
            "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
            ".namespaceSelector",
        ),
    ],
    ids=lambda value: value.rsplit(".")[-1] if isinstance(value, str) else "",
)
def test_what_cannot_be_honoured_is_named(spec: dict[str, Any], want: str) -> None:
    assert read(**spec).unsupported == (want,)
    gang_ = only_gang(node(), pod("a", **spec), gang(podgroups=[group("w", "a")]))
    assert list(gang_.unsupported) == [f"pod ml/a: spec.{want}"]


def test_what_is_harmless_is_ignored() -> None:
    harmless = {
        "volumes": [
            {"name": n, n: {}}
            for n in ("emptyDir", "hostPath", "configMap", "secret", "projected", "csi", "nfs")
        ],
        "schedulerName": "default-scheduler",
        "runtimeClassName": "kata",
        "preemptionPolicy": "Never",
        "os": {"name": "linux"},
        "resourceClaims": [],
        "whatever": {"comes": "next"},
    }
    assert template(**harmless) == template()
    assert read(**harmless).unsupported == ()


def test_equal_specs_are_read_once_whatever_else_they_hold() -> None:
    """Pods of the API server differ in generated volume names, and in their nodes."""
    reader = PodSpecReader()

    def spec(tag: str) -> dict[str, Any]:
        return {
            "containers": [{**container(cpu="1"), "env": [tag], "volumeMounts": [tag]}],
            "volumes": [{"name": f"kube-api-access-{tag}", "projected": {"sources": [tag]}}],
            "nodeName": tag,
            "hostname": tag,
        }

    assert reader.read(spec("a")) is reader.read(spec("b"))
    assert reader.read(spec("a")) is not reader.read({**spec("a"), "hostNetwork": True})


def test_every_problem_of_a_spec_is_named_with_its_path() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    node_terms = f"spec.affinity.nodeAffinity.{required}.nodeSelectorTerms"
    assert pod_problems(
        phase="Suceeded",
        initContainers=[{"restartPolicy": "always"}],
        containers=[
            {"resources": {"requests": {"cpu": "much", "nvidia.com/gpu": "0.5", "memory": True}}},
            {"resources": {"limits": {"memory": "-1"}}, "ports": [{"hostPort": 70000}]},
            "not a container",
        ],
        nodeSelector={"a": 1},
        overhead=["x"],
        affinity={
            "nodeAffinity": {
                required: {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["x"]}]},
                        {"matchExpressions": [{"key": "a", "operator": "In"}, {"operator": "In"}]},
                        {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]},
                        {"matchFields": [{"key": "x", "operator": "In", "values": ["y"]}]},
                    ]
                }
            },
            "podAffinity": {required: [{"labelSelector": {"matchLabels": {"a": True}}}]},
            "podAntiAffinity": {
                required: [
                    {
                        "topologyKey": "a",
                        "labelSelector": {
                            "matchExpressions": [
                                {"key": "a", "operator": "Exists", "values": ["x"]}
                            ]
                        },
                    }
                ]
            },
        },
        tolerations=[
            {"operator": "Equal"},
            {"operator": "Maybe"},
            {"key": "a", "effect": "Never"},
            {"key": "a", "operator": "Exists", "value": "b"},
        ],
        topologySpreadConstraints=[{"maxSkew": 0, "whenUnsatisfiable": "Sometimes"}],
        hostNetwork="yes",
        nodeName="A B",
        priority="high",
        preemptionPolicy="never",
        schedulingGates="x",
    ) == {
        "spec.containers[0].resources.requests[cpu]": "'much' is not a quantity",
        "spec.containers[0].resources.requests[nvidia.com/gpu]": (
            "'0.5' is not a whole number, and nvidia.com/gpu cannot be divided"
        ),
        "spec.containers[0].resources.requests[memory]": "must be a quantity, not true",
        "spec.containers[1].resources.limits[memory]": "'-1' is negative",
        "spec.containers[1].ports[0].hostPort": "must be at most 65535, not 70000",
        "spec.containers[2]": "must be a mapping, not not a container",
        "spec.initContainers[0].restartPolicy": (
            "must be one of Always, OnFailure, Never, not always"
        ),
        "status.phase": (
            "must be one of Pending, Running, Succeeded, Failed, Unknown, not Suceeded"
        ),
        "spec.nodeSelector[a]": "must be a string, not 1; put it in quotes",
        "spec.overhead": "must be a mapping, not a list",
        f"{node_terms}[0].matchExpressions[0].operator": (
            "must be one of In, NotIn, Exists, DoesNotExist, Gt, Lt, not Like"
        ),
        f"{node_terms}[1].matchExpressions[0].values": ("must hold at least one value for In"),
        f"{node_terms}[1].matchExpressions[1].key": ("is missing"),
        f"{node_terms}[2].matchExpressions[0].values": ("must be exactly one whole number for Gt"),
        f"{node_terms}[3].matchFields[0].key": ("must be metadata.name, not x"),
        f"spec.affinity.podAffinity.{required}[0].topologyKey": "is missing",
        f"spec.affinity.podAffinity.{required}[0].labelSelector.matchLabels[a]": (
            "must be a string, not true; put it in quotes"
        ),
        f"spec.affinity.podAntiAffinity.{required}[0].labelSelector.matchExpressions[0].values": (
            "must be empty for Exists"
        ),
        "spec.tolerations[0].operator": "must be Exists when the key is empty",
        "spec.tolerations[1].operator": "must be Exists or Equal, not Maybe",
        "spec.tolerations[2].effect": (
            "must be one of NoSchedule, PreferNoSchedule, NoExecute, not Never"
        ),
        "spec.tolerations[3].value": "must be empty when the operator is Exists",
        "spec.preemptionPolicy": "must be one of PreemptLowerPriority, Never, not never",
        "spec.topologySpreadConstraints[0].maxSkew": "must be at least 1, not 0",
        "spec.topologySpreadConstraints[0].topologyKey": "is missing",
        "spec.topologySpreadConstraints[0].whenUnsatisfiable": (
            "must be one of DoNotSchedule, ScheduleAnyway, not Sometimes"
        ),
        "spec.hostNetwork": "must be true or false, not yes",
        "spec.nodeName": not_a_name("A B"),
        "spec.priority": "must be a whole number, not high",
        "spec.schedulingGates": "must be a list, not x",
    }


def test_a_pod_without_containers_is_a_problem() -> None:
    assert pod_problems(containers=[]) == {"spec.containers": "is missing"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


FIELDS = (
    "containers", "initContainers", "overhead", "resources", "nodeSelector", "affinity", "volumes",
    "tolerations", "topologySpreadConstraints", "hostNetwork", "resourceClaims",
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(FIELDS), json_values))
def test_any_spec_is_read_without_raising(spec: dict[str, Any]) -> None:
    facts = PodSpecReader().read(spec)
    assert all(path and message for path, message in facts.findings)
