"""Running gangs that may be moved: whole or only their extras, and with as few pods as possible."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.eviction import EvictionKind
from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import (
    Effect,
    ExtrasPolicy,
    Node,
    PodGang,
    PodGroup,
    Snapshot,
    Taint,
    Toleration,
)
from placement_service.formulation.eviction import ruled_pods
from tests.service.evictions import (
    PREEMPT,
    REPACK,
    cluster,
    running,
    urgent,
)
from tests.service.questions import gang, node
from tests.service.search.answering import answer


def halves(*gangs: PodGang) -> Snapshot:
    nodes = (node("n0", used=4), node("n1", used=4))
    return Snapshot(nodes, (*gangs, urgent(priority=0)))


def test_one_move_joins_two_halves() -> None:
    result = answer(halves(running("a", "n0"), running("b", "n1")), REPACK)
    assert [e.kind for e in result.evictions] == [EvictionKind.MOVE]
    assert result.evictions[0].to_node != result.evictions[0].node
    assert len(result.bindings) == 1
    assert result.solution.proven


def test_pods_of_a_gang_on_alike_nodes_are_not_at_home_where_they_join_on_one_of_these() -> None:
    """One of the two would do, but its gang moves whole."""
    nodes = (node("n0", used=4), node("n1", used=4))
    result = answer(Snapshot(nodes, (running("a", "n0", "n1"), urgent(gpus=8))), REPACK)
    assert result.evicted() == ["a", "a"]
    assert result.solution.proven


def young(gang: PodGang) -> PodGang:
    return replace(gang, start=1000, minimum_run_time=600)


def test_a_gang_that_has_not_run_long_enough_is_not_moved_whole() -> None:
    """The two pods of the other are moved, though one pod of the young gang would do."""
    question = halves(young(running("a", "n0")), running("b", "n1", "n1", gpus=2))
    result = answer(replace(question, as_of=1500), REPACK)
    assert result.evicted() == ["b", "b"]
    assert result.solution.proven
    assert answer(replace(question, as_of=1600), REPACK).evicted() == ["a"]


def test_extras_of_a_gang_that_has_not_run_long_enough_are_moved() -> None:
    nodes = (node("n0", used=8), node("n1", used=4))
    elastic = young(running("a", "n0", "n0", "n1", minimum=2))
    question = replace(Snapshot(nodes, (elastic, urgent(gpus=4))), as_of=1500)
    assert not answer(question, REPACK).evictions
    whole = replace(question, nodes=(*nodes, node("n2", used=4)), gangs=(elastic, urgent()))
    result = answer(whole, REPACK)
    assert result.evicted() == ["a"]
    assert result.solution.proven
    assert not answer(
        replace(whole, gangs=(young(running("a", "n0", "n0", "n1")), urgent())), REPACK
    ).evictions


def test_what_is_fixed_stays() -> None:
    fixed = replace(running("a", "n0"), not_preemptible=True)
    result = answer(halves(fixed, running("b", "n1")), REPACK)
    assert result.evicted() == ["b"]
    assert result.solution.proven


def test_a_gang_whose_minimum_moves_moves_whole() -> None:
    """One of two pods would be enough, but the gang needs both to run."""
    nodes = (node("n0", used=4), node("n1", used=4), node("n2", used=0))
    pair = running("pair", "n0", "n1")
    waiting = replace(gang("wide", pods=2, gpus=8), priority=0)
    result = answer(Snapshot(nodes, (pair, waiting)), REPACK)
    assert result.evicted() == ["pair", "pair"]
    assert len(result.bindings) == 2


def test_a_pod_that_waits_does_not_stand_in_for_one_that_would_have_to_move() -> None:
    """The running pod fits nowhere else, the waiting one of its gang beside the other gang."""
    old = running("old", "n0", gpus=8)
    waits = PodGroup("more", 0, gang("more", pods=1, gpus=4).groups[0].pod_sets)
    question = cluster(replace(old, groups=(*old.groups, waits)), urgent(gpus=4))
    result = answer(question, REPACK)
    assert not result.evictions
    assert not result.bindings


REFUSING = {
    "a label that is gone": replace(node("n0", used=4), labels={"model": "old"}),
    "a taint": replace(node("n0", used=4), taints=(Taint("gpu", "", Effect.NO_SCHEDULE),)),
}


def _picky(old: PodGang) -> PodGang:
    [group] = old.groups
    [pods] = group.pod_sets
    template = replace(pods.template, node_selector=(("model", "new"),))
    return replace(old, groups=(replace(group, pod_sets=(replace(pods, template=template),)),))


def _tolerant(gang: PodGang) -> PodGang:
    [group] = gang.groups
    [pods] = group.pod_sets
    template = replace(pods.template, tolerations=(Toleration("", True, "", None),))
    return replace(gang, groups=(replace(group, pod_sets=(replace(pods, template=template),)),))


@pytest.mark.parametrize("there", REFUSING.values(), ids=REFUSING)
def test_a_gang_moves_from_a_node_that_would_not_take_it_again(there: Node) -> None:
    """Its node has lost the label that it selects, or has a taint since; it finds another one."""
    old = _picky(running("old", "n0", gpus=4))
    question = Snapshot((there, node("n1", gpus=4, model="new")), (old, _tolerant(urgent())))
    result = answer(question, REPACK)
    assert [
        (e.to_node, b.node) for e, b in zip(result.evictions, result.bindings, strict=True)
    ] == [("nodes/n1", "nodes/n0")]
    assert result.solution.proven


def test_pods_in_many_places_that_their_nodes_would_not_take_again_may_be_evicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are too many to be moved, but they only have to go."""
    monkeypatch.setattr(ruled_pods, "MOST_HOMES", 0)
    question = Snapshot((REFUSING["a taint"],), (running("old", "n0", gpus=4), _tolerant(urgent())))
    assert answer(question, PREEMPT).evicted() == ["old"]
    assert not answer(question, REPACK).evictions


