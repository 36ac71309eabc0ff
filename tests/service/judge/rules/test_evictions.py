"""Evictions: whom a plan may disturb, for whom, and whom the room serves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placement_service.entities.eviction import EvictionKind, EvictionPolicy
from placement_service.entities.queues import GPUS
from placement_service.entities.request import Policy
from tests.scenario import Group, Scenario, near
from tests.service.judge.rules.asking import accepts, refuses, violations

PREEMPT, RECLAIM, MOVE = EvictionKind.PREEMPT, EvictionKind.RECLAIM, EvictionKind.MOVE


def cluster(drawing: str, policy: EvictionPolicy) -> Scenario:
    return Scenario(drawing, policy=Policy(eviction=policy))


def old(scenario: Scenario, *told: str, gpus: int = 8, **more: Any) -> Scenario:
    """A gang that runs, with eight GPUs on each of these nodes."""
    return scenario.gang("old", Group("w", gpus=gpus, told=told), **more)


#: A full node, and a gang of higher priority than the one on it.
FULL = old(cluster("x1=0/8", EvictionPolicy.PREEMPT), "x1").gang("a", pods=1, gpus=8, priority=1)


class TestPolicy:
    def test_a_gang_of_lower_priority_gives_way(self) -> None:
        bindings = FULL.bind(a_w_0="x1")
        assert accepts(FULL, bindings, FULL.evict(PREEMPT, "a", old_w_runs_0=None))
        assert refuses(FULL, "ask for 8 & 0 are free", bindings)

    @pytest.mark.parametrize(
        ("policy", "kinds"),
        [
            (EvictionPolicy.NONE, set()),
            (EvictionPolicy.PREEMPT, {PREEMPT}),
            (EvictionPolicy.RECLAIM, {PREEMPT, RECLAIM}),
            (EvictionPolicy.REPACK, {MOVE}),
        ],
    )
    def test_a_policy_allows_some_kinds(
        self, policy: EvictionPolicy, kinds: set[EvictionKind]
    ) -> None:
        scenario = cluster("x1=0/8 x2=8", policy)
        scenario = scenario.queue("mine", guaranteed={GPUS: 8}).queue("theirs")
        scenario = old(scenario, "x1", queue="theirs")
        scenario = scenario.gang("a", pods=1, gpus=8, priority=1, queue="mine")
        for kind in EvictionKind:
            to = "x2" if kind is MOVE else None
            gone = scenario.evict(kind, "a", old_w_runs_0=to)
            bindings = scenario.bind(a_w_0="x1")
            words = f"evicted by {kind.value} & does not allow"
            fine = kind in kinds
            assert (
                accepts(scenario, bindings, gone)
                if fine
                else refuses(scenario, words, bindings, gone)
            )

    def test_what_does_not_run_cannot_go(self) -> None:
        gone = FULL.evict(PREEMPT, "a", old_w_runs_9=None)
        assert refuses(FULL, "does not run", (), gone)

    def test_pods_without_a_template_stay(self) -> None:
        scenario = cluster("x1=0/8", EvictionPolicy.PREEMPT).gang("old", Group("w", on=("x1",)))
        scenario = scenario.gang("a", pods=1, gpus=8, priority=1)
        gone = scenario.evict(PREEMPT, "a", old_w_bound_0=None)
        assert refuses(scenario, "does not run in a pod set", (), gone)

    def test_a_pod_goes_once(self) -> None:
        (gone,) = FULL.evict(PREEMPT, "a", old_w_runs_0=None)
        assert refuses(FULL, "evicted twice", FULL.bind(a_w_0="x1"), (gone, gone))

    def test_an_eviction_names_gang_and_node(self) -> None:
        (gone,) = FULL.evict(PREEMPT, "a", old_w_runs_0=None)
        for wrong in (replace(gone, gang="b"), replace(gone, node="nodes/x2")):
            assert refuses(FULL, "the request says gang", FULL.bind(a_w_0="x1"), (wrong,))

    def test_only_moved_pods_go_somewhere(self) -> None:
        gone = FULL.evict(PREEMPT, "a", old_w_runs_0="x1")
        assert refuses(FULL, "evicted, not moved", FULL.bind(a_w_0="x1"), gone)


class TestWhoMayBeDisturbed:
    def test_gangs_that_are_not_preemptible_stay(self) -> None:
        scenario = old(cluster("x1=0/8", EvictionPolicy.PREEMPT), "x1", not_preemptible=True)
        scenario = scenario.gang("a", pods=1, gpus=8, priority=1)
        gone = scenario.evict(PREEMPT, "a", old_w_runs_0=None)
        words = "not preemptible but loses 1 pods"
        assert refuses(scenario, words, scenario.bind(a_w_0="x1"), gone)

    def elastic(self, minimum: int) -> Scenario:
        scenario = cluster("x1=0/8", EvictionPolicy.PREEMPT)
        group = Group("w", gpus=2, told=("x1",) * 4, min=minimum)
        return scenario.gang("old", group).gang("a", pods=1, gpus=4, priority=1)

    def test_extras_may_go(self) -> None:
        scenario = self.elastic(2)
        gone = scenario.evict(PREEMPT, "a", old_w_runs_0=None, old_w_runs_1=None)
        assert accepts(scenario, scenario.bind(a_w_0="x1"), gone)

    def test_no_gang_is_left_below_its_minimum(self) -> None:
        scenario = self.elastic(3)
        gone = scenario.evict(PREEMPT, "a", old_w_runs_0=None, old_w_runs_1=None)
        words = "group w keeps 2, its minimum is 3"
        assert refuses(scenario, words, scenario.bind(a_w_0="x1"), gone)

    def test_a_whole_gang_may_go(self) -> None:
        scenario = self.elastic(3)
        every = {f"old_w_runs_{i}": None for i in range(4)}
        gone = scenario.evict(PREEMPT, "a", **every)
        assert accepts(scenario, scenario.bind(a_w_0="x1"), gone)

    def test_a_gang_with_pods_that_cannot_go_is_never_whole(self) -> None:
        scenario = cluster("x1=0/8 x2=8", EvictionPolicy.PREEMPT)
        scenario = scenario.gang("old", Group("w", gpus=8, told=("x1",), on=("x2",)))
        scenario = scenario.gang("a", pods=1, gpus=8, priority=1)
        gone = scenario.evict(PREEMPT, "a", old_w_runs_0=None)
        assert refuses(scenario, "keeps 1, its minimum is 2", scenario.bind(a_w_0="x1"), gone)

    @pytest.mark.parametrize(
        ("ran", "words"), [(599, "has run for 599 s & minimum is 600 s"), (600, "")]
    )
    def test_a_gang_runs_for_its_minimum_time(self, ran: int, words: str) -> None:
        scenario = old(
            cluster("x1=0/8", EvictionPolicy.PREEMPT), "x1", start=1000, minimum_run_time=600
        )
        scenario = replace(scenario.gang("a", pods=1, gpus=8, priority=1), as_of=1000 + ran)
        gone = scenario.evict(PREEMPT, "a", old_w_runs_0=None)
        bindings = scenario.bind(a_w_0="x1")
        assert (
            refuses(scenario, words, bindings, gone) if words else accepts(scenario, bindings, gone)
        )

    @pytest.mark.parametrize("start", [None, 0])
    def test_without_a_time_of_the_snapshot_no_minimum_is_over(self, start: int | None) -> None:
        """Of a gang that does not say since when it runs nothing is protected."""
        scenario = old(
            cluster("x1=0/8", EvictionPolicy.PREEMPT), "x1", start=start, minimum_run_time=600
        )
        scenario = replace(scenario.gang("a", pods=1, gpus=8, priority=1), as_of=None)
        gone = scenario.evict(PREEMPT, "a", old_w_runs_0=None)
        bindings = scenario.bind(a_w_0="x1")
        if start is None:
            assert accepts(scenario, bindings, gone)
        else:
            assert refuses(scenario, "for an unknown time", bindings, gone)

    def test_extras_are_not_protected_by_run_time(self) -> None:
        scenario = cluster("x1=0/8", EvictionPolicy.PREEMPT)
        group = Group("w", gpus=4, told=("x1", "x1"), min=1)
        scenario = scenario.gang("old", group, start=0, minimum_run_time=600)
        scenario = replace(scenario.gang("a", pods=1, gpus=4, priority=1), as_of=1)
        gone = scenario.evict(PREEMPT, "a", old_w_runs_1=None)
        assert accepts(scenario, scenario.bind(a_w_0="x1"), gone)

    @pytest.mark.parametrize("allowed", [0, 1])
    def test_budgets_limit_what_goes(self, allowed: int) -> None:
        scenario = FULL.budget(allowed, group="w")
        gone = scenario.evict(PREEMPT, "a", old_w_runs_0=None)
        bindings = scenario.bind(a_w_0="x1")
        words = "1 pods of & are evicted, it allows 0"
        assert (
            accepts(scenario, bindings, gone)
            if allowed
            else refuses(scenario, words, bindings, gone)
        )

    def test_a_budget_is_for_the_pods_that_it_matches(self) -> None:
        scenario = FULL.budget(0, group="another")
        gone = scenario.evict(PREEMPT, "a", old_w_runs_0=None)
        assert accepts(scenario, scenario.bind(a_w_0="x1"), gone)


class TestPreempt:
    @pytest.mark.parametrize(("priority", "fine"), [(1, True), (0, False), (-1, False)])
    def test_only_for_a_strictly_higher_priority(self, priority: int, fine: bool) -> None:
        scenario = old(cluster("x1=0/8 x2=8", EvictionPolicy.PREEMPT), "x1")
        scenario = scenario.gang("a", pods=1, gpus=8, priority=priority)
        gone = scenario.evict(PREEMPT, "a", old_w_runs_0=None)
        bindings = scenario.bind(a_w_0="x2")
        words = f"of priority 0 is preempted for & of priority {priority}"
        assert (
            accepts(scenario, bindings, gone) if fine else refuses(scenario, words, bindings, gone)
        )

    def test_never_for_a_gang_that_never_preempts(self) -> None:
        scenario = old(cluster("x1=0/8 x2=8", EvictionPolicy.PREEMPT), "x1")
        scenario = scenario.gang("a", pods=1, gpus=8, priority=1, never_preempts=True)
        gone = scenario.evict(PREEMPT, "a", old_w_runs_0=None)
        assert refuses(scenario, "never preempts", scenario.bind(a_w_0="x2"), gone)

    def test_a_victim_goes_for_somebody_who_gets_pods(self) -> None:
        gone = FULL.evict(PREEMPT, "a", old_w_runs_0=None)
        assert refuses(FULL, "is no gang that gets new pods", (), gone)
        nobody = FULL.evict(PREEMPT, "b", old_w_runs_0=None)
        assert refuses(FULL, "is no gang that gets new pods", FULL.bind(a_w_0="x1"), nobody)

    @pytest.mark.parametrize("priority", [0, 1])
    def test_the_room_serves_only_those_above_the_victim(self, priority: int) -> None:
        """The high gang takes half of what its victim leaves."""
        scenario = old(cluster("x1=0/8", EvictionPolicy.PREEMPT), "x1")
        scenario = scenario.gang("a", pods=1, gpus=4, priority=2)
        scenario = scenario.gang("b", pods=1, gpus=4, priority=priority)
        gone = scenario.evict(PREEMPT, "a", old_w_runs_0=None)
        both = scenario.bind(a_w_0="x1", b_w_0="x1")
        words = "podgangs/b ask for 4 nvidia.com/gpu, 0 are free for them"
        assert accepts(scenario, both, gone) if priority else refuses(scenario, words, both, gone)

    def test_room_that_was_free_serves_everybody(self) -> None:
        scenario = cluster("x1=4/12", EvictionPolicy.PREEMPT)
        scenario = old(scenario, "x1").gang("a", pods=1, gpus=8, priority=2)
        scenario = scenario.gang("b", pods=1, gpus=4, priority=0)
        gone = scenario.evict(PREEMPT, "a", old_w_runs_0=None)
        assert accepts(scenario, scenario.bind(a_w_0="x1", b_w_0="x1"), gone)

    @pytest.mark.parametrize(
        ("known", "owner"),
        [
            pytest.param(True, True, id="an owner"),
            pytest.param(True, False, id="another"),
            pytest.param(False, False, id="of one that is not told"),
        ],
    )
    def test_a_victim_in_a_reservation_leaves_its_room_to_owners(
        self, known: bool, owner: bool
    ) -> None:
        gang = FULL.gangs[0]
        pod_set = gang.groups[0].pod_sets[0]
        pods = tuple(replace(p, reservation="reservations/held") for p in pod_set.bound_pods)
        group = replace(gang.groups[0], pod_sets=(replace(pod_set, bound_pods=pods),))
        scenario = replace(FULL, gangs=(replace(gang, groups=(group,)), FULL.gangs[1]))
        if known:
            scenario = scenario.hold("held", "x1", 0, "w" if owner else "nobody")
        gone = scenario.evict(PREEMPT, "a", old_w_runs_0=None)
        (binding,) = scenario.bind(a_w_0="x1")
        used = "reservations/held" if owner else ""
        found = violations(scenario, (binding._replace(reservation=used),), gone)
        free = 8 if known else 0
        assert bool(found) is not owner
        assert all(f"ask for 8 nvidia.com/gpu, {free} are free" in text for text in found)


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


class TestMove:
    #: Two half full nodes and a gang that needs a whole one.
    HALVES = (
        cluster("x1=4/8 x2=4/8", EvictionPolicy.REPACK)
        .gang("one", Group("w", gpus=4, told=("x1",)))
        .gang("two", Group("w", gpus=4, told=("x2",)))
        .gang("a", pods=1, gpus=8)
    )

    def test_one_move_joins_two_halves(self) -> None:
        gone = self.HALVES.evict(MOVE, one_w_runs_0="x2")
        assert accepts(self.HALVES, self.HALVES.bind(a_w_0="x1"), gone)

    def test_what_moves_needs_room(self) -> None:
        gone = self.HALVES.evict(MOVE, one_w_runs_0="x2")
        words = "node nodes/x2: 2 new pods ask for 12"
        assert refuses(self.HALVES, words, self.HALVES.bind(a_w_0="x2"), gone)

    def test_a_gang_that_lacks_pods_moves_only_where_it_is_made_whole(self) -> None:
        scenario = cluster("x1=4/8 x2=8", EvictionPolicy.REPACK)
        scenario = scenario.gang("old", Group("w", pods=1, gpus=4, min=2, told=("x1",)))
        gone = scenario.evict(MOVE, old_w_runs_0="x2")
        assert refuses(scenario, "group w has 1 pods & its minimum is 2", (), gone)
        assert accepts(scenario, scenario.bind(old_w_0="x2"), gone)

    def test_it_goes_to_a_node_of_the_snapshot(self) -> None:
        """It may be its own: of a gang that moves whole some pods may start again in place."""
        unknown = self.HALVES.evict(MOVE, one_w_runs_0="x9")
        assert refuses(self.HALVES, "is moved to nodes/x9, which", (), unknown)
        assert accepts(self.HALVES, (), self.HALVES.evict(MOVE, one_w_runs_0="x1"))

    def test_it_keeps_the_rules_of_its_pod(self) -> None:
        scenario = cluster("x1=0/8 x2=8", EvictionPolicy.REPACK).node("x2", cordoned=True)
        scenario = old(scenario, "x1")
        gone = scenario.evict(MOVE, old_w_runs_0="x2")
        assert refuses(scenario, "is moved to node nodes/x2, which is unschedulable", (), gone)
        tainted = scenario.node("x2", taints=["gpu"])
        assert refuses(tainted, "does not tolerate", (), gone)

    def test_it_keeps_the_required_level_of_its_gang(self) -> None:
        scenario = cluster("r1: x1=0/8 x2=8 | r2: x3=8", EvictionPolicy.REPACK)
        group = Group("w", gpus=4, told=("x1", "x1"), min=1)
        scenario = scenario.gang("old", group, pack="rack")
        assert accepts(scenario, (), scenario.evict(MOVE, old_w_runs_0="x2"))
        words = "requires one rack but uses 2: r1, r2"
        assert refuses(scenario, words, (), scenario.evict(MOVE, old_w_runs_0="x3"))

    def test_gangs_move_whole_or_only_their_extras(self) -> None:
        scenario = cluster("x1=0/8 x2=8", EvictionPolicy.REPACK)
        scenario = scenario.gang("old", Group("w", gpus=4, told=("x1", "x1")))
        words = "keeps 1, its minimum is 2"
        assert refuses(scenario, words, (), scenario.evict(MOVE, old_w_runs_0="x2"))
        whole = scenario.evict(MOVE, old_w_runs_0="x2", old_w_runs_1="x2")
        assert accepts(scenario, (), whole)


def test_a_pod_that_went_keeps_nobody_away() -> None:
    scenario = cluster("x1=0/8", EvictionPolicy.PREEMPT)
    scenario = old(scenario, "x1").runs("old-w-runs-0", "x1", app="old")
    away = Group("w", pods=1, gpus=8, away=(near("host", app="old"),))
    scenario = scenario.gang("a", away, priority=1)
    gone = scenario.evict(PREEMPT, "a", old_w_runs_0=None)
    assert accepts(scenario, scenario.bind(a_w_0="x1"), gone)
