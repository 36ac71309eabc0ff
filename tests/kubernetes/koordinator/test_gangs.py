"""Koordinator's gangs: by PodGroup, by annotation, in groups, over layers of the network."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placement import v1
from placement.kubernetes import in_parts, own_gangs, whole_of
from tests.kubernetes.build import (
    Body,
    gang,
    group,
    node,
    only_gang,
    pod,
    problems,
    request,
    said,
    thing,
    translated,
)

GANG = "gang.scheduling.koordinator.sh/"
SPINE, BLOCK, OLD_BLOCK = "example.com/spine", "example.com/block", "example.com/old-block"


def pod_group(name: str, least: int = 1, **notes: Any) -> Body:
    texts = {GANG + key.replace("_", "-"): json.dumps(value) for key, value in notes.items()}
    return thing(
        "PodGroup", "scheduling.sigs.k8s.io/v1alpha1", name, namespace="ml",
        metadata={"annotations": texts}, spec={"minMember": least},
    )  # fmt: skip


def member(name: str, gang: str) -> Body:
    return pod(name, labels={"pod-group.scheduling.sigs.k8s.io": gang})


def annotated(name: str, gang: str, least: str | None = "1", **more: str) -> Body:
    notes = {GANG + "name": gang, **{GANG + k.replace("_", "-"): v for k, v in more.items()}}
    if least is not None:
        notes[GANG + "min-available"] = least
    return pod(name, metadata={"annotations": notes})


def coscheduled(name: str, least: int) -> Body:
    return thing(
        "PodGroup", "scheduling.x-k8s.io/v1alpha1", name, namespace="ml",
        spec={"minMember": least, "minResources": {"cpu": "1"}, "scheduleTimeoutSeconds": 10},
        status={"phase": "Pending", "scheduleStartTime": None},
    )  # fmt: skip


def layers() -> Body:
    spec = [
        {"topologyLayer": "Spine", "labelKey": [SPINE]},
        {"topologyLayer": "Block", "parentTopologyLayer": "Spine", "labelKey": [BLOCK, OLD_BLOCK]},
        {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "Block"},
    ]
    return thing(
        "ClusterNetworkTopology", "scheduling.koordinator.sh/v1alpha1", "default",
        spec={"networkTopologySpec": spec},
    )  # fmt: skip


def gather(**strategies: str) -> Body:
    return {"gatherStrategy": [{"layer": k, "strategy": v} for k, v in strategies.items()]}


def groups(sent: v1.PodGang) -> dict[str, tuple[int, int]]:
    return {g.name: (g.min_replicas, sum(len(s.pods) for s in g.pod_sets)) for g in sent.groups}


def test_an_annotation_that_names_no_gang_is_a_problem() -> None:
    assert problems(node("n1"), annotated("a", "2026-01-01T00:00:00Z")) == [
        (
            "Pod ml/a",
            f"metadata.annotations[{GANG}name]",
            "'2026-01-01T00:00:00Z' is not a Kubernetes name (lower-case letters, digits, '-' and"
            " '.')",
        )
    ]


def test_pods_are_of_the_pod_group_that_their_label_names() -> None:
    sent = only_gang(node(), pod_group("g", 2), *(member(n, "g") for n in "abc"))
    assert (sent.name, groups(sent)) == ("namespaces/ml/podgangs/g", {"g": (2, 3)})


def test_annotations_alone_make_a_gang() -> None:
    sent = only_gang(node(), *(annotated(n, "j", "2") for n in "abc"))
    assert (sent.name, groups(sent)) == ("namespaces/ml/podgangs/j", {"j": (2, 3)})


def test_a_minimum_that_is_no_number_is_a_problem() -> None:
    field = f"metadata.annotations[{GANG}min-available]"
    assert problems(annotated("a", "j", "two")) == [
        ("Pod ml/a", field, "'two' is not a number"),
    ]
    assert problems(annotated("a", "j", None)) == [("Pod ml/a", field, "is missing")]


def test_the_gangs_of_a_group_are_one_and_known_by_their_own_names() -> None:
    together = ["ml/a", "ml/b"]
    translation = translated(
        node(), pod_group("b", 1, groups=together), pod_group("a", 2, groups=together),
        member("a-0", "a"), member("a-1", "a"), member("b-0", "b"), pod_group("lone"),
    )  # fmt: skip
    first, lone = translation.request.gangs
    assert groups(first) == {"a": (2, 2), "b": (1, 1)}
    assert lone.name == "namespaces/ml/podgangs/lone"
    assert translation.parts == {first.name: {"a": ("ml", "a"), "b": ("ml", "b")}}
    answered = v1.Placement(
        bindings=[v1.Binding(pod="namespaces/ml/pods/b-0", gang=first.name, group="b")],
        gangs=[v1.GangResult(name=name, placed=True) for name in (first.name, lone.name)],
    )
    spoken = in_parts(answered, translation.parts)
    assert [(g.name.rpartition("/")[2], g.placed) for g in spoken.gangs] == [
        ("a", True), ("b", True), ("lone", True),
    ]  # fmt: skip
    assert spoken.bindings[0].gang == "namespaces/ml/podgangs/b"


def test_what_runs_is_evicted_under_the_name_of_its_own_gang() -> None:
    together = ["ml/a", "ml/b"]
    running = [member(f"{name}-0", name) for name in "ab"]
    for one in running:
        one["spec"]["nodeName"] = "n1"
    translation = translated(
        node("n1"), *(pod_group(name, groups=together) for name in "ab"), *running
    )
    (whole,) = translation.request.gangs
    answered = v1.Placement(
        evictions=[
            v1.Eviction(pod=f"namespaces/ml/pods/{name}-0", gang=whole.name) for name in "ab"
        ]
    )
    own = own_gangs(translation.parts, translation.request)
    spoken = in_parts(answered, translation.parts, own)
    names = [f"namespaces/ml/podgangs/{name}" for name in "ab"]
    assert [eviction.gang for eviction in spoken.evictions] == names
    assert {whole_of(translation.parts, name) for name in names} == {whole.name}
    assert whole_of(translation.parts, "namespaces/ml/podgangs/c") == "namespaces/ml/podgangs/c"


@pytest.mark.parametrize("order", ["abc", "cba", "bca"])
def test_gangs_are_together_where_only_some_of_them_name_the_others(order: str) -> None:
    """a names b, and b names c, which names nobody."""
    named = {"a": {"groups": ["ml/b"]}, "b": {"groups": ["ml/b", "ml/c"]}, "c": {}}
    bodies = [pod_group(name, 1, **named[name]) for name in order]
    sent = only_gang(node(), *bodies, *(member(f"{n}-0", n) for n in order))
    assert groups(sent) == dict.fromkeys("abc", (1, 1))


def test_a_gang_of_the_group_that_is_not_there_is_waited_for() -> None:
    sent = only_gang(pod_group("a", groups=["ml/a", "ml/b"]))
    assert list(sent.unsupported) == [f"annotation {GANG}groups: gang ml/b is not in the input"]


def test_layers_are_levels() -> None:
    where = {SPINE: "s", BLOCK: "b"}
    sent = request(
        layers(), node("n1", labels=where), node("n2", labels={SPINE: "s", OLD_BLOCK: "c"}),
        pod_group("g", network_topology_spec=gather(Spine="MustGather", Block="PreferGather",
                                                    NodeTopologyLayer="MustGather")),
    )  # fmt: skip
    must, prefer, host = sent.gangs[0].packing_scopes
    assert {scope.name for scope in sent.gangs[0].packing_scopes} == {"g"}
    assert (must.required_level, host.required_level) == (SPINE, "kubernetes.io/hostname")
    assert prefer.preferred_level == f"default.path.{BLOCK}"
    assert [n.labels[prefer.preferred_level] for n in sent.snapshot.nodes] == ["s.b", "s.c"]


def test_only_the_topology_of_the_right_name_is_read_and_that_is_told() -> None:
    other = {**layers(), "metadata": {"name": "fabric"}}
    idle = gang(podgroups=[group("w", least=0)])
    assert said(translated(node(), other, idle).warnings) == (
        "ClusterNetworkTopology fabric: only the one named default is read",
    )


def test_a_layer_above_that_is_not_there_is_a_problem() -> None:
    """Domains would be told apart by fewer labels than is meant."""
    wrong, right = layers(), layers()
    wrong["spec"]["networkTopologySpec"][1]["parentTopologyLayer"] = "Spin"
    field = "spec.networkTopologySpec[1].parentTopologyLayer"
    (found,) = problems(node(), wrong)
    assert found[1:] == (field, "there is no layer Spin")
    right["spec"]["networkTopologySpec"][0]["parentTopologyLayer"] = "ClusterTopologyLayer"
    assert not problems(node(), right)


@pytest.mark.parametrize(
    ("rule", "want"),
    [
        ({"layer": "Row", "strategy": "MustGather"}, "there is no layer Row"),
        ({"layer": "Spine", "strategy": "Scatter"}, "strategy Scatter"),
        (
            {"layer": "Spine", "strategy": "MustGather", "podCountMultiple": 8},
            "podCountMultiple",
        ),
    ],
)
def test_what_a_topology_spec_asks_beyond_gathering_is_refused_by_name(
    rule: Body, want: str
) -> None:
    sent = only_gang(
        node(), layers(), pod_group("g", network_topology_spec={"gatherStrategy": [rule]})
    )
    assert list(sent.unsupported) == [f"annotation {GANG}network-topology-spec: {want}"]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"gatherStrategies": [{"layer": "Spine", "strategy": "MustGather"}]}, "gatherStrategies"),
        ({"gatherStrategy": {"layer": "Spine"}}, "gatherStrategy is not a list"),
        ({"gatherStrategy": ["Spine"]}, "an entry of gatherStrategy is not a mapping"),
        (
            {"gatherStrategy": [{"layer": "Spine", "strategy": "MustGather", "podCount": 8}]},
            "podCount",
        ),
    ],
)
def test_a_topology_spec_of_another_form_is_refused_by_name(spec: Body, want: str) -> None:
    sent = only_gang(node(), layers(), pod_group("g", network_topology_spec=spec))
    assert list(sent.unsupported) == [f"annotation {GANG}network-topology-spec: {want}"]


def test_annotations_that_differ_are_told() -> None:
    translation = translated(node(), annotated("a", "j", "1"), annotated("b", "j", "2"))
    assert groups(translation.request.gangs[0]) == {"j": (1, 2)}
    assert said(translation.warnings) == (
        f"Pod ml/b: metadata.annotations[{GANG}min-available]:"
        " is not as in pod ml/a, which counts for the gang",
    )


def test_a_pod_group_of_a_pod_gangs_pods_is_no_gang_of_its_own() -> None:
    translation = translated(
        node(), pod_group("s-w"), member("a", "s-w"), gang("s", podgroups=[group("w", "a")])
    )
    assert [g.name for g in translation.request.gangs] == ["namespaces/ml/podgangs/s"]
    assert not translation.warnings


def test_a_pod_of_two_gangs_counts_in_the_first_and_that_is_told() -> None:
    translation = translated(
        node(), pod_group("c"), member("a", "c"), member("b", "c"),
        gang("s", podgroups=[group("w", "a")]),
    )  # fmt: skip
    first, second = translation.request.gangs
    assert (groups(first), groups(second)) == ({"w": (1, 1)}, {"c": (1, 1)})
    assert said(translation.warnings) == (
        "PodGroup ml/c: pod ml/a is in PodGang ml/s, too: it counts there alone",
    )


@pytest.mark.parametrize("text", ["[", '{"a": 1}', "3"])
def test_what_is_no_list_of_gangs_is_a_problem(text: str) -> None:
    (problem,) = problems(annotated("a", "j", groups=text))
    assert problem[1:] == (
        f"metadata.annotations[{GANG}groups]",
        "is not what it should be in JSON",
    )


def test_a_pod_group_counts_before_the_annotations_of_its_pods() -> None:
    both = member("a", "g")
    both["metadata"]["annotations"] = {GANG + "name": "g", GANG + "min-available": "9"}
    assert groups(only_gang(node(), both, pod_group("g", 3))) == {"g": (3, 1)}


def test_a_pod_group_has_the_pods_whose_annotation_names_it() -> None:
    sent = only_gang(node(), pod_group("g", 3), annotated("a", "g"), member("b", "g"))
    assert groups(sent) == {"g": (3, 2)}


def test_a_pod_group_of_coscheduling_is_a_gang_by_its_own_label() -> None:
    label = {"scheduling.x-k8s.io/pod-group": "g"}
    pods = [pod(name, labels=label) for name in "abc"]
    translation = translated(node(), coscheduled("g", 2), *pods)
    (sent,) = translation.request.gangs
    assert (sent.name, sent.groups[0].min_replicas) == ("namespaces/ml/podgangs/g", 2)
    assert len(sent.groups[0].pod_sets[0].pods) == 3
    assert not translation.warnings


def test_one_name_in_both_groups_of_coscheduling_is_a_problem() -> None:
    assert problems(pod_group("g"), coscheduled("g", 1)) == [
        ("PodGroup ml/g", "", "is also the name of PodGroup ml/g")
    ]
