"""PodGangs: groups, scopes, priority, base and what makes a gang wait."""

from __future__ import annotations

from typing import Any

import pytest

from placement import v1
from tests.kubernetes.build import (
    Body,
    gang,
    group,
    node,
    only_gang,
    pack,
    pod,
    priority_class,
    problems,
    request,
    said,
    translated,
)

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def test_a_gang_with_everything() -> None:
    sent = request(
        node("n1"),
        pod("a", metadata={"uid": "u-a"}),
        pod("b"),
        pod("c", nodeName="n1", phase="Running"),
        pod("d", schedulingGates=[{"name": "grove.io/podgang-pending-creation"}]),
        gang("g", podgroups=[group("W", "a", "b", "c", "d", least=3)]),
    ).gangs[0]
    assert (sent.name, sent.priority, sent.base_gang, sent.uninitialized) == (
        "namespaces/ml/podgangs/g", 0, "", False,
    )  # fmt: skip
    (only,) = sent.groups
    assert (only.name, only.min_replicas, only.gated_count) == ("W", 3, 1)
    (pod_set,) = only.pod_sets
    assert list(pod_set.bound_pods) == [v1.BoundPod(name="namespaces/ml/pods/c", node="nodes/n1")]
    assert list(pod_set.pods) == [
        v1.Pod(name="namespaces/ml/pods/a", uid="u-a"),
        v1.Pod(name="namespaces/ml/pods/b"),
    ]
    assert pod_set.template.requests == v1.Resources(pod_count=1, extended={"nvidia.com/gpu": 1})


def test_a_minimum_of_zero_is_allowed() -> None:
    assert only_gang(gang(podgroups=[group("w", least=0)])).groups[0].min_replicas == 0


def test_pods_that_are_not_there_or_have_finished_are_not_there_yet() -> None:
    (only,) = only_gang(
        pod("done", phase="Succeeded"), gang(podgroups=[group("w", "done", "absent", least=2)])
    ).groups
    assert only == v1.PodGroup(name="w", min_replicas=2)


def test_a_pod_that_is_being_deleted_is_no_member() -> None:
    (only,) = only_gang(
        node("n1"),
        pod("a", metadata=DELETED),
        pod("b", metadata=DELETED, nodeName="n1"),
        gang(podgroups=[group("w", "a", "b")]),
    ).groups
    assert only == v1.PodGroup(name="w", min_replicas=2)


# --- Scopes ---


def test_packing_scopes_of_all_three_places() -> None:
    sent = only_gang(
        gang(
            "g",
            podgroups=[
                group("p", least=0, **pack("host", "numa")),
                group("d", least=0, **pack(preferred="rack")),
                group("free", least=0),
            ],
            topologyConstraintGroupConfigs=[
                {"name": "pd", "podGroupNames": ["p", "d", "p"], **pack("rack")},
                {"name": "nothing", "podGroupNames": ["p"]},
            ],
            **pack("block"),
        )
    )
    scope = v1.PackingScope
    assert list(sent.packing_scopes) == [
        scope(name="g", required_level="block"),
        scope(name="pd", groups=["p", "d"], required_level="rack"),
        scope(name="p", groups=["p"], required_level="host", preferred_level="numa"),
        scope(name="d", groups=["d"], preferred_level="rack"),
    ]


# --- Initialized ---


@pytest.mark.parametrize(
    ("status", "waits"),
    [
        pytest.param(None, False, id="no status: written by hand"),
        pytest.param({}, False, id="an empty status"),
        pytest.param({"conditions": [{"type": "Initialized", "status": "True"}]}, False, id="True"),
        pytest.param(
            {"conditions": [{"type": "Initialized", "status": "False"}]}, True, id="False"
        ),
        pytest.param({"phase": "Pending"}, True, id="a status without the condition"),
        pytest.param({"conditions": [{"type": "Scheduled", "status": "True"}]}, True, id="another"),
    ],
)
def test_a_gang_waits_until_it_is_initialized(status: Body | None, waits: bool) -> None:
    sent = only_gang(gang(status=status, podgroups=[group("w", least=1)]))
    assert sent.uninitialized is waits


# --- Priority ---


def priority(*bodies: Body, name: str = "", **spec: Any) -> int:
    more: Body = {"priorityClassName": name} if name else {}
    return only_gang(*bodies, pod("a", **spec), gang(podgroups=[group("w", "a")], **more)).priority


