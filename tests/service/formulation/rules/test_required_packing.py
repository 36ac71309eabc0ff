"""Required packing: the gang, a subset of its groups, or one group in one domain.

Solved by the real engine on the smallest cluster where the rule bites. Each test solves the same
question without the rule and with it, or differs in one number; a comment derives the optimum.
All answers must be proven.
"""

from __future__ import annotations

import pytest

from placement_service.entities.request import PackingScope
from tests.scenario import Group, Scenario


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
