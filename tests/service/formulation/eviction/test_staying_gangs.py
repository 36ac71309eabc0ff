"""Running gangs that stay as they are, and when nothing may be said of those that give way.

Each case is a gang that would be open but for one fact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from placement_service.entities.devices import Device
from placement_service.entities.eviction import DisruptionBudget
from placement_service.entities.request import (
    HOSTNAME,
    BoundPod,
    ExtrasPolicy,
    PackingScope,
    PodAffinityTerm,
    PodGang,
    Policy,
    Snapshot,
    SpreadConstraint,
)
from placement_service.entities.reservations import Reservation, ReservationSelector
from placement_service.entities.selectors import LabelSelector
from placement_service.formulation.eviction.running_gangs import open_running_gangs
from placement_service.formulation.formulate import formulate
from placement_service.formulation.plan import is_placed
from tests.service.evictions import PREEMPT, REPACK, cluster, opened, running, urgent
from tests.service.questions import GPU, gang, node

OLD = running("old", "n0", "n1")
BOTH = (PREEMPT, REPACK)
Change = Callable[[PodGang], PodGang]


def asked(*gangs: PodGang) -> Snapshot:
    """Two nodes of one rack, half full."""
    nodes = tuple(node(f"n{i}", used=4, rack="r") for i in range(2))
    return Snapshot(nodes, (*gangs, urgent()), as_of=1500)


def with_group(one: PodGang, **changes: Any) -> PodGang:
    [group] = one.groups
    return replace(one, groups=(replace(group, **changes),))


def with_pods(one: PodGang, **changes: Any) -> PodGang:
    [pod_set] = one.groups[0].pod_sets
    pods = tuple(replace(pod, **changes) for pod in pod_set.bound_pods)
    return with_group(one, pod_sets=(replace(pod_set, bound_pods=pods),))


def asking(one: PodGang, **rules: Any) -> PodGang:
    [pod_set] = one.groups[0].pod_sets
    template = replace(pod_set.template, **rules)
    return with_group(one, pod_sets=(replace(pod_set, template=template),))


def and_waiting(one: PodGang, **fields: Any) -> PodGang:
    """The gang with one pod that waits beyond its minimum."""
    [group] = one.groups
    [more] = gang("more", pods=1, gpus=1).groups[0].pod_sets
    return replace(with_group(one, pod_sets=(*group.pod_sets, more)), **fields)


def scope(**levels: str) -> tuple[PackingScope, ...]:
    return (PackingScope("all", ("worker",), **levels),)


def test_the_gang_of_these_cases_is_open() -> None:
    assert [opened(asked(OLD), policy) for policy in BOTH] == [[0], [0]]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda g: and_waiting(g, queue="queues/lost"),
            id="its queue is not there, and it waits for more",
        ),
        pytest.param(lambda g: replace(g, unsupported=("x",)), id="it is refused"),
        pytest.param(
            lambda g: replace(with_group(g, min_replicas=0), start=1490, minimum_run_time=60),
            id="it has no minimum and has not run for its time",
        ),
        pytest.param(
            lambda g: with_group(g, fixed_pods=(BoundPod("namespaces/ml/pods/x", "nodes/n1"),)),
            id="a pod is not told",
        ),
        pytest.param(
            lambda g: with_pods(g, reservation="reservations/r"), id="it runs in a reservation"
        ),
        pytest.param(lambda g: asking(g, same_pcie_nics=1), id="it has network devices"),
    ],
)
def test_it_stays_whatever_the_policy_is(change: Change) -> None:
    assert [opened(asked(change(OLD)), policy) for policy in BOTH] == [[], []]


def _near(level: str) -> PodAffinityTerm:
    return PodAffinityTerm(LabelSelector((("app", "other"),)), level, ("ml",))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda g: replace(g, queue="queues/lost"), id="its queue is not there"),
        pytest.param(lambda g: asking(g, compute_domain="d"), id="ComputeDomain"),
        pytest.param(lambda g: asking(g, ignores_reservations=True), id="ignores reservations"),
        pytest.param(
            lambda g: asking(g, required_reservation=ReservationSelector("reservations/r")),
            id="requires a reservation",
        ),
        pytest.param(
            lambda g: and_waiting(g, packing_scopes=scope(preferred_level="rack")),
            id="its own pods prefer to join it",
        ),
        pytest.param(
            lambda g: and_waiting(g, previous_nodes=("nodes/n0",)), id="they had nodes before"
        ),
    ],
)
def test_it_is_evicted_but_not_moved(change: Change) -> None:
    assert [opened(asked(change(OLD)), policy) for policy in BOTH] == [[0], []]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda g: asking(g, required_affinity=(_near("rack"),)), id="attracted"),
        pytest.param(
            lambda g: asking(
                g,
                spread_constraints=(SpreadConstraint(2, HOSTNAME, LabelSelector(), "ml"),),
            ),
            id="spread",
        ),
        pytest.param(
            lambda g: replace(g, packing_scopes=scope(required_level=HOSTNAME)),
            id="breaks its level",
        ),
        pytest.param(
            lambda g: replace(g, packing_scopes=scope(required_level="zone")), id="in no domain"
        ),
    ],
)
def test_its_rules_bind_it_only_where_it_comes(change: Change) -> None:
    assert [opened(asked(change(OLD)), policy) for policy in BOTH] == [[0], [0]]


@pytest.mark.parametrize("fact", [{"devices": (0,)}, {"held": {GPU: 1}}])
def test_pods_under_rules_are_not_moved_that_more_than_their_nodes_tell_apart(
    fact: dict[str, Any],
) -> None:
    attracted = with_pods(asking(OLD, required_affinity=(_near("rack"),)), **fact)
    assert opened(asked(attracted), REPACK) == []


def test_a_gang_that_keeps_its_level_is_moved() -> None:
    whole = replace(OLD, packing_scopes=scope(required_level="rack"))
    assert opened(asked(whole), REPACK) == [0]
    of_another = PackingScope("other", ("missing",), required_level=HOSTNAME)
    assert opened(asked(replace(OLD, packing_scopes=(of_another,))), REPACK) == [0]


def test_extras_that_come_with_their_priority_keep_a_gang_only_where_its_minimum_has_to_run() -> (
    None
):
    """With moves it always has to, without them until it has run long enough."""
    extras = ExtrasPolicy.WITH_PRIORITY
    waiting = and_waiting(OLD)
    assert [opened(asked(waiting), replace(p, extras=extras)) for p in BOTH] == [[0], []]
    assert opened(asked(OLD), replace(REPACK, extras=extras)) == [0]
    young = replace(running("young", "n0", "n1", minimum=1), start=1000, minimum_run_time=600)
    assert opened(asked(young)) == [0]
    assert opened(asked(young), replace(PREEMPT, extras=extras)) == []


def test_a_gang_that_keeps_its_minimum_and_has_no_extras_is_left_alone() -> None:
    young = replace(running("young", "n0", "n1"), start=1000, minimum_run_time=600)
    for policy in BOTH:
        prepared = open_running_gangs(asked(young), policy)
        assert (prepared.opened, prepared.exact) == (frozenset(), True)


def test_a_gang_on_a_node_that_holds_more_than_it_has_goes_but_does_not_move() -> None:
    crowded = cluster(running("old", "n0", gpus=8), urgent(), used=9)
    assert [opened(crowded, policy) for policy in BOTH] == [[0], []]


@pytest.mark.parametrize(("held", "want"), [(4, [0]), (5, [])])
def test_a_gang_on_a_node_that_holds_more_for_owners_than_is_free_stays(
    held: int, want: list[int]
) -> None:
    nowhere = Reservation("reservations/gone", "nodes/gone", {GPU: 9})
    reservations = (Reservation("reservations/r", "nodes/n0", {GPU: held}), nowhere)
    assert opened(replace(asked(OLD), reservations=reservations)) == want


def test_a_base_gives_way_only_where_all_that_is_based_on_it_may() -> None:
    scaled = replace(running("scaled", "n1"), base_gang=OLD.name)
    fixed = replace(scaled, not_preemptible=True)
    base = running("old", "n0")
    assert opened(asked(base, scaled)) == [0, 1]
    assert opened(asked(base, fixed)) == []
    assert opened(asked(base, fixed), REPACK) == [0]
    elsewhere = replace(fixed, base_gang="namespaces/ml/podgangs/other")
    assert opened(asked(base, elsewhere)) == [0]


def test_a_set_of_which_a_gang_waits_is_not_moved() -> None:
    """Those that wait should join the others."""
    waiting = replace(gang("scaled", pods=1, gpus=1), base_gang=OLD.name)
    sibling = replace(running("sibling", "n1", gpus=1), base_gang=OLD.name)
    assert [opened(asked(OLD, waiting), policy) for policy in BOTH] == [[0], []]
    assert opened(asked(running("other", "n0"), waiting, sibling), REPACK) == [0]


@pytest.mark.parametrize(
    ("devices", "want"),
    [((0, 1, 2, 3), [0]), ((), []), ((0, 1, 2), []), ((0, 1, 2, 9), []), ((0, 0, 1, 2), [])],
)
def test_a_gang_has_to_say_which_listed_devices_it_has(
    devices: tuple[int, ...], want: list[int]
) -> None:
    listed = tuple(Device(i, used_milli=1000 if i < 4 else 0) for i in range(8))
    one = with_pods(running("old", "n0"), devices=devices)
    listing = replace(node("n0", used=4), devices=listed)
    assert opened(Snapshot((listing,), (one, urgent()))) == want
    # Where nothing is listed it does not matter.
    assert opened(Snapshot((node("n0", used=4),), (one, urgent()))) == [0]


def test_bounds_are_claimed_only_where_every_gang_that_may_go_is_open() -> None:
    untold = with_pods(OLD, reservation="reservations/r")

    def exact(*gangs: PodGang, policy: Policy = PREEMPT, budgets: int | None = None) -> bool:
        selector = LabelSelector((("app", "old"),))
        budget = DisruptionBudget("namespaces/ml/poddisruptionbudgets/b", selector, budgets or 0)
        question = asked(*gangs)
        if budgets is not None:
            question = replace(question, disruption_budgets=(budget,))
        return open_running_gangs(question, policy).exact

    assert exact(OLD)
    assert not exact(untold)
    # The rules keep it as well.
    assert exact(replace(untold, not_preemptible=True))
    assert exact(untold, budgets=0)
    assert not exact(untold, budgets=1)


@pytest.mark.parametrize("waits", [True, False])
def test_only_a_gang_that_waits_for_more_and_breaks_its_levels_by_where_it_runs_mends(
    waits: bool,
) -> None:
    broken = replace(OLD, packing_scopes=scope(required_level=HOSTNAME))
    growing = and_waiting(broken)
    assert open_running_gangs(asked(growing if waits else broken), REPACK).mends is waits
    whole = and_waiting(replace(OLD, packing_scopes=scope(required_level="rack")))
    asks = asking(OLD, same_pcie_nics=1)
    assert not open_running_gangs(asked(whole, asks), REPACK).mends


def test_a_gang_without_a_minimum_counts_as_placed_though_all_of_it_goes() -> None:
    gangs = (running("none", "n0", minimum=0), running("one", "n0", minimum=1))
    problem = formulate(cluster(*gangs, urgent()), PREEMPT)
    none, one = problem.gangs[:2]
    assert none.home
    assert is_placed(none, {})
    assert not is_placed(one, {})