HIGH, LOW = priority_class("high", 1000), priority_class("low", -5)


def test_the_class_of_the_gang_counts_before_the_pods() -> None:
    """Grove writes the class on the PodGang alone, and the API server gives the pods zero."""
    assert priority(HIGH, LOW, name="high", priority=0, priorityClassName="low") == 1000


def test_without_a_class_of_its_own_the_number_of_the_pods_counts() -> None:
    assert priority(HIGH, LOW, priority=7, priorityClassName="low") == 7


def test_without_numbers_the_class_of_the_pods_counts() -> None:
    assert priority(HIGH, LOW, priorityClassName="low") == -5


def test_without_any_the_lowest_global_default_counts() -> None:
    defaults = [priority_class(f"d{v}", v, globalDefault=True) for v in (30, 20, 40)]
    assert priority(HIGH, *defaults) == 20
    assert priority(HIGH) == 0


def test_the_highest_of_differing_pods_counts() -> None:
    sent = only_gang(
        pod("a", priority=1), pod("b", priority=3), gang(podgroups=[group("w", "a", "b")])
    )
    assert sent.priority == 3


def test_built_in_classes_are_known() -> None:
    assert priority(name="system-node-critical") == 2_000_001_000
    assert priority(priorityClassName="system-cluster-critical") == 2_000_000_000


def test_an_unknown_class_is_a_problem() -> None:
    missing = "PriorityClass nope is not in the input"
    lone = gang(podgroups=[group("w", "a")])
    assert problems(pod("a"), gang(podgroups=[group("w", "a")], priorityClassName="nope")) == [
        ("PodGang ml/g", "spec.priorityClassName", missing)
    ]
    assert problems(pod("a", priorityClassName="nope"), lone) == [
        ("Pod ml/a", "spec.priorityClassName", missing)
    ]
    # The number says it all.
    assert not problems(pod("a", priorityClassName="nope", priority=3), lone)


def test_a_wrong_priority_class_is_a_problem() -> None:
    bad = {**priority_class("p", 1, preemptionPolicy="Nevr"), "value": None, "globalDefault": "x"}
    assert problems(bad, {**priority_class("q", 1), "value": "9"}) == [
        ("PriorityClass p", "value", "is missing"),
        (
            "PriorityClass p",
            "preemptionPolicy",
            "must be one of PreemptLowerPriority, Never, not Nevr",
        ),
        ("PriorityClass p", "globalDefault", "must be true or false, not x"),
        ("PriorityClass q", "value", "must be a whole number, not 9; leave out its quotes"),
    ]


def test_a_preferred_level_that_no_node_has_is_told() -> None:
    known = gang("a", podgroups=[group("w", least=0)], **pack(preferred="rack"))
    lost = [
        gang(name, podgroups=[group("w", least=0)], **pack(required="rack", preferred="rak"))
        for name in "bc"
    ]
    assert said(translated(node(labels={"rack": "r1"}), known, *lost).warnings) == (
        "PodGang ml/b: prefers the level rak, which no node has",
    )


# --- Base gangs and reservations ---


def scaled(name: str, base: str) -> list[Body]:
    return [
        pod(f"{name}-0", labels={"grove.io/base-podgang": base}),
        gang(name, podgroups=[group("w", f"{name}-0")]),
    ]


def test_the_base_is_named_by_the_pods() -> None:
    base, other = request(gang("base", podgroups=[group("w", least=0)]), *scaled("s", "base")).gangs
    assert (base.base_gang, other.base_gang) == ("", "namespaces/ml/podgangs/base")


def test_a_base_that_is_not_in_the_input_is_warned_of() -> None:
    translation = translated(node(), *scaled("s", "gone"), *scaled("t", "gone"))
    assert [g.base_gang for g in translation.request.gangs] == ["", ""]
    assert said(translation.warnings) == (
        "PodGang ml/gone: the base of 2 other gangs is not in the input: placed without regard"
        " to it",
    )


