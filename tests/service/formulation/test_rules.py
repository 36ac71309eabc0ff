"""Every rule of an answer on the smallest cluster where it bites, solved by the real engine.

Each test solves the same question without the rule and with it, or differs in one
number; the optimum is derived in a comment. All answers must be proven.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.request import HOSTNAME, PackingScope, Policy
from placement_service.entities.solution import Tier
from placement_service.formulation.formulate import formulate
from tests.scenario import Group, Scenario, near, spread


class TestAllOrNothing:
    def test_a_gang_that_does_not_fit_whole_is_left_unplaced(self) -> None:
        # 8 GPUs hold two pods of 4. A gang of three gets none, though two would fit.
        cluster = Scenario("r1: x1=8")
        cluster.gang("a", pods=3, gpus=4).place().expect(placed=[], new={"a": 0}, admitted=0)
        cluster.gang("a", pods=2, gpus=4).place().expect(placed=["a"], new={"a": 2}, admitted=8)

    def test_a_minimum_is_enough(self) -> None:
        # Two of three pods fit, and two are the minimum; no extra fits.
        scenario = Scenario("r1: x1=8").gang("a", pods=3, gpus=4, min=2)
        scenario.place().expect(placed=["a"], new={"a": 2}, admitted=8, extra=0)

    def test_every_group_needs_its_minimum(self) -> None:
        # The leader fits, its two workers of 8 do not.
        scenario = Scenario("r1: x1=8 x2=4")
        groups = Group("l", pods=1, gpus=4), Group("w", pods=2, gpus=8)
        scenario.gang("a", *groups).place().expect(placed=[], new={"a": 0})

    def test_running_pods_count_towards_the_minimum(self) -> None:
        # One of two runs; the other fits the 4 GPUs that are left. The whole minimum is worth 8.
        scenario = Scenario("r1: x1=4/8").gang("a", Group("w", pods=1, gpus=4, on=("x1",)))
        scenario.place().expect(placed=["a"], new={"a": 1}, admitted=8)

    def test_the_better_of_two_gangs_is_admitted(self) -> None:
        # 8 GPUs: either "big" (8) or "small" (4), never both.
        scenario = Scenario("r1: x1=8").gang("small", pods=1, gpus=4).gang("big", pods=1, gpus=8)
        scenario.place().expect(placed=["big"], admitted=8)

    def test_many_small_gangs_beat_a_large_one(self) -> None:
        # 12 GPUs on nodes of 4: three gangs of 4 are worth 12, one of 2 x 4 is worth 8.
        scenario = Scenario("x1=4 x2=4 x3=4").gang("big", pods=2, gpus=4)
        for name in ("a", "b", "c"):
            scenario = scenario.gang(name, pods=1, gpus=4)
        scenario.place().expect(admitted=12)

    def test_pods_of_one_group_may_differ(self) -> None:
        # A pod of 8 GPUs fits no node; the other one goes to one node, once.
        large = Group("large", pods=1, gpus=8)
        for minimum, want in ((0, 1), (1, 1), (2, 0)):
            mixed = Group("w", pods=1, gpus=1, min=minimum, others=(large,))
            scenario = Scenario("x1=4 x2=4").gang("a", mixed, prefer="rack")
            scenario.place().expect(new={"a": want})

    def test_groups_of_one_gang_may_be_alike(self) -> None:
        for gpus in (0, 4):
            groups = Group("p", pods=1, gpus=gpus), Group("d", pods=1, gpus=gpus)
            Scenario("x1=8").gang("a", *groups).place().expect(placed=["a"], new={"a": 2})


class TestMinimumsBeforeExtras:
    def test_no_extra_takes_the_room_of_a_minimum(self) -> None:
        # Four nodes; both gangs want two and would take four. Each gets two.
        scenario = Scenario("x1=8 x2=8 x3=8 x4=8")
        scenario = scenario.gang("a", pods=4, gpus=8, min=2).gang("b", pods=4, gpus=8, min=2)
        scenario.place().expect(placed=["a", "b"], new={"a": 2, "b": 2}, extra=0)

    def test_room_that_no_minimum_can_use_goes_to_extras(self) -> None:
        # "b" needs both its pods on one host, which none can hold: "a" takes all three.
        scenario = Scenario("x1=8 x2=8 x3=8").gang("b", pods=2, gpus=8, pack="host")
        scenario = scenario.gang("a", pods=3, gpus=8, min=2)
        scenario.place().expect(placed=["a"], new={"a": 3, "b": 0}, extra=1)

    def test_a_minimum_of_low_priority_goes_before_an_extra_of_high_priority(self) -> None:
        # Two nodes: minimum of "high" and minimum of "low", not the extra of "high".
        scenario = Scenario("x1=8 x2=8").gang("high", pods=2, gpus=8, min=1, priority=9)
        scenario = scenario.gang("low", pods=1, gpus=8)
        scenario.place().expect(placed=["high", "low"], extra=0)

    def test_extras_take_the_room_of_a_minimum_that_cannot_be_met_beside_theirs(self) -> None:
        # "b" tolerates no other pod on its host, so only one of both is admitted, for one GPU
        # either way. With "a" there is an extra, although the two minimums would fill the node.
        apart = Group("w", pods=1, gpus=1, spread=(spread("host", min_domains=2),))
        scenario = Scenario("x1=2").gang("a", pods=2, gpus=1, min=1).gang("b", apart)
        scenario.place().expect(placed=["a"], admitted=1, extra=1)

    def test_lower_priorities_take_the_room_of_a_higher_one_that_cannot_use_it(self) -> None:
        # As above, among "a" and "b" of high priority; the second GPU is then free for "low".
        apart = Group("w", pods=1, gpus=1, away=(near("host", kind="high"),))
        high = Group("w", pods=1, gpus=1, labels={"kind": "high"})
        scenario = Scenario("x1=2").gang("a", high, priority=1).gang("b", apart, priority=1)
        scenario.gang("low", pods=1, gpus=1).place().expect(admitted=2)

    def test_a_running_gang_gets_the_extras_that_fit(self) -> None:
        scenario = Scenario("x1=4/8").gang("a", Group("w", pods=2, gpus=4, min=1, on=("x1",)))
        scenario.place().expect(new={"a": 1}, admitted=0, extra=1)


class TestRequiredPacking:
    RACKS = "b1/r1: x1=8 x2=8 | b1/r2: x3=8 x4=8"

    def test_a_gang_that_spans_racks_waits_when_it_must_not(self) -> None:
        # Three nodes are there, two in each rack.
        cluster = Scenario(self.RACKS)
        cluster.gang("a", pods=3, gpus=8).place().expect(placed=["a"])
        cluster.gang("a", pods=3, gpus=8, pack="rack").place().expect(placed=[])
        cluster.gang("a", pods=3, gpus=8, pack="block").place().expect(placed=["a"])

    def test_extras_stay_in_the_domain(self) -> None:
        scenario = Scenario(self.RACKS).gang("a", pods=4, gpus=8, min=1, pack="rack")
        scenario.place().expect(new={"a": 2}, extra=1)

    def test_groups_have_levels_of_their_own(self) -> None:
        # Two groups of two nodes, each in a rack; together in the block.
        groups = (
            Group("p", pods=2, gpus=8, pack="rack"),
            Group("d", pods=2, gpus=8, pack="rack"),
        )
        placed = Scenario(self.RACKS).gang("a", *groups, pack="block").place()
        placed.expect(placed=["a"])
        assert len({frozenset(placed.nodes("a", group)) for group in "pd"}) == 2

    def test_subsets_of_groups_have_levels_too(self) -> None:
        # A rack has two nodes: room for p and d together, not for r as well.
        groups = tuple(Group(name, pods=1, gpus=8) for name in ("p", "d", "r"))
        cluster = Scenario(self.RACKS)
        pair = PackingScope("pair", ("p", "d"), "rack")
        cluster.gang("a", *groups, scopes=[pair]).place().expect(placed=["a"])
        triple = PackingScope("triple", ("p", "d", "r"), "rack")
        cluster.gang("a", *groups, scopes=[triple]).place().expect(placed=[])

    def test_overlapping_scopes_chain_groups_together(self) -> None:
        # p-d and d-r share a rack each, so that all three do; a rack has two nodes.
        groups = tuple(Group(name, pods=1, gpus=8) for name in ("p", "d", "r"))
        chain = [PackingScope("pd", ("p", "d"), "rack"), PackingScope("dr", ("d", "r"), "rack")]
        Scenario(self.RACKS).gang("a", *groups, scopes=chain).place().expect(placed=[])
        three = Scenario("r1: x1=8 x2=8 x5=8 | r2: x3=8").gang("a", *groups, scopes=chain)
        three.place().expect(placed=["a"])

    def test_running_pods_pin_the_domain(self) -> None:
        # r1 has one node left besides the running pod's; r2 has two but is out of reach.
        cluster = Scenario("r1: x1=0/8 x2=8 | r2: x3=8 x4=8")
        one = Group("w", pods=1, gpus=8, on=("x1",))
        cluster.gang("a", one, pack="rack").place().expect(nodes={"a": {"x2": 1}})
        two = Group("w", pods=2, gpus=8, on=("x1",))
        cluster.gang("a", two, pack="rack").place().expect(placed=[], new={"a": 0})
        cluster.gang("a", two).place().expect(placed=["a"])

    def test_running_pods_in_two_domains_leave_no_place(self) -> None:
        group = Group("w", pods=1, gpus=8, on=("x1", "x3"))
        scenario = Scenario("r1: x1=0/8 x2=8 | r2: x3=0/8 x4=8").gang("a", group, pack="rack")
        scenario.place().expect(placed=[], new={"a": 0})

    def test_a_node_without_the_label_is_in_no_domain(self) -> None:
        cluster = Scenario(": x1=8 x2=8")
        cluster.gang("a", pods=1, gpus=8, pack="rack").place().expect(placed=[])
        cluster.gang("a", pods=1, gpus=8).place().expect(placed=["a"])

    def test_a_level_that_no_node_has_leaves_no_place(self) -> None:
        # Neither for a minimum nor for extras of a gang that has its minimum.
        cluster = Scenario("x1=8")
        cluster.gang("a", pods=1, gpus=1, pack="rack").place().expect(placed=[])
        cluster.gang("a", pods=1, gpus=1, min=0, pack="rack").place().expect(new={"a": 0})

    def test_a_level_of_extras_alone_does_not_hold_up_the_minimum(self) -> None:
        # "d" has no minimum and no rack to go to; "p" needs neither.
        groups = Group("p", pods=1, gpus=1), Group("d", pods=1, gpus=1, min=0, pack="rack")
        scenario = Scenario("x1=8").gang("a", *groups)
        scenario.place().expect(placed=["a"], new={"a": 1}, admitted=1, extra=0)

    def test_levels_need_not_nest(self) -> None:
        # Rows and racks cross. One rack and one row for both pods: only x1 and x2 share both.
        cluster = Scenario("r1: x1=8 x2=8 x3=8 | r2: x4=8 x5=8")
        for node, row in (("x1", "A"), ("x2", "A"), ("x3", "B"), ("x4", "A"), ("x5", "B")):
            cluster = cluster.node(node, labels={"row": row})
        scope = PackingScope("row", ("w",), "row")
        placed = cluster.gang("a", pods=2, gpus=8, pack="rack", scopes=[scope]).place()
        placed.expect(nodes={"a": {"x1": 1, "x2": 1}})

    @pytest.mark.parametrize(
        "cover",
        [
            pytest.param([("a", "b", "c")], id="the same"),
            pytest.param([("a", "b"), ("b", "c")], id="overlapping"),
        ],
    )
    def test_any_number_of_scopes_may_lie_upon_each_other(
        self, cover: list[tuple[str, ...]]
    ) -> None:
        scopes = [PackingScope(f"s{i}", cover[i % len(cover)], "rack") for i in range(1200)]
        groups = [Group(name, pods=1, gpus=8) for name in "abc"]
        scenario = Scenario("r1: x1=8 x2=8 | r2: x3=8 x4=8 x5=8")
        scenario = scenario.gang("a", *groups, scopes=scopes)
        scenario.place().expect(nodes={"a": {"x3": 1, "x4": 1, "x5": 1}})

    def test_one_rack_per_gang_is_packed_as_bins(self) -> None:
        # Racks of 4 and 3 nodes, gangs of 3, 2 and 2. With 3 in the rack of 4, one 2 is left out;
        # all fit as 2 + 2 there and 3 in the other.
        scenario = Scenario("r1: a=8 b=8 c=8 d=8 | r2: e=8 f=8 g=8")
        for name, pods in (("three", 3), ("two", 2), ("deux", 2)):
            scenario = scenario.gang(name, pods=pods, gpus=8, pack="rack")
        placed = scenario.place().expect(placed=["three", "two", "deux"], admitted=56)
        assert placed.domains("rack", "three") == {"r2"}


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


class TestCapacity:
    def test_fragments_do_not_add_up(self) -> None:
        # Two nodes with 4 free GPUs each do not hold a pod of 8.
        Scenario("x1=4/8 x2=4/8").gang("a", pods=1, gpus=8).place().expect(placed=[])
        Scenario("x1=4/8 x2=4/8").gang("a", pods=2, gpus=4).place().expect(placed=["a"])

    def test_every_resource_counts(self) -> None:
        # GPUs for four, cores for three: 64 / 20.
        groups = Group("w", pods=4, gpus=2, cpus=20, min=1)
        Scenario("x1=8").gang("a", groups).place().expect(new={"a": 3}, extra=2)

    def test_mixed_sizes_fill_a_node_exactly(self) -> None:
        # 5 + 3 = 8 on each of two nodes; 5 + 5 or 3 + 3 would waste.
        scenario = Scenario("x1=8 x2=8")
        for name, gpus in (("a", 3), ("b", 3), ("c", 5), ("d", 5)):
            scenario = scenario.gang(name, pods=1, gpus=gpus)
        scenario.place().expect(placed=["a", "b", "c", "d"], admitted=16)


class TestNodeRules:
    GANG = Group("w", pods=1, gpus=8)

    @pytest.mark.parametrize(
        "closed",
        [
            pytest.param({"cordoned": True}, id="cordoned"),
            pytest.param({"ready": False}, id="not ready"),
            pytest.param({"taints": ["gpu"]}, id="tainted"),
            pytest.param({"ports": [80]}, id="port in use"),
        ],
    )
    def test_a_closed_node_is_not_used(self, closed: dict[str, object]) -> None:
        group = replace(self.GANG, ports=(80,))
        Scenario("x1=8").gang("a", group).place().expect(placed=["a"])
        scenario = Scenario("x1=8").node("x1", **closed).gang("a", group)  # type: ignore[arg-type]
        scenario.place().expect(placed=[])

    def test_a_toleration_opens_a_tainted_node(self) -> None:
        group = replace(self.GANG, tolerate=("gpu",))
        Scenario("x1=8").node("x1", taints=["gpu"]).gang("a", group).place().expect(placed=["a"])

    def test_a_node_selector_chooses(self) -> None:
        cluster = Scenario("x1=8 x2=8").node("x2", labels={"model": "new"})
        group = replace(self.GANG, select={"model": "new"})
        cluster.gang("a", group).place().expect(nodes={"a": {"x2": 1}})

    def test_picky_gangs_get_the_nodes_they_need(self) -> None:
        # "any" fits both nodes, "new" only x2: "any" must take x1.
        cluster = Scenario("x1=8 x2=8").node("x2", labels={"model": "new"})
        picky = replace(self.GANG, select={"model": "new"})
        scenario = cluster.gang("any", self.GANG).gang("new", picky)
        scenario.place().expect(nodes={"any": {"x1": 1}, "new": {"x2": 1}})

    def test_one_host_port_per_node(self) -> None:
        ports = Group("w", pods=2, gpus=1, ports=(80,))
        Scenario("x1=8").gang("a", ports).place().expect(placed=[])
        Scenario("x1=8 x2=8").gang("a", ports).place().expect(nodes={"a": {"x1": 1, "x2": 1}})

    def test_of_many_host_ports_one_in_use_closes_a_node(self) -> None:
        ports = Group("w", pods=2, gpus=1, ports=tuple(range(80, 90)))
        other = Group("o", pods=1, gpus=1, ports=(85,))
        cluster = Scenario("x1=8 x2=8 x3=8").node("x2", ports=[87])
        cluster.gang("a", ports).place().expect(nodes={"a": {"x1": 1, "x3": 1}})
        cluster.gang("a", ports).gang("b", other).place().expect(nodes={"b": {"x2": 1}})

    def test_ports_that_are_taken_together_are_one_column(self) -> None:
        ports = Group("w", pods=1, gpus=1, ports=tuple(range(80, 90)))
        other = Group("o", pods=1, gpus=1, ports=(85, 99))
        scenario = Scenario("x1=8 x2=8").node("x2", ports=[99])
        scenario = scenario.gang("a", ports).gang("b", other)
        problem = formulate(scenario.snapshot(), Policy())
        named = [name for name in problem.columns if "host port" in name]
        assert named == ["TCP host port 80", "TCP host port 85", "TCP host port 99"]


class TestPodRules:
    RACKS = "r1: x1=8 x2=8 | r2: x3=8 x4=8"

    @pytest.mark.parametrize(("level", "want"), [("host", 4), ("rack", 2)])
    def test_pods_that_avoid_their_like_get_a_domain_each(self, level: str, want: int) -> None:
        # Four hosts, two racks; without the rule all six fit.
        group = Group("w", pods=6, gpus=1, min=1)
        cluster = Scenario(self.RACKS)
        cluster.gang("a", group).place().expect(new={"a": 6})
        apart = replace(group, away=(near(level, group="w"),))
        cluster.gang("a", apart).place().expect(new={"a": want}, extra=want - 1)

    def test_one_sided_anti_affinity_holds_both_ways(self) -> None:
        # The loner takes the only node for itself.
        loner = Group("l", pods=1, gpus=1, away=(near("host", group="w"),))
        friendly = replace(loner, away=())
        worker = Group("w", pods=1, gpus=1)
        Scenario("x1=8").gang("a", friendly, worker).place().expect(placed=["a"])
        Scenario("x1=8").gang("a", loner, worker).place().expect(placed=[])
        Scenario("x1=8 x2=8").gang("a", loner, worker).place().expect(placed=["a"])

    def test_running_pods_keep_new_ones_away(self) -> None:
        cluster = Scenario(self.RACKS).runs("n", on="x1", away=[near("rack", group="w")])
        placed = cluster.gang("a", pods=2, gpus=8).place().expect(placed=["a"])
        assert placed.domains("rack", "a") == {"r2"}

    def test_affinity_follows_running_pods(self) -> None:
        cluster = Scenario(self.RACKS).runs("c", on="x3", app="cache")
        group = Group("w", pods=1, gpus=8, near=(near("rack", app="cache"),))
        placed = cluster.gang("a", group).place().expect(placed=["a"])
        assert placed.domains("rack", "a") == {"r2"}
        Scenario(self.RACKS).gang("a", group).place().expect(placed=[])

    def test_affinity_follows_new_pods(self) -> None:
        # The cache fits only x3; the worker must be in its rack.
        cluster = Scenario(self.RACKS).node("x3", labels={"disk": "yes"})
        cache = Group("c", pods=1, labels={"app": "cache"}, select={"disk": "yes"})
        worker = Group("w", pods=1, gpus=8, near=(near("rack", app="cache"),))
        placed = cluster.gang("a", cache, worker).place().expect(placed=["a"])
        assert placed.domains("rack", "a") == {"r2"}

    def test_pods_with_affinity_to_their_like_share_a_domain(self) -> None:
        # A rack has two nodes, so three such pods do not fit.
        group = Group("w", pods=2, gpus=8, near=(near("rack", group="w"),))
        cluster = Scenario(self.RACKS)
        placed = cluster.gang("a", group).place().expect(placed=["a"])
        assert len(placed.domains("rack", "a")) == 1
        cluster.gang("a", replace(group, pods=3)).place().expect(placed=[])

    def test_a_friend_in_no_domain_neither_helps_nor_hinders(self) -> None:
        # On x2 the friend is in no rack; Kubernetes does not see it for a term about racks.
        cluster = Scenario("r1: x1=1 | : x2=8").node("x2", labels={"disk": "yes"})
        carrier = Group("c", pods=1, gpus=1, labels={"app": "a"}, near=(near("rack", app="a"),))
        friend = Group("f", pods=1, labels={"app": "a"}, select={"disk": "yes"})
        cluster.gang("a", carrier).place().expect(placed=["a"])
        cluster.gang("a", carrier, friend).place().expect(placed=["a"])
        there = Scenario("r1: x1=1 | r2: x2=8").node("x2", labels={"disk": "yes"})
        there.gang("a", carrier, friend).place().expect(placed=["a"], nodes={"a": {"x2": 2}})

    def test_spread_keeps_domains_level(self) -> None:
        # r2 has room for one pod; with a skew of 1, r1 gets two at most, with 2 three.
        cluster = Scenario("r1: x1=8 | r2: x2=1/8")
        group = Group("w", pods=6, gpus=1, min=1)
        cluster.gang("a", group).place().expect(new={"a": 6})
        even = replace(group, spread=(spread("rack", group="w"),))
        cluster.gang("a", even).place().expect(nodes={"a": {"x1": 2, "x2": 1}})
        wider = replace(group, spread=(spread("rack", 2, group="w"),))
        cluster.gang("a", wider).place().expect(nodes={"a": {"x1": 3, "x2": 1}})

    def test_spread_leaves_out_pods_on_nodes_that_it_leaves_out(self) -> None:
        # Both racks look even, but the pod of r2 runs behind a taint that is honoured.
        drawing = Scenario("r1: x1=1 | r2: x2=0 x3=0").node("x3", taints=["no"])
        drawing = drawing.runs("m", on="x3", group="w").runs("n", on="x1", group="w")
        honoring = replace(spread("rack", group="w"), honor_taints=True)
        for constraint, placed in ((spread("rack", group="w"), ["a"]), (honoring, [])):
            group = Group("w", pods=1, gpus=1, spread=(constraint,))
            drawing.gang("a", group).place().expect(placed=placed)

    def test_spread_leaves_out_new_pods_on_nodes_that_it_leaves_out(self) -> None:
        # "b" fills the node behind the taint; for pods that honour taints r2 is no fuller.
        drawing = Scenario("r1: x1=2 | r2: x2=0 x3=1").node("x3", taints=["no"])
        honoring = replace(spread("rack", group="w"), honor_taints=True)
        tolerant = Group("w", pods=1, gpus=1, tolerate=("no",), select={HOSTNAME: "x3"})
        drawing = drawing.gang("b", tolerant, priority=1)
        group = Group("w", pods=2, gpus=1, spread=(honoring,))
        drawing.gang("a", group).place().expect(placed=["b"])

    def test_spread_binds_only_those_who_ask_for_it(self) -> None:
        # "b" asks for a skew that no pod could keep on one host; "a" is only counted by it.
        counted = {"app": "x"}
        strict = Group("w", pods=1, min=0, labels=counted, spread=(spread("host", 1, 3, app="x"),))
        scenario = Scenario("x1=0").gang("b", strict)
        scenario = scenario.gang("a", Group("w", pods=2, labels=counted))
        scenario.place().expect(new={"a": 2, "b": 0}, extra=0)


class TestRefused:
    def test_what_cannot_be_honoured_waits_and_others_do_not(self) -> None:
        scenario = Scenario("x1=8 x2=8").gang("a", pods=1, gpus=8, unsupported=["pod a: magic"])
        scenario.gang("b", pods=1, gpus=8).place().expect(placed=["b"])

    def test_an_uninitialized_gang_waits(self) -> None:
        scenario = Scenario("x1=8 x2=8").gang("a", pods=1, gpus=8, uninitialized=True)
        scenario.gang("b", pods=1, gpus=8).place().expect(placed=["b"])

    def test_a_group_without_enough_pods_waits(self) -> None:
        scenario = Scenario("x1=8").gang("a", pods=1, gpus=4, min=2)
        scenario.place().expect(placed=[], new={"a": 0})


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
