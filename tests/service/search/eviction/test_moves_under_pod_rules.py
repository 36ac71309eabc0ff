"""Running gangs move under rules that bind pods only where they come: affinity and spread."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.request import (
    HOSTNAME,
    PackingScope,
    PodAffinityTerm,
    PodGang,
    RunningPod,
    Snapshot,
    SpreadConstraint,
)
from placement_service.entities.selectors import LabelSelector
from placement_service.formulation.eviction import ruled_pods
from tests.service.evictions import REPACK, opened, running, urgent
from tests.service.questions import node
from tests.service.search.answering import answer

APP = LabelSelector((("app", "x"),))
NEAR = {"required_affinity": (PodAffinityTerm(APP, "rack", ("ml",)),)}
SPREAD = {"spread_constraints": (SpreadConstraint(1, HOSTNAME, APP, "ml"),)}


def ruled(one: PodGang, **fields: object) -> PodGang:
    """The gang, with more in the template of all its pods."""
    [group] = one.groups
    sets = tuple(
        replace(s, template=replace(s.template, **fields))  # type: ignore[arg-type]
        for s in group.pod_sets
    )
    return replace(one, groups=(replace(group, pod_sets=sets),))


def listed(*gangs: PodGang) -> tuple[RunningPod, ...]:
    return tuple(
        RunningPod(pod.name, pod.node, s.template.labels)
        for one in gangs
        for group in one.groups
        for s in group.pod_sets
        for pod in s.bound_pods
    )


def anchor(on: str) -> RunningPod:
    """A pod that others look for; it is of no gang."""
    return RunningPod("namespaces/ml/pods/anchor", f"nodes/{on}", {"app": "x"})


def racks(*used: int) -> Snapshot:
    """Nodes of eight GPUs, each a rack."""
    return Snapshot(tuple(node(f"n{i}", used=n, rack=f"r{i}") for i, n in enumerate(used)), ())


@pytest.mark.parametrize(("free", "moves"), [("n1", True), ("n2", False)])
def test_a_gang_moves_to_those_that_it_requires(free: str, moves: bool) -> None:
    """One node has room for its pod, and the pod that this requires runs on n1."""
    old = ruled(running("old", "n0"), **NEAR)
    question = racks(4, 4 if free == "n1" else 8, 4 if free == "n2" else 8)
    question = replace(question, gangs=(old, urgent()), running_pods=(*listed(old), anchor("n1")))
    result = answer(question, REPACK)
    assert [(e.pod.rpartition("/")[2], e.to_node) for e in result.evictions] == (
        [("old-0", "nodes/n1")] if moves else []
    )
    assert len(result.bindings) == moves
    assert result.solution.proven


def test_a_pod_that_stays_need_not_keep_its_affinity() -> None:
    """Nobody whom it requires is in its rack any more; its extra goes to where one is."""
    old = ruled(running("old", "n0", "n1", minimum=1), **NEAR)
    question = racks(4, 4, 4)
    question = replace(question, gangs=(old, urgent()), running_pods=(*listed(old), anchor("n2")))
    result = answer(question, REPACK)
    assert [e.to_node for e in result.evictions] == ["nodes/n2"]
    assert len(result.bindings) == 1
    assert result.solution.proven


def test_pods_of_a_gang_that_moves_whole_come_to_each_other() -> None:
    """They require pods like themselves, and find no others; one of them need not have moved."""
    old = ruled(running("old", "n0", "n1", gpus=2), labels={"app": "x"}, **NEAR)
    question = racks(2, 2, 4)
    question = replace(question, gangs=(old, urgent()), running_pods=listed(old))
    result = answer(question, REPACK)
    assert result.evicted() == ["old", "old"]
    assert len({e.to_node for e in result.evictions}) == 1
    assert result.solution.proven


@pytest.mark.parametrize(("skew", "moved"), [(1, 0), (2, 1)])
def test_a_gang_moves_only_as_far_as_its_pods_stay_spread(skew: int, moved: int) -> None:
    """The room is where another of its pods is, and a node without any counts."""
    constraint = replace(SPREAD["spread_constraints"][0], max_skew=skew)
    old = ruled(
        running("old", "n0", "n1", minimum=1), labels={"app": "x"}, spread_constraints=(constraint,)
    )
    question = racks(4, 4)
    question = replace(question, gangs=(old, urgent()), running_pods=listed(old))
    result = answer(question, REPACK)
    assert len(result.evictions) == len(result.bindings) == moved
    assert result.solution.proven


@pytest.mark.parametrize(("room", "moved"), [(4, ["old", "old"]), (6, [])])
def test_a_gang_that_breaks_its_required_rack_moves_whole_into_one(
    room: int, moved: list[str]
) -> None:
    """It runs in two racks; both of its pods fit into the third, or only one of them."""
    old = replace(
        running("old", "n0", "n1", gpus=2),
        packing_scopes=(PackingScope("all", ("worker",), "rack"),),
    )
    fixed = replace(running("fixed", "n1", gpus=6), not_preemptible=True)
    question = racks(2, 8, room)
    question = replace(question, gangs=(old, fixed, urgent()), running_pods=listed(old, fixed))
    result = answer(question, REPACK)
    assert result.evicted() == moved
    assert len({e.to_node for e in result.evictions}) == bool(moved)
    assert len(result.bindings) == bool(moved)
    assert result.solution.proven


def test_gangs_with_such_rules_stay_where_they_run_in_many_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = ruled(running("old", "n0", "n1"), **NEAR)
    question = replace(racks(4, 4, 4), gangs=(old, urgent()), running_pods=listed(old))
    assert opened(question, REPACK) == [0]
    monkeypatch.setattr(ruled_pods, "MOST_HOMES", 1)
    assert not opened(question, REPACK)