def test_a_base_with_a_base_is_refused_by_name() -> None:
    """The service takes no such request, and one odd gang must not stop the others."""
    root, middle, top = request(
        gang("root", podgroups=[group("w", least=0)]), *scaled("mid", "root"), *scaled("top", "mid")
    ).gangs
    assert not root.unsupported
    assert middle.base_gang == root.name
    assert (top.base_gang, list(top.unsupported)) == (
        "", ["label grove.io/base-podgang: its base mid has a base itself"],
    )  # fmt: skip


def test_a_gang_that_is_its_own_base_is_refused_by_name() -> None:
    (own,) = request(*scaled("s", "s")).gangs
    assert (own.base_gang, len(own.unsupported)) == ("", 1)


def test_pods_that_name_different_bases_are_refused_by_name() -> None:
    sent = only_gang(
        pod("a", labels={"grove.io/base-podgang": "x"}),
        pod("b", labels={"grove.io/base-podgang": "y"}),
        gang(podgroups=[group("w", "a", "b")]),
    )
    assert list(sent.unsupported) == [
        "label grove.io/base-podgang: its pods name several bases: x, y"
    ]


def test_a_reservation_names_the_nodes_of_the_gang_it_reuses() -> None:
    old, new = request(
        pod("a", nodeName="n2"),
        pod("b", nodeName="n1"),
        pod("c", nodeName="n1"),
        gang("old", podgroups=[group("w", "a", "b", "c")]),
        gang(
            "new",
            podgroups=[group("w", least=0)],
            reuseReservationRef={"namespace": "ml", "name": "old"},
        ),
    ).gangs
    assert (list(old.previous_nodes), list(new.previous_nodes)) == ([], ["nodes/n1", "nodes/n2"])


def test_a_reservation_of_an_unknown_gang_is_no_wish() -> None:
    ref = {"namespace": "ml", "name": "gone"}
    sent = only_gang(gang(podgroups=[group("w", least=0)], reuseReservationRef=ref))
    assert not sent.previous_nodes


# --- Refused by name ---


def test_what_several_pods_use_is_said_once() -> None:
    disk = [{"name": "x", "awsElasticBlockStore": {}}]
    sent = only_gang(
        node(),
        *(pod(n, volumes=disk) for n in "ab"),
        pod("c", volumes=disk, nodeName="n1"),
        pod("d"),
        gang(podgroups=[group("w", "a", "b", "c", "d")]),
    )
    assert list(sent.unsupported) == ["pod ml/a and 1 more: spec.volumes[0].awsElasticBlockStore"]


def test_a_gang_that_is_being_deleted_is_refused_by_name() -> None:
    sent = only_gang(gang(metadata=DELETED, podgroups=[group("w", least=1)]))
    assert list(sent.unsupported) == ["metadata.deletionTimestamp: the gang is being deleted"]


def test_pods_of_other_namespaces_are_refused_by_name_and_not_sent() -> None:
    """The service wants pods in the namespace of their gang, as Grove makes them."""
    stranger = pod("x", nodeName="n1", metadata={"namespace": "other"})
    reference = {"namespace": "other", "name": "x"}
    sent = only_gang(
        node(), pod("a"), stranger,
        gang(podgroups=[{"name": "w", "minReplicas": 2,
                         "podReferences": [reference, {"namespace": "ml", "name": "a"}]}]),
    )  # fmt: skip
    assert list(sent.unsupported) == ["pod other/x: a pod of another namespace"]
    assert not sent.groups[0].bound_pods


# --- Problems ---


