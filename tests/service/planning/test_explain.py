"""What a remedy may call proven, with a solver that never proves anything."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import pytest

from placement_service.entities.eviction import Eviction, EvictionKind
from placement_service.entities.planning import AddNodes, Reduce, Relax, Remedy, Uncordon
from placement_service.entities.request import Node, PackingScope, PodGang, Policy, Snapshot
from placement_service.entities.solution import Solution
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Problem
from placement_service.planning import add_nodes
from placement_service.planning import remedies as remedies_of_kinds
from placement_service.planning.explain import Beside, remedies
from placement_service.planning.remedy_case import Answer, Case, Fit
from placement_service.planning.trial_snapshot import Trial
from placement_service.search.engine import search
from tests.service.evictions import running
from tests.service.planning.idle import Idle
from tests.service.questions import gang, node

FULL = node("n1", used=8)


def found(
    asked: PodGang,
    *others: PodGang,
    seconds: float,
    on: tuple[Node, ...] = (FULL,),
    evictions: Sequence[Eviction] = (),
) -> tuple[Remedy, ...]:
    """What lets a gang in on some nodes, where nothing is placed."""
    snapshot = Snapshot(nodes=on, gangs=(*others, asked))
    return remedies(
        snapshot,
        Policy(),
        asked.name,
        Beside(evictions=evictions),
        solver=Idle(),
        deadline=time.monotonic() + seconds,
    )


SMALL, LARGE = gang("small", pods=1, gpus=4), gang("large", pods=1, gpus=8)


def test_without_others_counting_alone_is_a_proof() -> None:
    assert found(SMALL, seconds=0.0) == (AddNodes("nodes/n1", 1, proven=True),)


def test_who_may_get_the_room_first_leaves_a_remedy_unproven_when_time_is_over() -> None:
    assert found(SMALL, LARGE, seconds=0.0) == (AddNodes("nodes/n1", 1, proven=False),)


def test_a_lesser_remedy_that_a_better_plan_gives_to_others_is_no_proof_for_the_next() -> None:
    """With one more node the best plan that is known runs "large", which is not proven the best."""
    assert found(SMALL, LARGE, seconds=60.0) == (AddNodes("nodes/n1", 2, proven=False),)


def test_of_equals_the_plan_may_take_another_one() -> None:
    """With one more node the plan runs the other one, which comes first."""
    first, second = gang("a", pods=1, gpus=8), gang("b", pods=1, gpus=8)
    assert found(second, first, seconds=60.0) == (AddNodes("nodes/n1", 2, proven=False),)


def test_a_worse_plan_that_leaves_the_gang_out_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search that begins anew finds nothing in its time."""
    asked, other = gang("a", pods=2, gpus=8), gang("other", pods=5, gpus=8)

    def search(_: Idle, problem: Problem, start: Solution, **__: object) -> Solution:
        return start if next(calls) % 2 == 0 else to_solution(problem, {})

    calls = itertools.count()
    monkeypatch.setattr(Idle, "search", search)
    there = found(asked, other, seconds=60.0, on=(node("n1"),))
    assert Reduce("worker", 2, 1, proven=False) in there


