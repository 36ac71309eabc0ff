"""KAI's PodGroups, topologies and BindRequests in the words of the service."""

from __future__ import annotations

from typing import Any

import pytest

from placement import v1
from placement.kubernetes.schema.kinds import KINDS
from placement.kubernetes.schema.known_fields import unknown_fields
from tests.kubernetes.build import (
    Body,
    gang,
    group,
    kai_pod,
    kai_pod_group,
    node,
    only_gang,
    pod,
    priority_class,
    problems,
    request,
    said,
    thing,
    translated,
)

ZONE, RACK = "example.com/zone", "example.com/rack"


def topology(*levels: str, name: str = "t") -> Body:
    spec = {"levels": [{"nodeLabel": level} for level in levels]}
    return thing("Topology", "kai.scheduler/v1alpha1", name, spec=spec)


def within(level: str, **more: str) -> dict[str, Any]:
    return {"topologyConstraint": {"topology": "t", "requiredTopologyLevel": level, **more}}


def members(sent: v1.PodGroup) -> list[str]:
    names = [p.name for s in sent.pod_sets for p in s.pods]
    names += [p.name for s in sent.pod_sets for p in s.bound_pods]
    return [name.rpartition("/")[2] for name in names]


def test_without_sub_groups_it_is_one_group() -> None:
    sent = only_gang(node(), kai_pod("a"), kai_pod("b"), kai_pod_group(minMember=1))
    (only,) = sent.groups
    assert (sent.name, only.name, only.min_replicas) == ("namespaces/ml/podgangs/g", "default", 1)
    assert members(only) == ["a", "b"]


def test_leaves_are_groups_and_those_above_are_scopes() -> None:
    sent = only_gang(
        node(labels={ZONE: "z", RACK: "r"}),
        topology(ZONE, RACK),
        kai_pod("l", sub_group="leader"),
        kai_pod("w", sub_group="Worker"),
        kai_pod("x", sub_group="other"),
        kai_pod_group(
            subGroups=[
                {"name": "Replica", **within(RACK)},
                {"name": "leader", "minMember": 1, "parent": "replica"},
                {"name": "Worker", "minMember": 0, "parent": "replica"},
                {"name": "other", **within(RACK, preferredTopologyLevel=RACK)},
            ],
            **within(ZONE),
        ),
    )
    assert [(g.name, g.min_replicas, members(g)) for g in sent.groups] == [
        ("leader", 1, ["l"]),
        ("Worker", 0, ["w"]),
        ("other", 1, ["x"]),
    ]
    scope = v1.PackingScope
    assert list(sent.packing_scopes) == [
        scope(name="g", required_level=ZONE),
        scope(name="Replica", groups=["leader", "Worker"], required_level=RACK),
        scope(name="other", groups=["other"], required_level=RACK, preferred_level=RACK),
    ]


def test_a_rack_of_one_zone_is_not_the_rack_of_another() -> None:
    nodes = [node(f"n{z}", labels={ZONE: z, RACK: "r1"}) for z in "ab"]
    lost = node("lost", labels={RACK: "r1"})
    sent = request(*nodes, lost, topology(ZONE, RACK), kai_pod_group(**within(RACK)))
    level = sent.gangs[0].packing_scopes[0].required_level
    assert level == f"t.path.{RACK}"
    assert [n.labels.get(level) for n in sent.snapshot.nodes] == ["a.r1", "b.r1", None]


def test_a_node_that_lacks_a_narrower_level_is_outside() -> None:
    nodes = [node("in", labels={ZONE: "z", RACK: "r"}), node("out", labels={ZONE: "z"})]
    sent = request(*nodes, topology(ZONE, RACK), kai_pod_group(**within(ZONE)))
    level = sent.gangs[0].packing_scopes[0].required_level
    assert [n.labels.get(level) for n in sent.snapshot.nodes] == ["z", None]


@pytest.mark.parametrize(
    ("constraint", "want"),
    [
        ({"requiredTopologyLevel": RACK}, "spec.topologyConstraint.topology: is missing"),
        (
            {"topology": "u", "requiredTopologyLevel": RACK},
            "spec.topologyConstraint.topology: Topology u is not in the input",
        ),
        (
            {"topology": "t", "preferredTopologyLevel": "row"},
            "spec.topologyConstraint.preferredTopologyLevel: Topology t has no level row",
        ),
    ],
)
def test_a_constraint_that_cannot_be_resolved_refuses_the_gang(constraint: Body, want: str) -> None:
    sent = only_gang(node(), topology(ZONE, RACK), kai_pod_group(topologyConstraint=constraint))
    assert list(sent.unsupported) == [want]