def test_a_gang_does_not_come_again_to_a_node_that_would_not_take_it() -> None:
    """Both of its pods move, or none; the node with room takes one."""
    old = _picky(running("old", "n0", "n1", gpus=4))
    nodes = (node("n0", used=4), node("n1", used=4, model="new"), node("n2", gpus=4, model="new"))
    result = answer(Snapshot(nodes, (old, _picky(urgent()))), REPACK)
    assert not result.evictions
    assert result.solution.proven


def test_a_gang_with_a_pod_on_a_closed_node_moves_whole() -> None:
    """One of its pods is in the way, the other one runs on a node that takes no new pods."""
    closed = replace(node("n1", used=4), unschedulable=True)
    nodes = (node("n0", used=4), closed, node("n2", gpus=4), node("n3", gpus=4))
    result = answer(Snapshot(nodes, (running("old", "n0", "n1"), urgent())), REPACK)
    assert {e.to_node for e in result.evictions} == {"nodes/n2", "nodes/n3"}
    assert len(result.bindings) == 1
    assert result.solution.proven


def _with_extras(old: PodGang, pods: int) -> PodGang:
    """The gang with a further group of which no pod has to run."""
    more = PodGroup("more", 0, gang("more", pods=pods, gpus=8).groups[0].pod_sets)
    return replace(old, groups=(*old.groups, more))


def test_extras_of_a_gang_that_may_be_moved_come_after_higher_priorities() -> None:
    """There is room for one pod, of a gang that waits or of one that could be moved."""
    question = cluster(_with_extras(running("old", "n0", gpus=8), 1), urgent(), nodes=1)
    question = replace(question, nodes=(*question.nodes, node("n1")))
    result = answer(question, replace(REPACK, extras=ExtrasPolicy.WITH_PRIORITY))
    assert [b.pod.rpartition("/")[2] for b in result.bindings] == ["urgent-0"]


def test_extras_of_a_gang_whose_minimum_must_run_come_after_higher_priorities() -> None:
    young = replace(running("young", "n0", gpus=8), start=1000, minimum_run_time=600)
    question = cluster(_with_extras(young, 1), urgent(), nodes=1)
    question = replace(question, nodes=(*question.nodes, node("n1")), as_of=1100)
    result = answer(question, replace(PREEMPT, extras=ExtrasPolicy.WITH_PRIORITY))
    assert [b.pod.rpartition("/")[2] for b in result.bindings] == ["urgent-0"]


@pytest.mark.parametrize("parent", [False, True], ids=["its own limit", "the limit above"])
def test_gangs_are_not_moved_where_more_runs_than_the_limit_of_their_queue(parent: bool) -> None:
    """For a limit a pod that moves is one that comes."""
    limit = {GPUS: 3}
    top = Queue("queues/top", limit=limit if parent else {})
    own = Queue("queues/own", parent="queues/top", limit={} if parent else limit)
    mine = [replace(running(name, f"n{i}"), queue=own.name) for i, name in enumerate("ab")]
    other = running("b", "n1")
    one = answer(replace(halves(mine[0], other), queues=(top, own)), REPACK)
    assert (one.evicted(), one.solution.proven) == (["b"], True)
    both = answer(replace(halves(*mine), queues=(top, own)), REPACK)
    assert (both.evicted(), both.bindings, both.solution.proven) == ([], (), True)
    whole = replace(own, limit={GPUS: 8}), replace(top, limit={})
    assert len(answer(replace(halves(*mine), queues=whole), REPACK).evictions) == 1
