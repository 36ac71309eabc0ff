"""Which pods share a template, which labels are sent, and which running pods."""

from __future__ import annotations

from typing import Any

import pytest

from placement import v1
from tests.kubernetes.build import Body, container, gang, group, node, only_gang, pod, request

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def away_from(key: str, value: str, **more: Any) -> Body:
    """An affinity that keeps pods with a label off the same host."""
    term = {"labelSelector": {"matchLabels": {key: value}}, "topologyKey": "host", **more}
    return {"podAntiAffinity": {REQUIRED: [term]}}


def sets(*pods: Body) -> list[tuple[list[str], dict[str, str]]]:
    """Pod names and template labels of every pod set of a gang of these pods."""
    names = [p["metadata"]["name"] for p in pods]
    (only,) = only_gang(node(), *pods, gang(podgroups=[group("w", *names)])).groups
    return [
        ([p.name.rsplit("/")[-1] for p in s.pods], dict(s.template.labels)) for s in only.pod_sets
    ]


def test_labels_that_no_rule_looks_at_do_not_split_a_set() -> None:
    assert sets(pod("a", labels={"index": "0"}), pod("b", labels={"index": "1"})) == [
        (["a", "b"], {})
    ]


def test_labels_that_some_rule_looks_at_split_a_set() -> None:
    affinity = away_from("index", "0")
    assert sets(
        pod("a", labels={"index": "0", "x": "y"}, affinity=affinity),
        pod("b", labels={"index": "1"}, affinity=affinity),
        pod("c", labels={"index": "0"}, affinity=affinity),
    ) == [(["a", "c"], {"index": "0"}), (["b"], {"index": "1"})]


def test_labels_that_only_a_running_pod_looks_at_are_sent_too() -> None:
    sent = request(
        node("n1"),
        pod("r", nodeName="n1", affinity=away_from("team", "blue")),
        pod("a", labels={"team": "blue", "index": "0"}),
        gang(podgroups=[group("w", "a")]),
    )
    assert dict(sent.gangs[0].groups[0].pod_sets[0].template.labels) == {"team": "blue"}


def test_pods_that_ask_for_different_things_are_different_sets() -> None:
    assert sets(pod("a"), pod("b", containers=[container(gpu="2")]), pod("c")) == [
        (["a", "c"], {}),
        (["b"], {}),
    ]


def test_specs_that_differ_only_in_what_is_ignored_share_a_set() -> None:
    soft = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}
    assert sets(pod("a"), pod("b", affinity=soft)) == [(["a", "b"], {})]


def running(*bodies: Body) -> dict[str, v1.RunningPod]:
    return {p.name.rsplit("/")[-1]: p for p in request(*bodies).snapshot.pods}


def test_running_pods_are_not_sent_when_no_rule_concerns_them() -> None:
    assert not running(
        node("n1"),
        pod("r", labels={"app": "x"}, nodeName="n1", affinity=away_from("app", "x")),
        pod("a"),
        gang(podgroups=[group("w", "a")]),
    )


def test_running_pods_that_a_waiting_pod_sees_are_sent() -> None:
    other = pod("other", labels={"app": "x"}, nodeName="n1", metadata={"namespace": "else"})
    other["metadata"]["namespace"] = "else"
    waiting = pod("a", affinity=away_from("app", "x"))
    assert running(
        node("n1"),
        pod("r", labels={"app": "x", "index": "7"}, nodeName="n1"),
        pod("unseen", labels={"app": "y"}, nodeName="n1"),
        other,
        waiting,
        gang(podgroups=[group("w", "a")]),
    ) == {
        "r": v1.RunningPod(name="namespaces/ml/pods/r", node="nodes/n1", labels={"app": "x"}),
    }


def test_namespaces_of_a_term_widen_what_it_sees() -> None:
    other = pod("other", labels={"app": "x"}, nodeName="n1", metadata={"namespace": "else"})
    listed = pod("a", affinity=away_from("app", "x", namespaces=["else"]))
    everywhere = pod("a", affinity=away_from("app", "x", namespaceSelector={}))
    for waiting in (listed, everywhere):
        assert set(running(node("n1"), other, waiting, gang(podgroups=[group("w", "a")]))) == {
            "other"
        }


