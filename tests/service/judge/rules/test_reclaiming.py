"""Reclaiming: which queues take from which, and whom the room serves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placement_service.entities.eviction import EvictionKind, EvictionPolicy
from placement_service.entities.queues import GPUS
from tests.scenario import NOW, Group, Scenario
from tests.service.judge.rules.asking import accepts, refuses, violations
from tests.service.judge.rules.evicting import cluster, old

PREEMPT, RECLAIM = EvictionKind.PREEMPT, EvictionKind.RECLAIM


class TestReclaim:
    def two(self, mine: int, theirs: int, *, used: int = 0, gpus: int = 8) -> Scenario:
        """Two queues with guaranteed GPUs; a gang of the second runs, one of the first waits."""
        scenario = cluster("x1=0/8 x2=8", EvictionPolicy.RECLAIM).queue("org")
        scenario = scenario.queue("mine", "org", guaranteed={GPUS: mine}, used=used)
        scenario = scenario.queue("theirs", "org", guaranteed={GPUS: theirs})
        scenario = old(scenario, "x1", queue="theirs")
        return scenario.gang("a", pods=1, gpus=gpus, queue="mine")

    def test_a_queue_below_its_guarantee_takes_from_one_above(self) -> None:
        scenario = self.two(8, 4)
        gone = scenario.evict(RECLAIM, "a", old_w_runs_0=None)
        assert accepts(scenario, scenario.bind(a_w_0="x1"), gone)

    def test_not_from_a_queue_inside_its_guarantee(self) -> None:
        scenario = self.two(8, 8)
        gone = scenario.evict(RECLAIM, "a", old_w_runs_0=None)
        words = "queues/theirs, which has 8 GPUs of 8"
        assert refuses(scenario, words, scenario.bind(a_w_0="x1"), gone)

    def test_not_beyond_the_own_guarantee(self) -> None:
        scenario = self.two(8, 4, used=1)
        gone = scenario.evict(RECLAIM, "a", old_w_runs_0=None)
        words = "queues/mine reclaims, but has 1 GPUs before and 9 after of 8"
        assert refuses(scenario, words, scenario.bind(a_w_0="x1"), gone)

    def test_not_by_a_queue_that_has_its_guarantee_for_pods_without_gpus(self) -> None:
        scenario = self.two(8, 4, used=8, gpus=0)
        gone = scenario.evict(RECLAIM, "a", old_w_runs_0=None)
        words = "has 8 GPUs before and 8 after of 8"
        assert refuses(scenario, words, scenario.bind(a_w_0="x1"), gone)

    @pytest.mark.parametrize(
        ("gang", "fine"),
        [
            pytest.param({"priority": 1}, True, id="one above the victim"),
            pytest.param({}, False, id="one of its priority"),
            pytest.param({"priority": 1, "never_preempts": True}, False, id="one that never does"),
        ],
    )
    def test_the_rest_of_the_room_is_for_those_that_could_preempt_the_victim(
        self, gang: dict[str, Any], fine: bool
    ) -> None:
        scenario = self.two(4, 4, gpus=4).gang("b", pods=1, gpus=4, **gang)
        gone = scenario.evict(RECLAIM, "a", old_w_runs_0=None)
        both = scenario.bind(a_w_0="x1", b_w_0="x1")
        words = "podgangs/b ask for 4 nvidia.com/gpu, 0 are free for them"
        assert accepts(scenario, both, gone) if fine else refuses(scenario, words, both, gone)

    @pytest.mark.parametrize(
        ("minimum", "ran", "fine"),
        [
            pytest.param(2, 10, False, id="minimum lost too early"),
            pytest.param(2, 60, True, id="minimum lost in time"),
            pytest.param(1, 10, True, id="extra"),
        ],
    )
    def test_nobody_could_preempt_the_minimum_of_a_victim_too_early(
        self, minimum: int, ran: int, fine: bool
    ) -> None:
        """It is protected from those above it for a minute, from queues not at all."""
        scenario = cluster("x1=0/16", EvictionPolicy.RECLAIM)
        scenario = scenario.queue("mine", guaranteed={GPUS: 4}).queue("theirs")
        both = Group("w", gpus=8, min=minimum, told=("x1", "x1"))
        scenario = scenario.gang("old", both, queue="theirs", minimum_run_time=60, start=NOW - ran)
        scenario = scenario.gang("a", pods=1, gpus=4, queue="mine")
        scenario = scenario.gang("b", pods=1, gpus=4, priority=1)
        names = ["old_w_runs_0"] if minimum == 1 else ["old_w_runs_0", "old_w_runs_1"]
        gone = scenario.evict(RECLAIM, "a", **dict.fromkeys(names))
        bindings = scenario.bind(a_w_0="x1", b_w_0="x1")
        words = "podgangs/b ask for 4 nvidia.com/gpu, 0 are free for them"
        assert (
            accepts(scenario, bindings, gone) if fine else refuses(scenario, words, bindings, gone)
        )

    def test_not_by_a_queue_that_has_its_guarantee(self) -> None:
        scenario = self.two(8, 4, used=8)
        gone = scenario.evict(RECLAIM, "a", old_w_runs_0=None)
        assert refuses(scenario, "has 8 GPUs before", scenario.bind(a_w_0="x1"), gone)

    def test_not_inside_one_queue(self) -> None:
        scenario = cluster("x1=0/8", EvictionPolicy.RECLAIM).queue("mine", guaranteed={GPUS: 8})
        scenario = old(scenario, "x1", queue="mine").gang("a", pods=1, gpus=8, queue="mine")
        gone = scenario.evict(RECLAIM, "a", old_w_runs_0=None)
        assert refuses(scenario, "do not differ", scenario.bind(a_w_0="x1"), gone)

    def test_within_a_queue_nobody_reclaims_for_those_beside_them_either(self) -> None:
        scenario = cluster("x1=0/8", EvictionPolicy.RECLAIM)
        scenario = scenario.queue("mine", guaranteed={GPUS: 8}).queue("theirs")
        scenario = old(scenario, "x1", queue="theirs").gang("a", pods=1, gpus=4, queue="theirs")
        scenario = scenario.gang("b", pods=1, gpus=4, queue="mine")
        gone = scenario.evict(RECLAIM, "a", old_w_runs_0=None)
        bindings = scenario.bind(a_w_0="x1", b_w_0="x1")
        told = violations(scenario, bindings, gone)
        assert any("'queues/theirs' and 'queues/theirs' do not differ" in one for one in told)
        assert any("room of victims that they may not use" in one for one in told)

    def test_who_reclaims_from_one_queue_has_no_right_to_the_room_of_another(self) -> None:
        """Gang a could be named for "old" alone, and b for "other"."""
        scenario = cluster("x1=0/8 x2=0/8", EvictionPolicy.RECLAIM)
        for team, guaranteed in (("one", 4), ("two", 8)):
            scenario = scenario.queue(team, guaranteed={GPUS: guaranteed})
            scenario = scenario.queue(f"{team}-low", team)
            scenario = scenario.queue(f"{team}-own", team, guaranteed={GPUS: 4})
        scenario = old(scenario, "x1", queue="one-low")
        scenario = scenario.gang("other", Group("w", gpus=8, told=("x2",)), queue="two-low")
        scenario = scenario.gang("a", pods=1, gpus=4, queue="one-own")
        scenario = scenario.gang("b", pods=1, gpus=4, queue="two-own")
        gone = scenario.evict(RECLAIM, "a", old_w_runs_0=None)
        gone += scenario.evict(RECLAIM, "b", other_w_runs_0=None)
        assert accepts(scenario, scenario.bind(a_w_0="x1", b_w_0="x2"), gone)
        words = "room of victims that they may not use"
        assert refuses(scenario, words, scenario.bind(a_w_0="x1", b_w_0="x1"), gone)

    def test_not_from_a_queue_that_is_not_reclaimable(self) -> None:
        scenario = cluster("x1=0/8", EvictionPolicy.RECLAIM)
        scenario = scenario.queue("mine", guaranteed={GPUS: 8})
        scenario = scenario.queue("theirs", not_reclaimable=True)
        scenario = old(scenario, "x1", queue="theirs").gang("a", pods=1, gpus=8, queue="mine")
        words = "reclaimed from queues/theirs, which is not reclaimable"
        bindings = scenario.bind(a_w_0="x1")
        assert refuses(scenario, words, bindings, scenario.evict(RECLAIM, "a", old_w_runs_0=None))

    def test_the_first_queues_that_differ_decide(self) -> None:
        """Compared are the organisations, not the teams in them."""
        for mine, fine in ((8, True), (4, False)):
            scenario = cluster("x1=0/8", EvictionPolicy.RECLAIM)
            scenario = scenario.queue("one", guaranteed={GPUS: mine}).queue("two")
            scenario = scenario.queue("mine", "one", guaranteed={GPUS: 8}).queue("theirs", "two")
            scenario = old(scenario, "x1", queue="theirs").gang("a", pods=1, gpus=8, queue="mine")
            gone = scenario.evict(RECLAIM, "a", old_w_runs_0=None)
            bindings = scenario.bind(a_w_0="x1")
            words = "queues/one reclaims & 8 after of 4"
            assert (
                accepts(scenario, bindings, gone)
                if fine
                else refuses(scenario, words, bindings, gone)
            )

    def test_the_room_serves_those_that_reclaim(self) -> None:
        scenario = self.two(4, 4, gpus=4).gang("b", pods=1, gpus=4)
        gone = scenario.evict(RECLAIM, "a", old_w_runs_0=None)
        assert accepts(scenario, scenario.bind(a_w_0="x1"), gone)
        both = scenario.bind(a_w_0="x1", b_w_0="x1")
        assert refuses(scenario, "ask for 4 & 0 are free for them", both, gone)

    @pytest.mark.parametrize(("guaranteed", "fine"), [(8, True), (7, False)])
    def test_the_room_serves_all_that_might_be_named(self, guaranteed: int, fine: bool) -> None:
        """One pod goes for one gang, and its room is enough for another one of the queue."""
        scenario = self.two(guaranteed, 4, gpus=4).gang("b", pods=1, gpus=4, queue="mine")
        gone = scenario.evict(RECLAIM, "a", old_w_runs_0=None)
        both = scenario.bind(a_w_0="x1", b_w_0="x1")
        words = "ask for 4 & 0 are free for them"
        assert accepts(scenario, both, gone) if fine else refuses(scenario, words, both, gone)

    def test_the_room_serves_nobody_of_a_queue_that_has_its_guarantee(self) -> None:
        scenario = self.two(4, 4, gpus=4).queue("full", "org", guaranteed={GPUS: 4}, used=4)
        scenario = scenario.gang("b", pods=1, gpus=4, queue="full")
        gone = scenario.evict(RECLAIM, "a", old_w_runs_0=None)
        both = scenario.bind(a_w_0="x1", b_w_0="x1")
        assert refuses(scenario, "ask for 4 & 0 are free for them", both, gone)

    def test_run_time_before_reclaim_is_a_time_of_its_own(self) -> None:
        for field, fine in (("minimum_run_time", True), ("minimum_run_time_before_reclaim", False)):
            scenario = self.two(8, 4)
            late = replace(scenario.gangs[0], start=0, **{field: 600})  # type: ignore[arg-type]
            scenario = replace(scenario, gangs=(late, scenario.gangs[1]), as_of=10)
            gone = scenario.evict(RECLAIM, "a", old_w_runs_0=None)
            bindings = scenario.bind(a_w_0="x1")
            assert (
                accepts(scenario, bindings, gone)
                if fine
                else refuses(scenario, "has run for 10 s", bindings, gone)
            )

    @pytest.mark.parametrize(("queue", "fine"), [("two", False), ("theirs", True), ("one", True)])
    def test_the_queue_that_is_compared_says_how_long_a_gang_runs(
        self, queue: str, fine: bool
    ) -> None:
        scenario = cluster("x1=0/8", EvictionPolicy.RECLAIM)
        scenario = scenario.queue("one", guaranteed={GPUS: 8}).queue("two")
        scenario = scenario.queue("mine", "one", guaranteed={GPUS: 8}).queue("theirs", "two")
        scenario = old(scenario, "x1", queue="theirs").gang("a", pods=1, gpus=8, queue="mine")
        scenario = replace(
            scenario,
            gangs=(replace(scenario.gangs[0], start=0), scenario.gangs[1]),
            queues=tuple(
                replace(one, minimum_run_time_before_reclaim=600)
                if one.name == f"queues/{queue}"
                else one
                for one in scenario.queues
            ),
            as_of=10,
        )
        gone = scenario.evict(RECLAIM, "a", old_w_runs_0=None)
        bindings = scenario.bind(a_w_0="x1")
        words = "has run for 10 s & its minimum is 600 s"
        assert (
            accepts(scenario, bindings, gone) if fine else refuses(scenario, words, bindings, gone)
        )

    def test_room_reclaimed_for_a_sibling_serves_nobody_from_whom_a_gang_is_safe(self) -> None:
        """The sibling in its organisation may reclaim it already, the other organisation not."""
        scenario = cluster("x1=0/8", EvictionPolicy.RECLAIM)
        scenario = scenario.queue("one", guaranteed={GPUS: 8}).queue("two")
        scenario = scenario.queue("sibling", "two", guaranteed={GPUS: 4})
        scenario = old(scenario.queue("theirs", "two"), "x1", queue="theirs")
        scenario = scenario.gang("a", pods=1, gpus=4, queue="sibling")
        scenario = scenario.gang("b", pods=1, gpus=4, queue="one")
        for seconds in (5, 600):
            queues = (
                replace(q, minimum_run_time_before_reclaim=seconds * (q.name == "queues/two"))
                for q in scenario.queues
            )
            gangs = (replace(scenario.gangs[0], start=0), *scenario.gangs[1:])
            late = replace(scenario, gangs=gangs, queues=tuple(queues), as_of=10)
            gone = late.evict(RECLAIM, "a", old_w_runs_0=None)
            both = late.bind(a_w_0="x1", b_w_0="x1")
            words = "ask for 4 & 0 are free for them"
            assert accepts(late, both, gone) if seconds == 5 else refuses(late, words, both, gone)
