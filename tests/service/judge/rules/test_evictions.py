"""Evictions: whom a plan may disturb, for whom, and whom the room serves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.eviction import EvictionKind, EvictionPolicy
from placement_service.entities.queues import GPUS
from tests.scenario import Group, Scenario, near
from tests.service.judge.rules.asking import accepts, refuses, violations
from tests.service.judge.rules.evicting import cluster, old

PREEMPT, RECLAIM, MOVE = EvictionKind.PREEMPT, EvictionKind.RECLAIM, EvictionKind.MOVE


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

    def test_a_budget_is_for_pods_of_its_namespace(self) -> None:
        scenario = FULL.budget(0, group="w")
        elsewhere = replace(scenario.budgets[0], name="namespaces/other/poddisruptionbudgets/b")
        scenario = replace(scenario, budgets=(elsewhere,))
        gone = scenario.evict(PREEMPT, "a", old_w_runs_0=None)
        assert accepts(scenario, scenario.bind(a_w_0="x1"), gone)


class TestBases:
    """A gang of two pods, of which one is an extra, and one that is based on it."""

    def scenario(self, policy: EvictionPolicy = EvictionPolicy.PREEMPT) -> Scenario:
        scenario = cluster("x1=0/8 x2=4/8 x3=8", policy)
        base = Group("w", gpus=4, min=1, told=("x1", "x1"))
        scenario = scenario.gang("old", base)
        scenario = scenario.gang("more", Group("w", gpus=4, told=("x2",)), base="old")
        return scenario.gang("a", pods=1, gpus=4, priority=1)

    def test_a_base_goes_only_with_what_is_based_on_it(self) -> None:
        scenario = self.scenario()
        bindings = scenario.bind(a_w_0="x1")
        base = {"old_w_runs_0": None, "old_w_runs_1": None}
        gone = scenario.evict(PREEMPT, "a", **base)
        words = "podgangs/old goes, but gang namespaces/ml/podgangs/more is based on it"
        assert refuses(scenario, words, bindings, gone)
        gone = scenario.evict(PREEMPT, "a", **base, more_w_runs_0=None)
        assert accepts(scenario, bindings, gone)

    def test_what_is_based_on_it_may_go_alone(self) -> None:
        scenario = self.scenario()
        gone = scenario.evict(PREEMPT, "a", more_w_runs_0=None)
        assert accepts(scenario, scenario.bind(a_w_0="x2"), gone)

    def test_extras_of_a_base_may_go(self) -> None:
        scenario = self.scenario()
        gone = scenario.evict(PREEMPT, "a", old_w_runs_1=None)
        assert accepts(scenario, scenario.bind(a_w_0="x1"), gone)

    def test_a_base_may_be_moved(self) -> None:
        scenario = self.scenario(EvictionPolicy.REPACK)
        gone = scenario.evict(MOVE, "a", old_w_runs_0="x3", old_w_runs_1="x3")
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