def test_k_of_n_sub_groups_are_refused_by_name() -> None:
    tree = [{"name": "up", "minSubGroup": 1}, *({"name": n, "parent": "up"} for n in "ab")]
    assert list(only_gang(kai_pod_group(minSubGroup=0, subGroups=tree)).unsupported) == [
        "spec.subGroups[0].minSubGroup: only 1 of 2 sub-groups must run",
        "spec.minSubGroup: only 0 of 1 sub-groups must run",
    ]


def test_a_minimum_of_all_sub_groups_is_what_is_kept_anyway() -> None:
    tree = [{"name": "up", "minSubGroup": 2}, *({"name": n, "parent": "up"} for n in "ab")]
    assert not only_gang(kai_pod_group(minSubGroup=1, subGroups=tree)).unsupported
    pod_group = kai_pod_group(minSubGroup=1, subGroups=tree)
    kind = next(k for k in KINDS if (k.group, k.name) == ("scheduling.run.ai", "PodGroup"))
    assert not unknown_fields(kind, pod_group)


@pytest.mark.parametrize(
    ("sub_groups", "field", "message"),
    [
        ([{"name": "a"}, {"name": "a"}], "spec.subGroups[1].name", "a is there more than once"),
        ([{"name": "a", "parent": "b"}], "spec.subGroups[0].parent", "there is no sub-group b"),
        ([{"name": "a", "parent": "a"}], "spec.subGroups[0].parent", "a is above itself"),
        (
            [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}],
            "spec.subGroups[0].parent",
            "a is above itself",
        ),
    ],
)
def test_sub_groups_that_make_no_tree_are_problems(
    sub_groups: list[Body], field: str, message: str
) -> None:
    assert problems(kai_pod_group(subGroups=sub_groups)) == [("PodGroup ml/g", field, message)]


def test_both_of_two_sub_groups_of_one_name_are_looked_at() -> None:
    found = problems(kai_pod_group(subGroups=[{"name": "a", "parent": "b"}, {"name": "a"}]))
    assert [field for _, field, _ in found] == [
        "spec.subGroups[1].name",
        "spec.subGroups[0].parent",
    ]


def test_every_problem_of_what_kai_reads_is_named() -> None:
    bad = bind_request("a", "Not a node")
    bad["spec"].pop("podName")
    found = problems(
        node(),
        bad,
        topology(name="empty"),
        topology(RACK, RACK, name="twice"),
        kai_pod_group(preemptibility="no", subGroups=[{"name": "a/b"}]),
    )
    assert found == [
        ("BindRequest ml/bind-a", "spec.podName", "is missing"),
        (
            "BindRequest ml/bind-a",
            "spec.selectedNode",
            "'Not a node' is not a Kubernetes name (lower-case letters, digits, '-' and '.')",
        ),
        ("Topology empty", "spec.levels", "must hold at least one level"),
        ("Topology twice", "spec.levels", "a label is there more than once"),
        ("PodGroup ml/g", "spec.subGroups[0].name", "'a/b' cannot be a name"),
        ("PodGroup ml/g", "spec.preemptibility", "must be preemptible or non-preemptible, not no"),
    ]


def test_a_pod_of_no_sub_group_is_left_alone_with_a_warning() -> None:
    translation = translated(node(), kai_pod("a"), kai_pod_group(subGroups=[{"name": "w"}]))
    (only,) = translation.request.gangs
    assert members(only.groups[0]) == []
    assert any("has no sub-group default" in warning for warning in said(translation.warnings))


def bind_request(name: str, where: str, phase: str = "", *, failed: int = 0, **spec: int) -> Body:
    return thing(
        "BindRequest", "scheduling.run.ai/v1alpha2", f"bind-{name}", namespace="ml",
        spec={"podName": name, "selectedNode": where, **spec},
        status={"phase": phase, "failedAttempts": failed},
    )  # fmt: skip


def test_a_pod_that_is_about_to_be_bound_runs_there() -> None:
    sent = request(
        node("n1"), kai_pod("a"), kai_pod("b"), kai_pod_group(minMember=2),
        bind_request("a", "n1"), bind_request("b", "n1", "Failed"),
    )  # fmt: skip
    (pod_set,) = sent.gangs[0].groups[0].pod_sets
    assert [(p.name, p.node) for p in pod_set.bound_pods] == [("namespaces/ml/pods/a", "nodes/n1")]
    assert [p.name for p in pod_set.pods] == ["namespaces/ml/pods/b"]
    assert sent.snapshot.nodes[0].requested.extended == {"nvidia.com/gpu": 1}


