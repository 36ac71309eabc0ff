"""Queues: limits and guaranteed amounts, of the whole gang and at every ancestor."""

from __future__ import annotations

import pytest

from placement_service.entities.devices import Device, DeviceShare
from placement_service.entities.eviction import EvictionKind, EvictionPolicy
from placement_service.entities.queues import GPUS, MILLIGPUS
from placement_service.entities.request import CPU, Policy
from tests.scenario import Group, Scenario
from tests.service.judge.rules.asking import accepts, refuses

ROOM = Scenario("x1=8 x2=8 x3=8")


def test_a_gang_without_a_queue_is_not_limited() -> None:
    scenario = ROOM.queue("team", limit={GPUS: 0}).gang("a", pods=1, gpus=8)
    assert accepts(scenario, scenario.bind(a_w_0="x1"))


def test_a_gang_of_an_unknown_queue_gets_nothing() -> None:
    scenario = ROOM.queue("team").gang("a", pods=1, gpus=8, queue="typo")
    assert refuses(scenario, "queues/typo is unknown", scenario.bind(a_w_0="x1"))
    assert accepts(scenario)


def test_the_limit_holds_for_the_whole_gang() -> None:
    scenario = ROOM.queue("team", limit={GPUS: 12}).gang("a", pods=2, gpus=8, min=1, queue="team")
    assert accepts(scenario, scenario.bind(a_w_0="x1"))
    both = scenario.bind(a_w_0="x1", a_w_1="x2")
    assert refuses(scenario, "queues/team has a limit of 12 gpus & would have 16", both)


def test_gangs_of_one_queue_add_up() -> None:
    scenario = ROOM.queue("team", limit={GPUS: 8})
    scenario = scenario.gang("a", pods=1, gpus=8, queue="team")
    scenario = scenario.gang("b", pods=1, gpus=4, queue="team")
    assert accepts(scenario, scenario.bind(b_w_0="x1"))
    assert refuses(scenario, "limit of 8", scenario.bind(a_w_0="x1", b_w_0="x2"))


def test_what_is_in_use_counts() -> None:
    scenario = ROOM.queue("team", limit={GPUS: 8}, used=4).gang("a", pods=1, gpus=4, queue="team")
    assert accepts(scenario, scenario.bind(a_w_0="x1"))
    more = ROOM.queue("team", limit={GPUS: 8}, used=5).gang("a", pods=1, gpus=4, queue="team")
    assert refuses(more, "would have 9", more.bind(a_w_0="x1"))


def test_running_pods_with_a_template_count() -> None:
    for told, fine in ((("x1",), True), (("x1", "x2"), False)):
        scenario = Scenario("x1=4/8 x2=4/8 x3=8").queue("team", limit={GPUS: 8})
        scenario = scenario.gang("old", Group("w", gpus=4, told=told), queue="team")
        scenario = scenario.gang("a", pods=1, gpus=4, queue="team")
        bindings = scenario.bind(a_w_0="x3")
        assert accepts(scenario, bindings) if fine else refuses(scenario, "have 12", bindings)


@pytest.mark.parametrize(("used", "fine"), [(0, True), (2, True), (3, False)])
def test_what_a_queue_keeps_counts_in_no_limit_above_it(used: int, fine: bool) -> None:
    """Of the 12 GPUs of "keeps" 6 count above, and "other" may have 2 of the rest."""
    tree = ROOM.queue("org", limit={GPUS: 8}).queue("keeps", "org", kept={GPUS: 6})
    scenario = tree.queue("other", "org", used=used).gang("a", pods=2, gpus=6, queue="keeps")
    bindings = scenario.bind(a_w_0="x1", a_w_1="x2")
    if fine:
        assert accepts(scenario, bindings)
    else:
        assert refuses(scenario, "queues/org has a limit of 8 gpus & would have 9", bindings)


def test_what_is_new_inside_of_what_a_queue_keeps_is_not_new_above_it() -> None:
    full = ROOM.queue("org", limit={GPUS: 8}, used=9).queue("keeps", "org", kept={GPUS: 6})
    for gpus in (6, 7):
        scenario = full.gang("a", pods=1, gpus=gpus, queue="keeps")
        bindings = scenario.bind(a_w_0="x1")
        if gpus == 6:
            assert accepts(scenario, bindings)
        else:
            assert refuses(scenario, "limit of 8 gpus & would have 10", bindings)