def test_running_pods_that_a_spread_constraint_counts_are_sent() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
    }
    found = running(
        node("n1"),
        pod("r", labels={"app": "x"}, nodeName="n1"),
        pod("unlabelled", nodeName="n1"),
        pod("a", topologySpreadConstraints=[constraint]),
        gang(podgroups=[group("w", "a")]),
    )
    assert set(found) == {"r"}


def test_running_pods_whose_own_rule_sees_a_waiting_pod_are_sent_with_that_rule() -> None:
    terms = [
        {"labelSelector": {"matchLabels": {"team": t}}, "topologyKey": "host"}
        for t in ("blue", "red")
    ]
    found = running(
        node("n1"),
        pod("r", nodeName="n1", affinity={"podAntiAffinity": {REQUIRED: terms}}),
        pod("a", labels={"team": "blue"}),
        gang(podgroups=[group("w", "a")]),
    )
    assert found == {
        "r": v1.RunningPod(
            name="namespaces/ml/pods/r",
            node="nodes/n1",
            required_anti_affinity=[
                v1.PodAffinityTerm(
                    selector=v1.LabelSelector(match_labels={"team": "blue"}), topology_key="host"
                )
            ],
        )
    }


def test_a_running_pod_is_sent_that_keeps_away_one_that_may_be_moved() -> None:
    """Where that one belongs to a gang. What a pod of a gang keeps away its template says, so it is
    not sent, but whom it keeps away is: it may be moved there.
    """
    found = running(
        node("n1"),
        pod("r", nodeName="n1", affinity=away_from("team", "blue")),
        pod("b", nodeName="n1", labels={"team": "blue"}),
        pod("c", nodeName="n1", labels={"team": "red"}, affinity=away_from("team", "blue")),
        pod("a"),
        gang(podgroups=[group("w", "a", "b", "c")]),
    )
    assert set(found) == {"r", "b"}
    assert found["r"].required_anti_affinity


@pytest.mark.parametrize("rule", ["affinity", "spread"])
def test_a_running_pod_is_sent_that_one_looks_for_which_may_be_moved(rule: str) -> None:
    """A pod of no gang is not moved, and so looks for nobody."""
    blue = {"labelSelector": {"matchLabels": {"team": "blue"}}, "topologyKey": "host"}
    near: Body = {"affinity": {"podAffinity": {REQUIRED: [blue]}}}
    if rule == "spread":
        one = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **blue}
        near = {"topologySpreadConstraints": [one]}
    question = (
        node("n1"),
        pod("b", nodeName="n1", labels={"team": "blue"}),
        pod("c", nodeName="n1", **near),
        pod("a"),
    )
    assert set(running(*question, gang(podgroups=[group("w", "a", "c")]))) == {"b"}
    assert not running(*question, gang(podgroups=[group("w", "a")]))


def test_a_running_pods_rule_over_some_namespaces_is_taken_to_cover_all() -> None:
    """Namespaces are not read. Too many pods are kept away, never too few."""
    affinity = away_from("team", "blue", namespaceSelector={"matchLabels": {"a": "b"}})
    (term,) = running(
        node("n1"),
        pod("r", nodeName="n1", affinity=affinity, metadata={"namespace": "else"}),
        pod("a", labels={"team": "blue"}),
        gang(podgroups=[group("w", "a")]),
    )["r"].required_anti_affinity
    assert term.all_namespaces


def test_gated_pods_see_nobody() -> None:
    """They cannot be bound, so their rules are not part of the question."""
    assert not running(
        node("n1"),
        pod("r", labels={"app": "x"}, nodeName="n1"),
        pod("a", affinity=away_from("app", "x"), schedulingGates=[{"name": "g"}]),
        gang(podgroups=[group("w", "a")]),
    )
