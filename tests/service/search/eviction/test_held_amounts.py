"""Running pods that hold something else of their node than they ask for.

A pod that asks for any network device may hold a fast one: while it runs others have none, and
where it comes again it takes any.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import PODS, Policy, Snapshot
from placement_service.entities.solution import TierName
from placement_service.formulation import held_columns
from placement_service.formulation.prepare import prepare
from placement_service.formulation.sharing_columns import as_held
from tests.service.evictions import PREEMPT, RECLAIM, REPACK
from tests.service.nics import A_FAST_ONE, ANY, FAST, NIC, node, runs, waits
from tests.service.search.answering import Answer, answer


def nodes_of(found: Answer) -> list[str]:
    return [e.to_node for e in found.evictions]


def test_a_pod_that_moves_asks_again_for_what_its_template_says() -> None:
    """It holds a fast device, and only slow ones are free."""
    question = Snapshot(
        (node("a", A_FAST_ONE, fast=1), node("b", slow=1)),
        (runs("old", ("a", A_FAST_ONE)), waits("new")),
    )
    found = answer(question, REPACK)
    assert nodes_of(found) == ["nodes/b"]
    assert [b.node for b in found.bindings] == ["nodes/a"]
    assert found.solution.proven


def test_one_move_is_found_where_several_would_do() -> None:
    """Two fast devices of one node are wanted: one pod there is content with the slow one beside
    those of others, all of which would have to go if they asked for fast ones.
    """
    question = Snapshot(
        (
            node("a", A_FAST_ONE, fast=2),
            node("b", A_FAST_ONE, A_FAST_ONE, A_FAST_ONE, fast=3, slow=1),
        ),
        (
            runs("one", ("a", A_FAST_ONE)),
            runs("three", *[("b", A_FAST_ONE)] * 3),
            waits("new", 1, {NIC: 2, FAST: 2, PODS: 1}),
        ),
    )
    found = answer(question, REPACK)
    assert found.evicted() == ["one"]
    assert nodes_of(found) == ["nodes/b"]
    assert found.tier(TierName.DISRUPTION) == 1
    assert found.solution.proven


def test_what_a_pod_holds_is_taken_while_it_stays() -> None:
    """The pod that asks for any device has the only fast one, and nothing else is free."""
    question = Snapshot(
        (node("a", A_FAST_ONE, fast=1, slow=1),),
        (replace(runs("old", ("a", A_FAST_ONE)), not_preemptible=True), waits("new")),
    )
    for policy in (Policy(), PREEMPT, REPACK):
        assert not answer(question, policy).bindings


def test_a_pod_that_is_evicted_leaves_what_it_held() -> None:
    question = Snapshot(
        (node("a", A_FAST_ONE, fast=1),), (runs("old", ("a", A_FAST_ONE)), waits("new"))
    )
    found = answer(question, PREEMPT)
    assert found.evicted() == ["old"]
    assert found.solution.proven


def test_of_two_pods_the_one_with_the_better_device_goes() -> None:
    elastic = runs("old", ("a", None), ("a", A_FAST_ONE), minimum=1)
    question = Snapshot((node("a", ANY, A_FAST_ONE, fast=1, slow=1),), (elastic, waits("new")))
    found = answer(question, PREEMPT)
    assert [e.pod for e in found.evictions] == ["namespaces/ml/pods/old-1"]
    assert found.solution.proven


def test_what_is_held_beyond_requests_is_no_use_of_a_queue() -> None:
    """Both kinds of devices count as GPUs: a pod that has one of both kinds asks for one."""
    policy = replace(RECLAIM, gpu_resources=(NIC, FAST))
    theirs, mine = Queue("queues/b", guaranteed={GPUS: 1}), Queue("queues/a", guaranteed={GPUS: 2})
    old = replace(runs("old", ("a", A_FAST_ONE)), queue="queues/b")
    new = replace(waits("new"), queue="queues/a", priority=0)
    question = Snapshot((node("a", A_FAST_ONE, fast=1),), (old, new), queues=(mine, theirs))
    # Its queue is not above what is guaranteed to it.
    assert not answer(question, policy).evictions
    poor = (mine, replace(theirs, guaranteed={GPUS: 0}))
    assert answer(replace(question, queues=poor), policy).evicted() == ["old"]


def test_a_gang_that_asks_for_what_is_not_supported_is_not_moved_but_evicted() -> None:
    old = runs("old", ("a", A_FAST_ONE), unsupported=("spec.x",))
    question = Snapshot((node("a", A_FAST_ONE, fast=1), node("b", slow=1)), (old, waits("new")))
    found = answer(question, REPACK)
    assert not found.evictions
    assert found.solution.proven
    assert answer(question, PREEMPT).evicted() == ["old"]


def test_a_gang_whose_waiting_pods_ask_for_what_is_not_supported_is_refused() -> None:
    new = waits("new")
    [pod_set] = new.groups[0].pod_sets
    asks = replace(pod_set.template, unsupported=("spec.x",))
    refused = replace(
        new, groups=(replace(new.groups[0], pod_sets=(replace(pod_set, template=asks),)),)
    )
    question = Snapshot((node("a", fast=1),), (new,))
    assert answer(question, Policy()).bindings
    assert not answer(replace(question, gangs=(refused,)), Policy()).bindings


def test_nodes_of_like_devices_need_no_columns_of_their_own() -> None:
    """Where all devices are fast, a pod that asks for any of them takes a fast one anyway."""
    alike = node("a", A_FAST_ONE, fast=2)
    mixed = node("a", A_FAST_ONE, fast=1, slow=1)
    gangs = (runs("old", ("a", A_FAST_ONE)), waits("new"))
    for there, count in ((alike, 0), (mixed, 1)):
        prepared = prepare(Snapshot((there, node("b", slow=1)), gangs), REPACK)
        columns = prepared.snapshot.nodes[0].allocatable
        assert sum(as_held(FAST, "nodes/a") == c for c in columns) == count
        assert (prepared.relaxed is None) == (count == 0)


def test_beyond_some_columns_gangs_stay_and_no_proof_is_claimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = [runs(name, (name, A_FAST_ONE)) for name in "ab"]
    there = [node(name, A_FAST_ONE, fast=1, slow=1) for name in "ab"]
    question = Snapshot((*there, node("free", slow=2)), (*old, waits("new", 2)))
    assert answer(question, REPACK).evicted() == ["a", "b"]
    monkeypatch.setattr(held_columns, "MOST_OWN", 1)
    found = answer(question, REPACK)
    assert not found.bindings
    assert not found.solution.proven


def test_a_node_whose_pod_has_a_gpu_that_it_does_not_ask_for_is_in_use() -> None:
    """The gang may go, and stays: its node was not free, so nothing is broken into there."""
    policy = replace(PREEMPT, gpu_resources=(FAST,))
    there = (node("a", A_FAST_ONE, fast=2, slow=1), node("b", fast=2))
    question = Snapshot(there, (runs("old", ("a", A_FAST_ONE)), waits("new")))
    found = answer(question, policy)
    assert [b.node for b in found.bindings] == ["nodes/a"]
    assert not found.evictions
    assert found.tier(TierName.FRAGMENTATION) == 0