def test_the_limit_of_a_queue_above_holds_for_all_below_it() -> None:
    tree = ROOM.queue("org", limit={GPUS: 8}).queue("one", "org").queue("two", "org")
    scenario = tree.gang("a", pods=1, gpus=8, queue="one").gang("b", pods=1, gpus=8, queue="two")
    assert accepts(scenario, scenario.bind(a_w_0="x1"))
    both = scenario.bind(a_w_0="x1", b_w_0="x2")
    assert refuses(scenario, "queues/org has a limit of 8 & 16", both)


def test_what_runs_in_a_sister_queue_counts_above() -> None:
    tree = ROOM.queue("org", limit={GPUS: 8}).queue("one", "org").queue("two", "org", used=1)
    scenario = tree.gang("a", pods=1, gpus=8, queue="one")
    assert refuses(scenario, "queues/org & would have 9", scenario.bind(a_w_0="x1"))


def test_other_resources_have_limits_too() -> None:
    scenario = ROOM.queue("team", limit={CPU: 4000})
    scenario = scenario.gang("a", Group("w", pods=2, cpus=4, min=1), queue="team")
    assert accepts(scenario, scenario.bind(a_w_0="x1"))
    both = scenario.bind(a_w_0="x1", a_w_1="x2")
    assert refuses(scenario, "limit of 4000 cpu & 8000", both)


def test_a_queue_over_its_limit_gets_nothing_but_harms_nobody() -> None:
    """Only what a plan adds is judged: pods without GPUs may still come."""
    scenario = ROOM.queue("team", limit={GPUS: 8}, used=9)
    scenario = scenario.gang("a", Group("w", pods=1, cpus=4), queue="team")
    scenario = scenario.gang("b", pods=1, gpus=1, queue="team")
    assert accepts(scenario, scenario.bind(a_w_0="x1"))
    assert refuses(scenario, "would have 10", scenario.bind(b_w_0="x1"))


@pytest.mark.parametrize(("limit", "fine"), [(8, True), (7, False)])
def test_a_pod_that_moves_comes_to_its_queue_as_a_new_one_does(limit: int, fine: bool) -> None:
    scenario = Scenario("x1=0/8 x2=8", policy=Policy(eviction=EvictionPolicy.REPACK))
    scenario = scenario.queue("team", limit={GPUS: limit})
    scenario = scenario.gang("old", Group("w", gpus=8, told=("x1",)), queue="team")
    moved = scenario.evict(EvictionKind.MOVE, old_w_runs_0="x2")
    words = "would have 8"
    assert accepts(scenario, (), moved) if fine else refuses(scenario, words, (), moved)


def test_what_is_not_preemptible_stays_inside_the_guarantee() -> None:
    queue = ROOM.queue("team", limit={GPUS: 16}, guaranteed={GPUS: 8})
    loose = queue.gang("a", pods=2, gpus=8, queue="team")
    fixed = queue.gang("a", pods=2, gpus=8, queue="team", not_preemptible=True)
    both = loose.bind(a_w_0="x1", a_w_1="x2")
    assert accepts(loose, both)
    assert refuses(fixed, "queues/team is guaranteed 8 gpus & not preemptible & 16", both)


def test_only_what_is_not_preemptible_fills_the_guarantee() -> None:
    for used, fixed, fine in ((8, 0, True), (8, 1, False)):
        scenario = ROOM.queue("team", guaranteed={GPUS: 8}, used=used, fixed=fixed)
        scenario = scenario.gang("a", pods=1, gpus=8, queue="team", not_preemptible=True)
        bindings = scenario.bind(a_w_0="x1")
        assert accepts(scenario, bindings) if fine else refuses(scenario, "have 9", bindings)


def test_what_is_preemptible_may_come_though_the_guarantee_is_passed() -> None:
    scenario = ROOM.queue("team", guaranteed={GPUS: 8}, used=9, fixed=9)
    scenario = scenario.gang("a", pods=1, gpus=8, queue="team")
    assert accepts(scenario, scenario.bind(a_w_0="x1"))


