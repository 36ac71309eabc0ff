"""Rules by which pods share no node are dropped where there is no room for both anyway."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placement_service.entities.node import EPHEMERAL_STORAGE
from placement_service.entities.request import (
    HOSTNAME,
    PodAffinityTerm,
    PodGang,
    Policy,
    RunningPod,
    Snapshot,
)
from placement_service.entities.selectors import LabelSelector
from placement_service.formulation.formulate import formulate
from placement_service.formulation.implied_rules import without_implied_rules
from tests.service.evictions import REPACK, opened, running
from tests.service.questions import GPU, gang, node
from tests.service.search.answering import answer

NODES = tuple(node(f"n{i}", gpus=4) for i in range(4))


def asking(name: str, gpus: int, **fields: Any) -> PodGang:
    """A gang of two pods with these fields in their templates."""
    return with_fields(gang(name, pods=2, gpus=gpus), **fields)


def with_fields(one: PodGang, **fields: Any) -> PodGang:
    [group] = one.groups
    [pods] = group.pod_sets
    template = replace(pods.template, **fields)
    return replace(one, groups=(replace(group, pod_sets=(replace(pods, template=template),)),))


def away(app: str, key: str = HOSTNAME) -> dict[str, Any]:
    term = PodAffinityTerm(LabelSelector((("app", app),)), key, ("ml",))
    return {"labels": {"app": app}, "required_anti_affinity": (term,)}


def left(snapshot: Snapshot) -> list[str]:
    """For each gang the rule that is left of its pods."""
    result = []
    for one in without_implied_rules(snapshot).gangs:
        template = one.groups[0].pod_sets[0].template
        terms = [term.topology_key for term in template.required_anti_affinity]
        result.append(template.compute_domain or ",".join(terms))
    return result


# --- ComputeDomains ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "want"),
    [
        pytest.param((4, 4), ["", ""], id="whole nodes"),
        pytest.param((3, 2), ["", ""], id="more than a node has"),
        pytest.param((2, 2), ["a", "b"], id="room for both"),
        pytest.param((3, 1), ["a", "b"], id="room for unlike ones"),
    ],
)
def test_a_domain_counts_where_a_node_has_room_for_pods_of_two(
    gpus: tuple[int, int], want: list[str]
) -> None:
    gangs = [asking(d, n, compute_domain=d) for d, n in zip("ab", gpus, strict=True)]
    assert left(Snapshot(NODES, tuple(gangs))) == want


def test_only_the_domains_that_may_meet_count() -> None:
    asked = ((4, "a"), (2, "b"), (2, "c"), (3, "d"))
    gangs = tuple(asking(d, n, compute_domain=d) for n, d in asked)
    assert left(Snapshot(NODES, gangs)) == ["", "b", "c", ""]


def test_gangs_in_domains_that_do_not_count_are_of_one_kind() -> None:
    gangs = tuple(asking(f"g{i}", 4, compute_domain=f"d{i}") for i in range(5))
    problem = formulate(Snapshot(NODES, gangs), Policy())
    assert problem.class_count == 1
    assert not problem.special.any()


@pytest.mark.parametrize(
    ("used", "domain", "pods", "want"),
    [
        pytest.param(0, "other", 0, "a", id="nobody knows when it ends"),
        pytest.param(4, "other", 1, "", id="there is no room"),
        pytest.param(0, "a", 0, "", id="its own"),
    ],
)
def test_a_domain_counts_where_a_node_with_room_serves_another(
    used: int, domain: str, pods: int, want: str
) -> None:
    serving = node("n0", gpus=4, used=used)
    serving = replace(serving, compute_domain=domain, compute_domain_pods=pods)
    snapshot = Snapshot((serving, *NODES[1:]), (asking("a", 4, compute_domain="a"),))
    assert left(snapshot) == [want]


@pytest.mark.parametrize(("pods", "want"), [(1, ["", ""]), (2, ["a", ""])])
def test_a_node_stops_serving_a_domain_when_all_listed_pods_go(pods: int, want: list[str]) -> None:
    """With two pods said to be there one that is not listed may stay."""
    serving = node("n0", gpus=4, used=4)
    serving = replace(serving, compute_domain="old", compute_domain_pods=pods)
    old = with_fields(running("old", "n0"), compute_domain="old")
    snapshot = Snapshot((serving, *NODES[1:]), (asking("a", 4, compute_domain="a"), old))
    assert left(snapshot) == want
    result = without_implied_rules(snapshot).columns.parts[0]
    assert result.compute_domain == ("" if pods == 1 else "old")


def test_domains_count_where_a_node_serves_two() -> None:
    two = tuple(with_fields(running(d, "n0"), compute_domain=d) for d in "ab")
    assert left(Snapshot((node("n0", gpus=4, used=8),), two)) == ["a", "b"]


def test_pods_that_ask_for_more_than_is_in_use_leave_more_than_a_node_has() -> None:
    """When both go a pod of each finds room there."""
    old = tuple(running(f"old{i}", "n0") for i in range(2))
    new = tuple(asking(d, 4, compute_domain=d) for d in "ab")
    assert left(Snapshot((node("n0", gpus=4, used=4),), (*old, *new)))[2:] == ["a", "b"]


def test_a_node_that_says_nothing_of_ephemeral_storage_has_enough() -> None:
    requests = {GPU: 1, EPHEMERAL_STORAGE: 1 << 30}
    gangs = tuple(asking(d, 1, compute_domain=d, requests=requests) for d in "ab")
    assert left(Snapshot(NODES, gangs)) == ["a", "b"]


def test_a_gang_in_a_domain_is_moved_where_that_does_not_count() -> None:
    old = with_fields(running("old", "n0", gpus=4), compute_domain="old")
    mine = with_fields(gang("new", pods=1, gpus=8), compute_domain="new")
    serving = replace(node("n0", used=4), compute_domain="old", compute_domain_pods=1)
    snapshot = Snapshot((serving, node("n1", gpus=4)), (old, mine))
    result = answer(snapshot, REPACK)
    assert [(e.pod, e.to_node) for e in result.evictions] == [
        ("namespaces/ml/pods/old-0", "nodes/n1")
    ]
    assert result.solution.proven


# --- anti-affinity -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "key", "want"),
    [
        pytest.param(4, HOSTNAME, "", id="whole nodes"),
        pytest.param(2, HOSTNAME, HOSTNAME, id="room for two"),
        pytest.param(4, "rack", "rack", id="a larger domain"),
    ],
)
def test_pods_avoid_each_other_where_a_node_has_room_for_two(
    gpus: int, key: str, want: str
) -> None:
    assert left(Snapshot(NODES, (asking("a", gpus, **away("a", key)),))) == [want]


def test_pods_avoid_others_whose_requests_are_not_known() -> None:
    other = RunningPod("namespaces/ml/pods/x", "nodes/n0", {"app": "a"})
    mine = asking("a", 4, **away("a"))
    assert left(Snapshot(NODES, (mine,), (other,))) == [HOSTNAME]


def test_pods_avoid_smaller_ones_with_the_same_label() -> None:
    mine, small = asking("a", 3, **away("a")), asking("b", 1, labels={"app": "a"})
    assert left(Snapshot(NODES, (mine, small))) == [HOSTNAME, ""]


def test_pods_that_run_where_less_is_left_than_they_hold_keep_others_away() -> None:
    old = with_fields(running("old", "n0"), **away("a"))
    new = asking("a", 0, labels={"app": "a"})
    assert left(Snapshot((node("n0", gpus=3, used=4),), (old, new))) == [HOSTNAME, ""]


def test_running_pods_of_gangs_keep_nobody_away_who_has_no_room_beside_them() -> None:
    old = with_fields(running("old", "n0"), **away("a"))
    new = asking("a", 4, labels={"app": "a"})
    terms = away("a")["required_anti_affinity"]
    said = RunningPod("namespaces/ml/pods/old-0", "nodes/n0", {"app": "a"}, terms)
    of_others = replace(said, name="namespaces/ml/pods/other")
    snapshot = Snapshot((node("n0", gpus=4, used=4), *NODES[1:]), (old, new), (said, of_others))
    first, second = without_implied_rules(snapshot).running_pods
    assert first.required_anti_affinity == ()
    assert second.required_anti_affinity == terms


def test_without_such_rules_the_snapshot_stays_as_it_is() -> None:
    snapshot = Snapshot(NODES, (asking("a", 4), running("old", "n0")))
    assert without_implied_rules(snapshot) is snapshot
    assert opened(snapshot, REPACK) == [1]
