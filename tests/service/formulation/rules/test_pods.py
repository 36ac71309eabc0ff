"""Rules between pods: affinity, anti-affinity, topology spread.

Solved by the real engine on the smallest cluster where the rule bites. Each test solves the same
question without the rule and with it, or differs in one number; a comment derives the optimum.
All answers must be proven.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.request import HOSTNAME
from tests.scenario import Group, Scenario, near, spread


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