def test_of_gangs_that_run_those_that_are_not_preemptible_fill_the_guarantee() -> None:
    for fixed in (False, True):
        scenario = Scenario("x1=7/8 x2=8").queue("team", guaranteed={GPUS: 8})
        runs = Group("w", gpus=1, told=("x1",))
        scenario = scenario.gang("old", runs, queue="team", not_preemptible=fixed)
        scenario = scenario.gang("a", pods=1, gpus=8, queue="team", not_preemptible=True)
        bindings = scenario.bind(a_w_0="x2")
        assert refuses(scenario, "have 9", bindings) if fixed else accepts(scenario, bindings)


def test_the_guarantee_holds_above_too() -> None:
    tree = ROOM.queue("org", guaranteed={GPUS: 4}).queue("one", "org", guaranteed={GPUS: 8})
    scenario = tree.gang("a", pods=1, gpus=8, queue="one", not_preemptible=True)
    assert refuses(scenario, "queues/org is guaranteed 4 & 8", scenario.bind(a_w_0="x1"))


def test_a_resource_without_a_guarantee_is_free() -> None:
    scenario = ROOM.queue("team", guaranteed={CPU: 64000})
    scenario = scenario.gang("a", pods=1, gpus=8, queue="team", not_preemptible=True)
    assert accepts(scenario, scenario.bind(a_w_0="x1"))


def test_shares_of_gpus_count_by_their_part() -> None:
    """Three shares of 40 % are 1.2 GPUs; what is less of computing and memory does not count."""
    share = {"device_share": DeviceShare(400, 300)}
    devices = tuple(Device(i) for i in range(2))
    for pods, more, fine in ((2, 0, True), (3, 199, False), (3, 200, True)):
        scenario = ROOM.queue("team", limit={GPUS: 1, MILLIGPUS: more})
        scenario = scenario.gang("a", Group("w", pods=pods, asks=share), queue="team")
        scenario = scenario.with_devices("x1", *devices)
        bindings = scenario.give(a_w_0=("x1", 0), a_w_1=("x1", 0), a_w_2=("x1", 1))[:pods]
        assert accepts(scenario, bindings) if fine else refuses(scenario, "have 1.2", bindings)


def test_shares_of_memory_that_run_count_by_the_devices_of_their_node() -> None:
    """Five of eight bytes are a larger part of a GPU than five of ten; where no size is known, they
    may be all of it.
    """
    share = {"device_share": DeviceShare(memory_bytes=5)}
    for on, takes in (("x1", 625), ("x3", 1000)):
        for limit, fine in ((takes + 499, False), (takes + 500, True)):
            scenario = ROOM.queue("team", limit={MILLIGPUS: limit})
            small = Device(0, used_memory_milli=625, memory_bytes=8)
            scenario = scenario.with_devices("x1", small, Device(1, memory_bytes=16), Device(2))
            scenario = scenario.with_devices("x2", Device(0, memory_bytes=10))
            runs = Group("w", told=(on,), asks=share)
            scenario = scenario.gang("old", runs, queue="team")
            scenario = scenario.gang("a", Group("w", pods=1, asks=share), queue="team")
            bindings = scenario.give(a_w_0=("x2", 0))
            words = f"would have {(takes + 500) / 1000:g}"
            assert accepts(scenario, bindings) if fine else refuses(scenario, words, bindings)


def test_what_is_evicted_leaves_room_in_its_queue() -> None:
    scenario = Scenario("x1=0/8 x2=8", policy=Policy(eviction=EvictionPolicy.PREEMPT))
    scenario = scenario.queue("team", limit={GPUS: 8})
    scenario = scenario.gang("old", Group("w", gpus=8, told=("x1",)), queue="team")
    scenario = scenario.gang("a", pods=1, gpus=8, queue="team", priority=1)
    bindings = scenario.bind(a_w_0="x2")
    assert refuses(scenario, "would have 16", bindings)
    gone = scenario.evict(EvictionKind.PREEMPT, "a", old_w_runs_0=None)
    assert accepts(scenario, bindings, gone)