def test_kinds_of_nodes_that_were_given_up_are_tried_while_there_is_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One more node of either kind would go to "large"."""

    def searched(_: Idle, problem: Problem, start: Solution, *, deadline: float) -> Solution:
        return search(problem, start, deadline=deadline, report=lambda _: None)

    monkeypatch.setattr(Idle, "search", searched)
    monkeypatch.setattr(add_nodes, "_MOST_RIVAL_KINDS", 1)
    monkeypatch.setattr(add_nodes, "_RIVAL_SHARE", 0.0)
    kinds = (FULL, node("n2", used=8, rack="r1"))
    there = found(SMALL, LARGE, seconds=60.0, on=kinds)
    assert there == (AddNodes("nodes/n1", 2, proven=True),)


def test_as_many_nodes_are_opened_as_others_leave_one_of() -> None:
    first, second = gang("a", pods=1, gpus=8), gang("b", pods=1, gpus=8)
    closed = [replace(node(f"n{i}"), unschedulable=True) for i in range(2, 5)]
    opened = found(second, first, seconds=60.0, on=(FULL, *closed))[0]
    assert opened == Uncordon(("nodes/n2", "nodes/n3"), False)


def test_nothing_helps_a_gang_that_waits_for_grove_or_has_no_pods() -> None:
    assert found(replace(SMALL, uninitialized=True), LARGE, seconds=60.0) == ()
    assert found(gang("none", pods=0, gpus=4, minimum=1), LARGE, seconds=60.0) == ()


def test_a_node_on_which_something_cannot_be_counted_cannot_be_opened() -> None:
    """Another one like it has nothing on it that cannot be counted."""
    cordoned = replace(node("n1"), unschedulable=True)
    assert Uncordon(("nodes/n1",), proven=True) in found(SMALL, seconds=60.0, on=(cordoned,))
    closed = replace(cordoned, closed_because="pod ml/x holds a claim")
    assert found(SMALL, seconds=60.0, on=(closed,)) == (AddNodes("nodes/n1", 1, proven=True),)


@pytest.mark.parametrize("three", [Fit.PERHAPS, Fit.UNKNOWN])
@pytest.mark.parametrize("pods", [1, 5])
def test_what_is_known_to_be_enough_is_better_than_less_that_perhaps_is(
    monkeypatch: pytest.MonkeyPatch, pods: int, three: Fit
) -> None:
    """Four nodes, or four pods of five, are known to be enough; three were not settled in time."""
    asked, other = gang("a", pods=pods, gpus=8), gang("other", pods=5, gpus=8)
    there = [node("n1"), *(replace(node(f"n{i}"), unschedulable=True) for i in range(2, 6))]

    def settled(
        self: Case,
        change: Callable[[Snapshot], Snapshot],
        plan: Plan | None = None,
        gone: Collection[str] = (),
    ) -> Fit:
        before, after = self.snapshot, change(self.snapshot)
        changed = max(
            int(after.columns.open.sum() - before.columns.open.sum()),
            pods - next(g for g in after.gangs if g.name == asked.name).groups[0].min_replicas,
        )
        return Fit.NO if changed < 3 else three if changed == 3 else Fit.YES

    monkeypatch.setattr(Case, "settled", settled)
    monkeypatch.setattr(Case, "fit", lambda *_: Answer(Fit.YES, {}))
    monkeypatch.setattr(Trial, "is_refuted", lambda *_, **__: False)
    kinds = {type(one): one for one in found(asked, other, seconds=60.0, on=tuple(there))}
    if pods == 1:
        assert kinds[AddNodes] == AddNodes("nodes/n1", 4, proven=False)
        assert kinds[Uncordon] == Uncordon(tuple(f"nodes/n{i}" for i in range(2, 6)), False)
    else:
        assert kinds[Reduce] == Reduce("worker", 5, 1, proven=False)


def test_a_step_up_the_levels_that_was_not_settled_leaves_the_next_one_unproven(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scope = PackingScope("a", ("worker",), "rack")
    asked = replace(gang("a", pods=2, gpus=8), packing_scopes=(scope,))
    there = [node(f"n{i}", rack=f"r{i}", block="b") for i in range(2)]
    there.append(node("n2", rack="r0", block="c", used=8))

    def settled(
        self: Case,
        change: Callable[[Snapshot], Snapshot],
        plan: Plan | None = None,
        gone: Collection[str] = (),
    ) -> Fit:
        [after] = change(self.snapshot).gangs
        return Fit.YES if not after.packing_scopes[0].required_level else Fit.UNKNOWN

    monkeypatch.setattr(Case, "settled", settled)
    monkeypatch.setattr(remedies_of_kinds, "coarser", lambda *_: ["block"])
    kinds = {type(one): one for one in found(asked, seconds=60.0, on=tuple(there))}
    assert kinds[Relax] == Relax("", "rack", "", proven=False)


def test_after_evictions_nothing_is_proven() -> None:
    """Others might have been evicted instead."""
    low = running("low", "n1", gpus=4)
    [pod] = low.groups[0].running_pods
    gone = Eviction(pod.name, low.name, pod.node, EvictionKind.PREEMPT, "namespaces/ml/podgangs/x")
    assert found(LARGE, low, seconds=0.0, evictions=[gone]) == (
        AddNodes("nodes/n1", 1, proven=False),
    )