def test_a_binding_that_will_be_tried_again_has_not_failed() -> None:
    sent = request(
        node("n1"), kai_pod("a"), kai_pod("b"), kai_pod_group(minMember=2),
        bind_request("a", "n1", "Failed", failed=1, backoffLimit=2),
        bind_request("b", "n1", "Failed", failed=2, backoffLimit=2),
    )  # fmt: skip
    (pod_set,) = sent.gangs[0].groups[0].pod_sets
    assert [p.name for p in pod_set.bound_pods] == ["namespaces/ml/pods/a"]


@pytest.mark.parametrize(
    ("preemptibility", "priority", "fixed"),
    [
        (None, 99, False),
        (None, 100, True),
        ("preemptible", 100, False),
        ("non-preemptible", 1, True),
        ("semi-preemptible", 1, True),
    ],
)
def test_from_a_priority_of_100_on_silence_means_not_preemptible(
    preemptibility: str | None, priority: int, fixed: bool
) -> None:
    sent = only_gang(
        priority_class("p", priority),
        kai_pod_group(priorityClassName="p", preemptibility=preemptibility),
    )
    assert (sent.priority, sent.not_preemptible) == (priority, fixed)


def test_what_grove_made_on_kai_is_one_gang_with_the_queue_of_the_pod_group() -> None:
    queue = thing("Queue", "scheduling.run.ai/v2", "team", spec={})
    sent = only_gang(
        node(), queue, kai_pod("a", "pg"), gang("s-0", podgroups=[group("w", "a")]),
        kai_pod_group("pg", queue="team", preemptibility="non-preemptible"),
    )  # fmt: skip
    assert (sent.name, sent.queue, sent.not_preemptible) == (
        "namespaces/ml/podgangs/s-0", "queues/team", True,
    )  # fmt: skip


def test_a_pod_group_without_pods_is_of_the_pod_gang_of_its_name() -> None:
    queue = thing("Queue", "scheduling.run.ai/v2", "team", spec={})
    sent = only_gang(
        node(), queue, pod("a"), gang("g", podgroups=[group("w", "a")]),
        kai_pod_group("g", queue="team"),
    )  # fmt: skip
    assert sent.queue == "queues/team"


def test_a_pod_of_a_pod_gang_is_in_no_other_gang_and_that_is_told() -> None:
    translation = translated(
        node(), kai_pod("a", "k"), kai_pod("b", "k"), gang("g", podgroups=[group("w", "a")]),
        kai_pod_group("k"),
    )  # fmt: skip
    assert [members(g.groups[0]) for g in translation.request.gangs] == [["a"], ["b"]]
    assert said(translation.warnings) == (
        "PodGroup ml/k: pod ml/a is in PodGang ml/g, too: it counts there alone",
    )


def test_minimums_above_sub_groups_that_ask_for_more_are_told() -> None:
    leaves = [{"name": n, "parent": "x", "minMember": 1} for n in "yz"]
    top = {"name": "x", "minMember": 3}
    translation = translated(node(), kai_pod_group("g", minMember=4, subGroups=[top, *leaves]))
    assert said(translation.warnings) == tuple(
        f"PodGroup ml/g: {field}: {asked} are more than its sub-groups ask for (2), which count"
        for field, asked in (("spec.subGroups[0].minMember", 3), ("spec.minMember", 4))
    )


def test_bind_requests_of_no_pod_and_of_several_for_one_are_told() -> None:
    translation = translated(
        node("n1"), node("n2"), kai_pod("a", "g"), kai_pod_group(),
        bind_request("a", "n1"), bind_request("b", "n1"),
        {**bind_request("a", "n2"), "metadata": {"name": "again", "namespace": "ml"}},
    )  # fmt: skip
    (sent,) = translation.request.gangs
    assert sent.groups[0].pod_sets[0].bound_pods[0].node == "nodes/n2"
    assert said(translation.warnings) == (
        "BindRequest ml/bind-b: spec.podName: Pod ml/b is not in the input",
        "BindRequest ml/again: spec.podName: another BindRequest has node n1 for it:"
        " this one counts",
    )


def test_two_gangs_of_one_name_are_a_problem() -> None:
    found = problems(gang("g", podgroups=[group("w", least=0)]), kai_pod_group("g"))
    assert found == [("PodGroup ml/g", "", "is also the name of PodGang ml/g")]


def test_a_pod_of_another_namespace_is_of_another_gang() -> None:
    stranger = pod("x", metadata={"namespace": "b", "annotations": {"pod-group-name": "g"}})
    assert members(only_gang(node(), stranger, kai_pod_group()).groups[0]) == []
