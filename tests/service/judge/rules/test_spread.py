"""Topology spread with DoNotSchedule, as the judge sees it."""

from __future__ import annotations

from dataclasses import replace

from tests.scenario import Group, Scenario, spread
from tests.service.judge.rules.plans import accepts, refuses, violations


class TestSpread:
    RACKS = "r1: x1=8 x2=8 | r2: x3=8 | : x4=8"
    EVEN = Group("w", pods=3, min=1, spread=(spread("rack", group="w"),))

    def test_a_skew_of_one_is_fine_and_two_is_refused(self) -> None:
        scenario = Scenario(self.RACKS).gang("a", self.EVEN)
        assert accepts(scenario, a_w_0="x1", a_w_1="x2", a_w_2="x3")
        assert refuses(scenario, "rack=r1 with 2 pods & emptiest has 0", a_w_0="x1", a_w_1="x1")

    def test_a_pod_that_its_own_constraint_does_not_match_counts_nowhere(self) -> None:
        aside = Group("w", pods=2, min=1, spread=(spread("rack", app="cache"),))
        scenario = Scenario(self.RACKS).runs("c", on="x1", app="cache").gang("a", aside)
        assert accepts(scenario, a_w_0="x1", a_w_1="x1")
        scenario = scenario.runs("d", on="x2", app="cache")
        assert refuses(scenario, "rack=r1 with 2 pods & emptiest has 0", a_w_0="x1")

    def test_a_wider_skew_allows_more(self) -> None:
        group = replace(self.EVEN, spread=(spread("rack", 2, group="w"),))
        assert accepts(Scenario(self.RACKS).gang("a", group), a_w_0="x1", a_w_1="x1")

    def test_a_node_without_the_label_is_refused(self) -> None:
        scenario = Scenario(self.RACKS).gang("a", self.EVEN)
        assert refuses(scenario, "no such label", a_w_0="x4")

    def test_running_pods_count(self) -> None:
        scenario = Scenario(self.RACKS).runs("n", on="x1", group="w").gang("a", self.EVEN)
        assert accepts(scenario, a_w_0="x3")
        assert refuses(scenario, "rack=r1 with 2 pods", a_w_0="x2")

    def test_a_domain_that_the_pods_cannot_enter_does_not_count(self) -> None:
        drawing = Scenario(self.RACKS).node("x3", labels={"closed": "yes"})
        everywhere = drawing.gang("a", self.EVEN)
        selecting = replace(self.EVEN, select={"rack": "r1"})
        assert refuses(everywhere, "skew", a_w_0="x1", a_w_1="x1")
        assert accepts(drawing.gang("a", selecting), a_w_0="x1", a_w_1="x1")

    def test_it_counts_when_node_affinity_is_to_be_ignored(self) -> None:
        constraint = replace(self.EVEN.spread[0], ignore_node_affinity=True)
        group = replace(self.EVEN, select={"rack": "r1"}, spread=(constraint,))
        assert refuses(Scenario(self.RACKS).gang("a", group), "skew", a_w_0="x1", a_w_1="x1")

    def test_a_tainted_domain_counts_unless_taints_are_to_be_honored(self) -> None:
        drawing = Scenario(self.RACKS).node("x3", taints=["no"])
        honoring = replace(self.EVEN.spread[0], honor_taints=True)
        assert refuses(drawing.gang("a", self.EVEN), "skew", a_w_0="x1", a_w_1="x1")
        group = replace(self.EVEN, spread=(honoring,))
        assert accepts(drawing.gang("a", group), a_w_0="x1", a_w_1="x1")

    def test_pods_on_nodes_that_are_left_out_do_not_count(self) -> None:
        """Two pods run behind a taint, or on a node that the selector excludes."""
        drawing = Scenario(self.RACKS).node("x2", taints=["no"], labels={"old": "yes"})
        drawing = drawing.runs("m", on="x2", group="w").runs("n", on="x2", group="w")
        drawing = drawing.node("x1", labels={"old": "no"}).node("x3", labels={"old": "no"})
        assert refuses(drawing.gang("a", self.EVEN), "with 3 pods", a_w_0="x1")
        honoring = replace(self.EVEN.spread[0], honor_taints=True)
        tainted = replace(self.EVEN, spread=(honoring,))
        assert accepts(drawing.gang("a", tainted), a_w_0="x1")
        selected = replace(self.EVEN, select={"old": "no"})
        assert accepts(drawing.gang("a", selected), a_w_0="x1")

    def test_too_few_domains_make_the_emptiest_count_as_empty(self) -> None:
        drawing = Scenario("r1: x1=8 | r2: x2=8")
        four = replace(self.EVEN, pods=4)
        pods = {"a_w_0": "x1", "a_w_1": "x1", "a_w_2": "x2", "a_w_3": "x2"}
        assert accepts(drawing.gang("a", four), **pods)
        strict = replace(four, spread=(spread("rack", min_domains=3, group="w"),))
        assert len(violations(drawing.gang("a", strict), **pods)) == 2
