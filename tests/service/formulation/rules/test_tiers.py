"""Which of the plans that keep the rules is best, tier by tier.

Solved by the real engine on the smallest cluster where the tier decides. Each test solves the same
question twice with one difference; a comment derives the optimum.
All answers must be proven.
"""

from __future__ import annotations

from dataclasses import replace

from placement_service.entities.request import Policy
from placement_service.entities.solution import Tier
from tests.scenario import Group, Scenario, near, spread


class TestPreferredPacking:
    RACKS = "r1: x1=8 x2=8 | r2: x3=8 x4=8"

    def test_the_fewest_domains_are_used(self) -> None:
        placed = Scenario(self.RACKS).gang("a", pods=2, gpus=8, prefer="rack").place()
        placed.expect(placed=["a"], topology=0)
        assert len(placed.domains("rack", "a")) == 1

    def test_it_never_blocks(self) -> None:
        # Three nodes need two racks: one too many.
        scenario = Scenario(self.RACKS).gang("a", pods=3, gpus=8, prefer="rack")
        scenario.place().expect(placed=["a"], topology=1)

    def test_a_rule_at_a_level_that_no_node_has_does_not_spoil_the_packing(self) -> None:
        # "p" must be alone on its host by its own spread; both "d" share another: one too many.
        everybody = spread("host")
        groups = Group("p", pods=1, spread=(everybody,)), Group("d", pods=2, away=(near("rack"),))
        scenario = Scenario("x1=8 x2=8 x3=8").gang("a", *groups, prefer="host")
        scenario.place().expect(placed=["a"], topology=1)

    def test_extras_go_before_packing(self) -> None:
        # The extra costs a second rack, and is worth it: extras are the tier before.
        scenario = Scenario(self.RACKS).gang("a", pods=3, gpus=8, min=2, prefer="rack")
        scenario.place().expect(extra=1, topology=1)

    def test_one_gang_makes_way_for_the_packing_of_another(self) -> None:
        # "solo" fits anywhere; only in the rack of one free node it leaves whole racks to "pair".
        cluster = Scenario("r1: x1=8 x2=8 | r2: x3=8 x4=0/8")
        scenario = cluster.gang("solo", pods=1, gpus=8).gang("pair", pods=2, gpus=8, prefer="rack")
        scenario.place().expect(nodes={"solo": {"x3": 1}, "pair": {"x1": 1, "x2": 1}}, topology=0)

    def test_running_pods_draw_new_ones(self) -> None:
        cluster = Scenario("r1: x1=8 x2=8 | r2: x3=0/8 x4=8")
        group = Group("w", pods=1, gpus=8, on=("x3",))
        scenario = cluster.gang("a", group, prefer="rack")
        scenario.place().expect(nodes={"a": {"x4": 1}}, topology=0)

    def test_running_pods_on_a_node_that_is_gone_are_in_one_domain_of_its_own(self) -> None:
        group = Group("w", pods=1, gpus=8, on=("gone", "gone"))
        scenario = Scenario(self.RACKS).gang("a", group, prefer="rack")
        scenario.place().expect(placed=["a"], topology=1)

    def test_previous_nodes_are_used_again(self) -> None:
        cluster = Scenario(self.RACKS)
        for node in ("x1", "x4"):
            scenario = cluster.gang("a", pods=1, gpus=8, previous=[node])
            scenario.place().expect(nodes={"a": {node: 1}}, topology=0)

    def test_previous_nodes_that_are_all_gone_cost_nothing(self) -> None:
        scenario = Scenario(self.RACKS).gang("a", pods=1, gpus=8, previous=["gone"])
        scenario.place().expect(placed=["a"], topology=0)

    def test_packing_goes_before_previous_nodes(self) -> None:
        # Staying on x1 and x3 costs a whole domain; leaving one of them a thousandth.
        scenario = Scenario(self.RACKS).gang(
            "a", pods=2, gpus=8, prefer="rack", previous=["x1", "x3"]
        )
        scenario.place().expect(topology=0.001)


class TestPriority:
    def test_a_higher_priority_is_never_left_out_for_lower_ones(self) -> None:
        # One GPU of high priority beats sixteen of low priority: it blocks a node of both.
        cluster = Scenario("x1=8 x2=8").gang("low", pods=2, gpus=8)
        cluster.gang("high", pods=1, gpus=1).place().expect(placed=["low"], admitted=16)
        cluster.gang("high", pods=1, gpus=1, priority=1).place().expect(placed=["high"], admitted=1)

    def test_lower_priorities_take_what_is_left(self) -> None:
        scenario = Scenario("x1=8 x2=8")
        for priority, gpus in ((3, 8), (2, 6), (1, 4), (0, 2)):
            scenario = scenario.gang(f"p{priority}", pods=1, gpus=gpus, priority=priority)
        # 8 on one node, 6 + 2 on the other; 4 does not fit.
        scenario.place().expect(placed=["p3", "p2", "p0"], admitted=16)


