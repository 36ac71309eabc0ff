"""The tiers of hand-made plans, each worked out in a comment.

Plans here are written by hand and need not be good; that the engine claims what
`score` finds is tested in `test_properties`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.eviction import EvictionKind
from placement_service.entities.request import HOSTNAME, PODS, PackingScope, Policy
from placement_service.entities.solution import TierName
from placement_service.judge.score import GangScore, ScopeUse, Score, score
from tests.scenario import Group, Scenario, gang_name

RACKS = "b1/r1: x1=8 x2=8 | b1/r2: x3=8 x4=8 | : x5=8 x6=8"


def scored(scenario: Scenario, **pods: str) -> Score:
    return score(scenario.snapshot(), scenario.policy, scenario.bind(**pods))


class TestAdmitted:
    def test_a_placed_gang_is_worth_the_gpus_of_its_minimum(self) -> None:
        # Two pods of 4 GPUs are the minimum; the third is an extra.
        scenario = Scenario(RACKS).gang("a", pods=3, gpus=4, min=2)
        assert scored(scenario).counts[TierName.ADMITTED] == (0,)
        assert scored(scenario, a_w_0="x1", a_w_1="x1").counts[TierName.ADMITTED] == (8_000_000,)
        assert scored(scenario, a_w_0="x1", a_w_1="x1", a_w_2="x2").counts[TierName.ADMITTED] == (
            8_000_000,
        )

    def test_priorities_are_told_apart_from_high_to_low_and_reported_as_a_sum(self) -> None:
        scenario = Scenario(RACKS).gang("low", pods=1, gpus=2).gang("none", pods=1, priority=5)
        scenario = scenario.gang("high", pods=1, gpus=4, priority=9)
        result = scored(scenario, low_w_0="x1", high_w_0="x1")
        assert result.counts[TierName.ADMITTED] == (4_000_000, 0, 2_000_000)
        assert result.value(TierName.ADMITTED) == 6.0

    def test_a_gang_whose_minimum_runs_is_not_admitted_again(self) -> None:
        scenario = Scenario(RACKS).gang("a", Group("w", pods=1, gpus=4, min=1, on=("x1",)))
        result = scored(scenario, a_w_0="x1")
        assert result.counts[TierName.ADMITTED] == (0,)
        assert result.counts[TierName.EXTRA] == (1,)

    def test_a_gang_that_runs_in_part_is_worth_its_whole_minimum(self) -> None:
        scenario = Scenario(RACKS).gang("a", Group("w", pods=1, gpus=4, min=2, on=("x1",)))
        assert scored(scenario, a_w_0="x1").counts[TierName.ADMITTED] == (8_000_000,)

    def test_a_gang_without_gpus_is_worth_its_dominant_share_of_the_cluster(self) -> None:
        # 32 of 6 x 64 cores, of four resources that the nodes have.
        scenario = Scenario(RACKS).gang("a", Group("w", pods=1, cpus=32))
        there = {r for n in scenario.snapshot().nodes for r in n.allocatable} - {PODS}
        share = 900_000 * 32 // (6 * 64 * len(there))
        assert scored(scenario, a_w_0="x1").counts[TierName.ADMITTED] == (1 + share,)

    def test_a_gang_that_asks_for_nothing_still_counts(self) -> None:
        assert scored(Scenario(RACKS).gang("a", pods=1), a_w_0="x1").counts[TierName.ADMITTED] == (
            1,
        )


class TestExtra:
    def test_pods_beyond_the_missing_minimum_count(self) -> None:
        # Two are missing; four come.
        scenario = Scenario(RACKS).gang("a", Group("w", pods=4, min=3, on=("x1",)))
        pods = {f"a_w_{i}": "x1" for i in range(4)}
        assert scored(scenario, **pods).counts[TierName.EXTRA] == (2,)

    def test_each_group_has_its_own_minimum(self) -> None:
        groups = Group("p", pods=2, min=1), Group("d", pods=2, min=2)
        scenario = Scenario(RACKS).gang("a", *groups)
        result = scored(scenario, a_p_0="x1", a_p_1="x1", a_d_0="x1", a_d_1="x1")
        assert result.counts[TierName.EXTRA] == (1,)

    def test_pods_without_minimum_are_all_extras(self) -> None:
        scenario = Scenario(RACKS).gang("a", pods=2, min=0)
        assert scored(scenario, a_w_0="x1", a_w_1="x1").counts[TierName.EXTRA] == (2,)


class TestTopology:
    PAIR = Scenario(RACKS).gang("a", pods=2, prefer="rack")

    @pytest.mark.parametrize(
        ("nodes", "want"),
        [
            pytest.param(("x1", "x2"), 0, id="one rack"),
            pytest.param(("x1", "x3"), 1000, id="two racks"),
            pytest.param(("x1", "x5"), 1000, id="a rack and a node without label"),
            pytest.param(("x5", "x6"), 1000, id="two nodes without label"),
            pytest.param(("x5", "x5"), 0, id="one node without label"),
        ],
    )
    def test_each_domain_beyond_the_first_counts(self, nodes: tuple[str, str], want: int) -> None:
        result = scored(self.PAIR, a_w_0=nodes[0], a_w_1=nodes[1])
        assert result.counts[TierName.TOPOLOGY] == (want,)
        assert result.value(TierName.TOPOLOGY) == want / 1000

    def test_running_pods_use_domains_too(self) -> None:
        group = Group("w", pods=1, min=1, on=("x1", "gone"))
        scenario = Scenario(RACKS).gang("a", group, prefer="rack")
        # The rack of x1, the node that is gone, and r2.
        assert scored(scenario, a_w_0="x3").counts[TierName.TOPOLOGY] == (2000,)

    def test_a_gang_without_new_pods_does_not_count(self) -> None:
        assert scored(Scenario(RACKS).gang("a", Group("w", on=("x1", "x3")), prefer="rack")).counts[
            TierName.TOPOLOGY
        ] == (0,)

    def test_every_preferred_scope_counts(self) -> None:
        # The gang uses r1 and r2, group d too, group p only r1; hosts of p: one too many.
        groups = Group("p", pods=2, prefer="host"), Group("d", pods=2, prefer="rack")
        scenario = Scenario(RACKS).gang("a", *groups, prefer="rack")
        result = scored(scenario, a_p_0="x1", a_p_1="x2", a_d_0="x1", a_d_1="x3")
        assert result.counts[TierName.TOPOLOGY] == (3000,)

    def test_a_scope_without_pods_counts_nothing(self) -> None:
        groups = Group("p", pods=1), Group("d", pods=1, min=0, prefer="rack")
        assert scored(Scenario(RACKS).gang("a", *groups), a_p_0="x1").counts[TierName.TOPOLOGY] == (
            0,
        )

    def test_required_levels_count_nothing(self) -> None:
        scenario = Scenario(RACKS).gang("a", pods=2, pack="block")
        assert scored(scenario, a_w_0="x1", a_w_1="x3").counts[TierName.TOPOLOGY] == (0,)

    def test_each_new_pod_away_from_its_previous_nodes_counts_a_thousandth(self) -> None:
        scenario = Scenario(RACKS).gang("a", pods=3, previous=["x1", "gone"])
        result = scored(scenario, a_w_0="x1", a_w_1="x2", a_w_2="x3")
        assert result.counts[TierName.TOPOLOGY] == (2,)
        assert result.value(TierName.TOPOLOGY) == 0.002

    def test_previous_nodes_that_are_all_gone_cost_nothing(self) -> None:
        scenario = Scenario(RACKS).gang("a", pods=1, previous=["gone", "away"])
        assert scored(scenario, a_w_0="x1").counts[TierName.TOPOLOGY] == (0,)


class TestSets:
    def set_of_two(self, **base: str) -> Scenario:
        scenario = Scenario(RACKS).gang("a", Group("w", pods=1), **base)  # type: ignore[arg-type]
        return scenario.gang("s", pods=1, base="a").gang("t", pods=1, base="a")

    def test_base_and_scaled_gangs_count_as_one(self) -> None:
        scenario = self.set_of_two(pack="rack")
        assert scored(scenario, a_w_0="x1", s_w_0="x2", t_w_0="x1").counts[TierName.TOPOLOGY] == (
            0,
        )
        # r1, r2 and the node x5 by itself.
        assert scored(scenario, a_w_0="x1", s_w_0="x3", t_w_0="x5").counts[TierName.TOPOLOGY] == (
            2000,
        )

    def test_the_preferred_level_serves_when_nothing_is_required(self) -> None:
        scenario = self.set_of_two(prefer="rack")
        assert scored(scenario, a_w_0="x1", s_w_0="x3", t_w_0="x1").counts[TierName.TOPOLOGY] == (
            1000,
        )

    def test_the_required_level_goes_first(self) -> None:
        scenario = self.set_of_two(pack="block", prefer="rack")
        assert scored(scenario, a_w_0="x1", s_w_0="x3", t_w_0="x1").counts[TierName.TOPOLOGY] == (
            0,
        )

    def test_no_level_no_term(self) -> None:
        assert scored(self.set_of_two(), a_w_0="x1", s_w_0="x3").counts[TierName.TOPOLOGY] == (0,)

    def test_only_a_scope_over_the_whole_base_gives_the_level(self) -> None:
        groups = Group("p", pods=1, pack="rack"), Group("d", pods=1)
        part = Scenario(RACKS).gang("a", *groups).gang("s", pods=1, base="a")
        assert scored(part, a_p_0="x1", a_d_0="x1", s_w_0="x3").counts[TierName.TOPOLOGY] == (0,)
        both = PackingScope("both", ("d", "p"), "rack")
        whole = Scenario(RACKS).gang("a", *groups, scopes=[both]).gang("s", pods=1, base="a")
        assert scored(whole, a_p_0="x1", a_d_0="x1", s_w_0="x3").counts[TierName.TOPOLOGY] == (
            1000,
        )

    def test_a_base_that_runs_counts_when_a_scaled_gang_comes(self) -> None:
        base = Scenario(RACKS).gang("a", Group("w", on=("x1",)), pack="rack")
        scenario = base.gang("s", pods=1, base="a")
        assert scored(scenario).counts[TierName.TOPOLOGY] == (0,)
        assert scored(scenario, s_w_0="x3").counts[TierName.TOPOLOGY] == (1000,)

    def test_a_set_that_gets_nothing_new_does_not_count(self) -> None:
        base = Scenario(RACKS).gang("a", Group("w", on=("x1",)), pack="rack")
        scenario = base.gang("s", Group("w", on=("x3",)), base="a").gang("b", pods=1)
        assert scored(scenario, b_w_0="x1").counts[TierName.TOPOLOGY] == (0,)

    def test_a_base_alone_is_no_set(self) -> None:
        scenario = self.set_of_two(pack="rack")
        assert scored(scenario, a_w_0="x1").counts[TierName.TOPOLOGY] == (0,)


class TestFragmentation:
    def test_a_free_node_that_is_broken_into_counts_one(self) -> None:
        scenario = Scenario("x1=8 x2=4/8").gang("a", pods=1, gpus=1)
        assert scored(scenario, a_w_0="x1").counts[TierName.FRAGMENTATION] == (1,)
        assert scored(scenario, a_w_0="x2").counts[TierName.FRAGMENTATION] == (0,)

    def test_a_free_domain_of_a_named_level_counts_its_nodes(self) -> None:
        # r1 is free: 2 nodes and the node itself. r2 is in use: only the node itself.
        scenario = Scenario("r1: x1=8 x2=8 | r2: x3=8 x4=4/8").gang(
            "a", pods=1, gpus=1, pack="rack"
        )
        assert scored(scenario, a_w_0="x1").counts[TierName.FRAGMENTATION] == (3,)
        assert scored(scenario, a_w_0="x3").counts[TierName.FRAGMENTATION] == (1,)
        assert scored(scenario, a_w_0="x4").counts[TierName.FRAGMENTATION] == (0,)

    def test_a_level_that_nobody_names_does_not_count(self) -> None:
        scenario = Scenario("r1: x1=8 x2=8").gang("a", pods=1, gpus=1)
        assert scored(scenario, a_w_0="x1").counts[TierName.FRAGMENTATION] == (1,)

    def test_the_level_of_hosts_counts_once_even_if_named(self) -> None:
        scenario = Scenario("r1: x1=8 x2=8").gang("a", pods=1, gpus=1, pack="host")
        assert scored(scenario, a_w_0="x1").counts[TierName.FRAGMENTATION] == (1,)

    def test_nodes_without_gpus_are_not_part_of_a_domain(self) -> None:
        scenario = Scenario("r1: x1=8 x2=0").gang("a", pods=1, gpus=1, pack="rack")
        assert scored(scenario, a_w_0="x1").counts[TierName.FRAGMENTATION] == (2,)

    def test_pods_without_gpus_belong_on_nodes_without(self) -> None:
        scenario = Scenario("x1=8 x2=0").gang("a", Group("w", pods=2, cpus=1))
        assert scored(scenario, a_w_0="x2", a_w_1="x2").counts[TierName.FRAGMENTATION] == (0,)
        assert scored(scenario, a_w_0="x1", a_w_1="x1").counts[TierName.FRAGMENTATION] == (2,)

    @pytest.mark.parametrize(("to", "want"), [("x1", 0), ("x2", 1)])
    def test_a_pod_that_only_gets_other_devices_is_not_new_on_its_node(
        self, to: str, want: int
    ) -> None:
        scenario = Scenario("x1=4/8 x2=8").gang("a", Group("w", told=("x1",), cpus=1))
        moves = scenario.evict(EvictionKind.MOVE, a_w_runs_0=to)
        result = score(scenario.snapshot(), scenario.policy, (), moves)
        assert result.counts[TierName.FRAGMENTATION] == (want,)

    def test_pods_without_gpus_count_even_where_they_must_be(self) -> None:
        groups = Group("w", pods=1, gpus=4), Group("side", pods=2, cpus=1)
        scenario = Scenario("x1=4/8").gang("a", *groups, pack="host")
        assert scored(scenario, a_w_0="x1", a_side_0="x1", a_side_1="x1").counts[
            TierName.FRAGMENTATION
        ] == (2,)

    def test_without_any_gpu_every_node_and_pod_counts(self) -> None:
        scenario = Scenario("r1: x1=0 x2=0").gang("a", Group("w", pods=1, cpus=1), pack="rack")
        assert scored(scenario, a_w_0="x1").counts[TierName.FRAGMENTATION] == (3,)
        used = replace(scenario.nodes[0], requested={PODS: 1})
        assert scored(replace(scenario, nodes=(used, scenario.nodes[1])), a_w_0="x1").counts[
            TierName.FRAGMENTATION
        ] == (0,)

    def test_the_policy_says_what_a_gpu_is(self) -> None:
        scenario = Scenario("x1=8 x2=8").gang("a", pods=1, gpus=1)
        scenario = replace(scenario, policy=Policy(gpu_resources=("amd.com/gpu",)))
        # No node has such GPUs, so that only pods tell whether a node is free.
        assert scored(scenario, a_w_0="x1").counts[TierName.FRAGMENTATION] == (1,)


class TestGangs:
    def test_facts_tell_what_is_placed_and_where(self) -> None:
        scenario = Scenario(RACKS).gang("a", pods=3, min=2, pack="block", prefer="rack")
        scenario = scenario.gang("b", pods=1)
        result = scored(scenario, a_w_0="x1", a_w_1="x3")
        assert result.gangs == (
            GangScore(
                gang_name("a"),
                placed=True,
                new=2,
                scopes=(
                    ScopeUse("a", "block", True, ("b1",), 1),
                    ScopeUse("a", "rack", False, ("r1", "r2"), 2),
                ),
            ),
            GangScore(gang_name("b"), placed=False, new=0, scopes=()),
        )
        assert [gang.preferred_domains for gang in result.gangs] == [2, None]

    def test_nodes_without_label_are_one_empty_value_and_a_domain_each(self) -> None:
        scenario = Scenario(RACKS).gang("a", pods=3, prefer="rack")
        (gang,) = scored(scenario, a_w_0="x1", a_w_1="x5", a_w_2="x6").gangs
        assert gang.scopes == (ScopeUse("a", "rack", False, ("", "r1"), 3),)
        assert gang.preferred_domains == 3

    def test_preferred_scopes_add_up(self) -> None:
        groups = Group("p", pods=2, prefer="host"), Group("d", pods=1)
        scenario = Scenario(RACKS).gang("a", *groups, prefer="rack")
        (gang,) = scored(scenario, a_p_0="x1", a_p_1="x2", a_d_0="x3").gangs
        assert [(use.level, use.count) for use in gang.scopes] == [("rack", 2), (HOSTNAME, 2)]
        assert gang.preferred_domains == 4

    def test_a_gang_with_its_minimum_running_is_placed(self) -> None:
        (gang,) = scored(Scenario(RACKS).gang("a", Group("w", min=1, on=("x1",)))).gangs
        assert gang.placed
        assert gang.new == 0


def test_gangs_that_are_placed_count_their_waiting_in_whole_minutes_at_least_one() -> None:
    """Without a time of the snapshot nobody is known to have waited."""
    scenario = Scenario("x1=8").gang("old", Group("w", gpus=1, told=("x1",)), waited=6000)
    for name, waited in (("a", 179), ("b", 10), ("c", 600)):
        scenario = scenario.gang(name, pods=1, gpus=1, waited=waited)
    bindings = scenario.bind(a_w_0="x1", b_w_0="x1")
    for as_of, minutes in ((scenario.as_of, 2 + 1), (None, 1 + 1)):
        snapshot = replace(scenario, as_of=as_of).snapshot()
        counts = score(snapshot, scenario.policy, bindings).counts
        assert counts[TierName.WAITING] == (minutes,)