def test_every_problem_of_a_gang_is_named() -> None:
    bad = gang(
        podgroups=[
            {"name": "w", "podReferences": [{"name": "a"}, {"name": "a"}, {}]},
            {"name": "w", "minReplicas": -1, **pack("x")},
            {"minReplicas": "two"},
            {"name": "a/b", "minReplicas": True},
        ],
        topologyConstraint={"packConstraint": {"required": 7}},
        topologyConstraintGroupConfigs=[{"podGroupNames": ["w", "nope"]}, {"podGroupNames": []}],
        reuseReservationRef={},
        status={"conditions": [{"type": "Initialized", "status": "true"}]},
    )
    assert {field: message for _, field, message in problems(bad)} == {
        "spec.podgroups[0].minReplicas": "is missing",
        "spec.podgroups[0].podReferences[1]": "pod ml/a already belongs to PodGang ml/g",
        "spec.podgroups[0].podReferences[2].name": "is missing",
        "spec.podgroups[1].name": "w is there more than once",
        "spec.podgroups[1].minReplicas": "must be at least 0, not -1",
        "spec.podgroups[2].name": "is missing",
        "spec.podgroups[2].minReplicas": "must be a whole number, not two",
        "spec.podgroups[3].name": "'a/b' cannot be a name",
        "spec.podgroups[3].minReplicas": "must be a whole number, not true",
        "spec.topologyConstraint.packConstraint.required": (
            "must be a string, not 7; put it in quotes"
        ),
        "spec.topologyConstraintGroupConfigs[0].podGroupNames": "the gang has no group nope",
        "spec.topologyConstraintGroupConfigs[1].podGroupNames": "must name at least one group",
        "spec.reuseReservationRef.name": "is missing",
        "status.conditions[0].status": "must be one of True, False, Unknown, not true",
    }


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_labels_and_annotations_that_are_no_texts_are_problems(field: str) -> None:
    """`queue: 5` without quotes would else name no queue."""
    bad = gang(podgroups=[group("w")], metadata={field: {"kai.scheduler/queue": 5}})
    assert problems(bad) == [
        ("PodGang ml/g", f"metadata.{field}[kai.scheduler/queue]",
         "must be a string, not 5; put it in quotes"),
    ]  # fmt: skip


def test_who_is_said_to_be_preemptible_in_an_unknown_word_is_not_disturbed() -> None:
    label = "kai.scheduler/preemptibility"
    translation = translated(
        node(),
        pod("a", labels={label: "nonpreemptible"}, nodeName="n1"),
        gang(podgroups=[group("w", "a")]),
    )
    assert translation.request.gangs[0].not_preemptible
    assert said(translation.warnings) == (
        f"Pod ml/a: metadata.labels[{label}]: must be one of preemptible, non-preemptible,"
        " semi-preemptible, not nonpreemptible: taken as not preemptible",
    )


def test_a_packing_rule_by_another_name_is_a_problem() -> None:
    # PodCliqueSets say `pack`; a rule that nobody reads would not be kept.
    by_place = gang(
        podgroups=[{**group("w", "a"), "topologyConstraint": {"pack": {"required": "rack"}}}],
        topologyConstraint={"packConstraint": {"require": "rack"}},
    )
    assert {field: message for _, field, message in problems(by_place)} == {
        "spec.topologyConstraint.packConstraint": "must hold required or preferred",
        "spec.podgroups[0].topologyConstraint": "must hold packConstraint",
    }


@pytest.mark.parametrize("nothing", [None, {}, {"packConstraint": {}}])
def test_an_empty_packing_rule_is_none(nothing: dict[str, object] | None) -> None:
    sent = only_gang(gang(podgroups=[group("w")], topologyConstraint=nothing))
    assert not sent.packing_scopes


def test_a_pod_of_two_gangs_is_a_problem() -> None:
    first, second = (gang(n, podgroups=[group("w", "a")]) for n in ("g1", "g2"))
    assert problems(pod("a"), first, second) == [
        (
            "PodGang ml/g2",
            "spec.podgroups[0].podReferences[0]",
            "pod ml/a already belongs to PodGang ml/g1",
        )
    ]


def test_groups_under_the_wrong_name_get_a_hint() -> None:
    assert problems(gang(podGroups=[group("w", least=1)])) == [
        (
            "PodGang ml/g",
            "spec.podgroups",
            "must hold at least one group (the name is in lower case)",
        )
    ]


def test_pods_that_a_gang_refers_to_and_are_not_there_are_warned_of() -> None:
    done = pod("b", phase="Succeeded")
    translation = translated(
        node(), pod("a"), done, gang(podgroups=[group("w", "a", "b", "c", least=1)])
    )
    assert said(translation.warnings) == (
        "2 referenced pods are not in the input or finished, first ml/b of PodGang ml/g",
    )


def test_waiting_pods_without_gang_are_left_alone() -> None:
    gate = [{"name": "x"}]
    translation = translated(
        node(),
        pod("a"),
        pod("b", schedulingGates=gate),
        pod("c", metadata=DELETED),
        gang(podgroups=[group("w", least=0)]),
    )
    assert said(translation.warnings) == (
        "2 waiting pods that no PodGang refers to left alone, first pod ml/a",
    )