class TestSets:
    RACKS = "r1: x1=8 x2=8 | r2: x3=8 x4=8"

    def test_a_scaled_gang_waits_for_its_base(self) -> None:
        # The base needs three nodes of one rack and cannot be placed.
        scenario = Scenario(self.RACKS).gang("base", pods=3, gpus=8, pack="rack")
        free = scenario.gang("scaled", pods=1, gpus=8)
        free.place().expect(placed=["scaled"])
        scenario.gang("scaled", pods=1, gpus=8, base="base").place().expect(placed=[])

    def test_the_base_comes_first(self) -> None:
        # One node: the scaled gang is worth as much, but not without its base.
        scenario = Scenario("x1=8").gang("scaled", pods=1, gpus=8, base="base")
        scenario.gang("base", pods=1, gpus=8).place().expect(placed=["base"])

    def test_a_scaled_gang_goes_to_its_base(self) -> None:
        # The base fits either rack; only r2 has room for both.
        cluster = Scenario("r1: x1=8 x2=8 | r2: x3=8 x4=8 x5=8")
        scenario = cluster.gang("base", pods=2, gpus=8, pack="rack")
        scenario = scenario.gang("scaled", pods=1, gpus=8, base="base")
        placed = scenario.place().expect(placed=["base", "scaled"], topology=0)
        assert len(placed.domains("rack", "base", "scaled")) == 1

    def test_a_scaled_gang_goes_elsewhere_when_there_is_no_room(self) -> None:
        scenario = Scenario(self.RACKS).gang("base", pods=2, gpus=8, pack="rack")
        scenario = scenario.gang("scaled", pods=1, gpus=8, base="base")
        scenario.place().expect(placed=["base", "scaled"], topology=1)

    def test_a_scaled_gang_goes_to_a_base_that_runs(self) -> None:
        cluster = Scenario("r1: x1=8 x2=8 | r2: x3=0/8 x4=8")
        scenario = cluster.gang("base", Group("w", on=("x3",)), pack="rack")
        scenario = scenario.gang("scaled", pods=1, gpus=8, base="base")
        scenario.place().expect(nodes={"scaled": {"x4": 1}}, topology=0)

    def test_running_pods_of_a_set_on_a_node_that_is_gone_are_in_one_domain(self) -> None:
        # The base goes anywhere; the scaled gang is where the node was: one domain too many.
        scenario = Scenario("x1=8").gang("base", pods=1, gpus=8, prefer="rack")
        scenario = scenario.gang("scaled", Group("w", on=("gone", "gone")), base="base")
        scenario.place().expect(placed=["base", "scaled"], topology=1)


class TestFragmentation:
    def test_used_nodes_go_first(self) -> None:
        scenario = Scenario("x1=8 x2=4/8 x3=8").gang("a", pods=1, gpus=4)
        scenario.place().expect(nodes={"a": {"x2": 1}}, fragmentation=0)

    def test_used_racks_go_first(self) -> None:
        # Both nodes are free, but only r2 is in use already.
        cluster = Scenario("r1: x1=8 x2=8 | r2: x3=8 x4=4/8")
        scenario = cluster.gang("a", pods=1, gpus=8, pack="rack")
        scenario.place().expect(nodes={"a": {"x3": 1}}, fragmentation=1)

    def test_pods_without_gpus_go_to_nodes_without(self) -> None:
        scenario = Scenario("x1=8 x2=0").gang("a", Group("w", pods=2, cpus=4))
        scenario.place().expect(nodes={"a": {"x2": 2}}, fragmentation=0)

    def test_pods_without_gpus_that_share_a_host_with_others_count(self) -> None:
        groups = Group("w", pods=1, gpus=4), Group("side", pods=2, cpus=1)
        scenario = Scenario("x1=8 x2=4/8").gang("a", *groups, pack="host")
        scenario.place().expect(nodes={"a": {"x2": 3}}, fragmentation=2)

    def test_a_level_of_single_nodes_counts_beside_the_level_of_hosts(self) -> None:
        # In a rack the node and its rack are lost, outside only the node.
        scenario = Scenario("r1: x1=8 | r2: x2=8 | r3: x3=8 | x4=8 x5=8")
        scenario = scenario.gang("a", pods=2, gpus=8)
        scenario = scenario.gang("huge", pods=9, gpus=8, pack="rack")
        scenario.place().expect(nodes={"a": {"x4": 1, "x5": 1}}, fragmentation=2)


class TestOrderAndDeterminism:
    QUESTION = (
        Scenario("b1/r1: x1=8 x2=8 x3=8 | b1/r2: x4=8 x5=8 | b2/r3: x6=8 x7=4/8")
        .gang("a", pods=3, gpus=8, min=2, pack="rack")
        .gang("b", pods=2, gpus=8, prefer="rack", priority=1)
        .gang("c", pods=4, gpus=2, min=1, pack="block", prefer="rack")
        .gang("d", Group("p", pods=1, gpus=8), Group("q", pods=2, gpus=4), pack="block")
    )

    def test_the_order_of_nodes_and_gangs_does_not_matter(self) -> None:
        def proven(scenario: Scenario) -> list[float]:
            return [tier.value for tier in scenario.place().expect().solution.tiers[:3]]

        turned = replace(
            self.QUESTION, nodes=self.QUESTION.nodes[::-1], gangs=self.QUESTION.gangs[::-1]
        )
        assert proven(self.QUESTION) == proven(turned)

    def test_the_same_question_gets_the_same_answer(self) -> None:
        scenario = replace(self.QUESTION, policy=Policy(deterministic=True))
        assert scenario.place().bindings == scenario.place().bindings


def test_a_tier_is_proven_when_its_bound_is_reached() -> None:
    placed = Scenario("x1=8").gang("a", pods=1, gpus=8).place().expect(admitted=8)
    for tier in placed.solution.tiers[:3]:
        assert tier == Tier(tier.name, tier.value, tier.value)
