"""What may leave for a gang that waits, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from placement_service.entities.eviction import DisruptionBudget
from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import PODS, BoundPod, PodGang, Policy, Snapshot
from placement_service.entities.selectors import LabelSelector
from placement_service.formulation.planning_questions import (
    Freed,
    Given,
    Leaver,
    PodsOf,
    Together,
)
from placement_service.formulation.rules.queues import QueueRow
from placement_service.planning.leavers import Chosen, Leavers, is_protected
from tests.service.evictions import running, urgent
from tests.service.questions import GPU, gang, node

NODES = tuple(node(name) for name in ("a", "b"))


def leavers(*gangs: PodGang, queues: Sequence[Queue] = (), **budgets: int) -> Leavers:
    """Of gangs that run beside one of priority 100. Budgets are by the app that they cover."""
    rules = tuple(
        DisruptionBudget(
            f"namespaces/ml/poddisruptionbudgets/{app}", LabelSelector((("app", app),)), allowed
        )
        for app, allowed in budgets.items()
    )
    there = Snapshot(
        NODES, (*gangs, urgent()), queues=tuple(queues), disruption_budgets=rules, as_of=1000
    )
    return Leavers(there, urgent())


def whole(one: Leavers) -> list[str]:
    """The gangs that may leave, those together in a row."""
    return [" ".join(n.removeprefix("namespaces/ml/podgangs/") for n in of) for of in one.names]


def pod(name: str) -> str:
    return f"namespaces/ml/pods/{name}"


def with_pods(one: PodGang, *pods: BoundPod) -> PodGang:
    (group,) = one.groups
    sets = (replace(group.pod_sets[0], bound_pods=pods),)
    return replace(one, groups=(replace(group, pod_sets=sets),))


def test_a_gang_leaves_whole_and_its_extras_one_by_one() -> None:
    """Extras on a node are alike."""
    found = leavers(running("low", "a", "a", "b", minimum=1))
    assert found.leavers == [
        Leaver(3, 1, (Freed(0, 0), Freed(0, 0), Freed(1, 0))),
        Leaver(1, 2, (Freed(0, 0),), 0),
        Leaver(1, 1, (Freed(1, 0),), 0),
    ]
    assert whole(found) == ["low", "", ""]
    # At most two go, wherever they are.
    assert found.limits == [Together((PodsOf(1, 1), PodsOf(2, 1)), 2)]
    assert found.of == {pod("low-0"): [0, 1], pod("low-1"): [0, 1], pod("low-2"): [0, 2]}
    assert found.pods == {pod(f"low-{i}") for i in range(3)}


def test_no_more_extras_go_than_there_are() -> None:
    found = leavers(running("low", "a", "a", "a", minimum=2))
    assert [one.most for one in found.leavers] == [1, 1]
    assert leavers(running("low", "a", minimum=1)).limits == []


def test_who_was_chosen_is_told_by_name() -> None:
    gangs = [running("low", "a", "a", "b", minimum=1), running("one", "b")]
    found = leavers(*gangs)
    low, one = (g.name for g in gangs)
    for times, gangs_gone, pods_gone in (
        ([0, 1, 1, 0], (), ("low-0", "low-2")),
        ([0, 2, 0, 0], (), ("low-0", "low-1")),
        ([1, 0, 0, 0], (low,), ("low-0", "low-1", "low-2")),
        ([0, 0, 0, 1], (one,), ("one-0",)),
        ([0, 0, 0, 0], (), ()),
    ):
        want = Chosen(frozenset(gangs_gone), frozenset(map(pod, pods_gone)))
        assert found.chosen(times) == want


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"priority": 100}, id="of the same priority"),
        pytest.param({"not_preemptible": True}, id="not preemptible"),
    ],
)
def test_extras_stay_where_their_gang_may_not_go(changes: dict[str, object]) -> None:
    stays = replace(running("low", "a", "b", minimum=1), **changes)  # type: ignore[arg-type]
    assert leavers(stays).leavers == []


def test_pods_that_are_fixed_hold_their_gang() -> None:
    one = running("low", "a", "b", minimum=1)
    fixed = (BoundPod(pod("fixed"), "nodes/a"),)
    assert leavers(replace(one, groups=(replace(one.groups[0], fixed_pods=fixed),))).leavers == []


def test_nobody_leaves_for_who_never_preempts() -> None:
    meek = replace(urgent(), never_preempts=True)
    assert Leavers(Snapshot(NODES, (running("low", "a"), meek)), meek).leavers == []


def test_extras_of_a_gang_that_is_protected_may_go() -> None:
    """Its minimum may not; 10 s later it may, too."""
    young = replace(running("low", "a", "b", minimum=1), minimum_run_time=60, start=950)
    assert whole(leavers(young)) == ["", ""]
    assert [one.part_of for one in leavers(young).leavers] == [-1, -1]
    assert whole(leavers(replace(young, start=940))) == ["low", "", ""]


def test_gangs_leave_with_those_that_are_based_on_them() -> None:
    base = running("base", "a")
    follows = replace(running("follows", "b"), base_gang=base.name)
    waits = replace(gang("waits", pods=1, gpus=1), base_gang=base.name)
    found = leavers(base, follows, waits)
    assert whole(found) == ["base follows", "follows"]
    assert found.leavers[0].pods == 2
    # All of them or none.
    assert whole(leavers(base, replace(follows, priority=100))) == []
    protected = replace(follows, minimum_run_time=60, start=990)
    assert whole(leavers(base, protected)) == []


def test_what_runs_elsewhere_gives_nothing_back() -> None:
    found = leavers(running("low", "a", "gone", minimum=1))
    assert found.leavers == [Leaver(2, 1, (Freed(0, 0),)), Leaver(1, 1, (Freed(0, 0),), 0)]


def test_extras_that_use_other_devices_or_reservations_are_not_alike() -> None:
    pods = (
        BoundPod(pod("low-3"), "nodes/a"),
        BoundPod(pod("low-2"), "nodes/a"),
        BoundPod(pod("low-1"), "nodes/a", devices=(1,)),
        BoundPod(pod("low-0"), "nodes/a", reservation="reservations/r"),
    )
    found = leavers(with_pods(running("low", "a", minimum=0), *pods))
    assert [one.most for one in found.leavers] == [1, 2, 1, 1]
    _, gone = found.chosen([0, 1, 0, 0])
    assert gone == {pod("low-2")}


def test_what_a_pod_holds_comes_free() -> None:
    pods = (
        BoundPod(pod("low-0"), "nodes/a"),
        BoundPod(pod("low-1"), "nodes/a", held={GPU: 1, PODS: 1}),
    )
    found = leavers(with_pods(running("low", "a", "a"), *pods))
    assert found.leavers == [Leaver(2, 1, (Freed(0, 0), Freed(0, 1)))]
    assert [one.requests[GPU] for one in found.templates] == [4, 1]


def test_budgets_count_what_they_cover_of_each() -> None:
    gangs = [running("low", "a", "a", "b", minimum=1), running("other", "b")]
    found = leavers(*gangs, low=1, none=0)
    extras, budget = found.limits
    assert extras.most == 2
    assert budget == Together((PodsOf(0, 3), PodsOf(1, 1), PodsOf(2, 1)), 1)


def test_of_gangs_that_leave_together_a_budget_counts_what_it_covers() -> None:
    base = running("base", "a", "a")
    follows = replace(running("follows", "b"), base_gang=base.name)
    found = leavers(base, follows, base=1)
    assert found.limits == [Together((PodsOf(0, 2),), 1)]


@pytest.mark.parametrize(
    ("minimum", "start", "as_of", "protected"),
    [
        pytest.param(60, 950, 1000, True, id="young"),
        pytest.param(60, 940, 1000, False, id="old enough"),
        pytest.param(0, 950, None, False, id="no minimum"),
        pytest.param(60, 950, None, True, id="at no time"),
        pytest.param(60, None, 1000, False, id="nobody knows since when"),
    ],
)
def test_who_is_protected(
    minimum: int, start: int | None, as_of: int | None, protected: bool
) -> None:
    one = replace(running("low", "a"), minimum_run_time=minimum, start=start)
    assert is_protected(one, Snapshot(NODES, (one,), as_of=as_of)) == protected


def row(queue: str, *, guaranteed: bool = False) -> QueueRow:
    """Of GPUs."""
    return QueueRow(queue, GPUS, guaranteed, 8000, 8000, (), (), 0, frozenset())  # type: ignore[arg-type]


def test_queues_get_back_what_runs_in_them_and_below() -> None:
    queues = [Queue("queues/top"), Queue("queues/low", parent="queues/top"), Queue("queues/x")]
    one = replace(running("low", "a", "b", minimum=1), queue="queues/low")
    other = replace(running("other", "a"), queue="queues/x")
    found = leavers(one, other, running("none", "b"), queues=queues)
    low = [Given(0, 8000), Given(1, 4000), Given(2, 4000)]
    assert list(found.given(row("queues/low"), Policy())) == low
    assert list(found.given(row("queues/top"), Policy())) == low
    assert list(found.given(row("queues/x"), Policy())) == [Given(3, 4000)]
    # What is guaranteed is for gangs that may not go.
    assert list(found.given(row("queues/low", guaranteed=True), Policy())) == []
