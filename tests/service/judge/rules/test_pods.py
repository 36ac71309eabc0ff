"""Affinity, anti-affinity and topology spread."""

from __future__ import annotations

from dataclasses import replace

from placement_service.entities.request import (
    HOSTNAME,
    PodAffinityTerm,
)
from tests.scenario import Group, Scenario, near, spread
from tests.service.judge.rules.plans import accepts, refuses, violations


class TestAntiAffinity:
    RACKS = "r1: x1=8 x2=8 | r2: x3=8 | : x4=8 x5=8"

    def test_pods_that_avoid_their_like_share_no_domain(self) -> None:
        group = Group("w", pods=2, away=(near("rack", group="w"),))
        scenario = Scenario(self.RACKS).gang("a", group)
        assert accepts(scenario, a_w_0="x1", a_w_1="x3")
        assert refuses(scenario, "anti-affinity & rack=r1", a_w_0="x1", a_w_1="x2")

    def test_a_pod_does_not_avoid_itself(self) -> None:
        group = Group("w", pods=1, away=(near("rack", group="w"),))
        assert accepts(Scenario(self.RACKS).gang("a", group), a_w_0="x1")

    def test_a_node_without_the_label_keeps_nobody_apart(self) -> None:
        group = Group("w", pods=2, away=(near("rack", group="w"),))
        assert accepts(Scenario(self.RACKS).gang("a", group), a_w_0="x4", a_w_1="x4")

    def test_it_holds_in_both_directions(self) -> None:
        loner = Group("l", pods=1, away=(near("host", group="w"),))
        scenario = Scenario(self.RACKS).gang("a", loner, Group("w", pods=1))
        assert accepts(scenario, a_l_0="x1", a_w_0="x2")
        assert refuses(scenario, "a-l-0 & a-w-0", a_l_0="x1", a_w_0="x1")

    def test_running_pods_are_avoided(self) -> None:
        group = Group("w", pods=1, away=(near("rack", app="noisy"),))
        scenario = Scenario(self.RACKS).runs("n", on="x2", app="noisy").gang("a", group)
        assert accepts(scenario, a_w_0="x3")
        assert refuses(scenario, "pods/n & rack=r1", a_w_0="x1")

    def test_running_pods_avoid_new_ones(self) -> None:
        scenario = Scenario(self.RACKS).runs("n", on="x2", away=[near("rack", group="w")])
        scenario = scenario.gang("a", pods=1)
        assert accepts(scenario, a_w_0="x3")
        assert refuses(scenario, "of pod & pods/n & rack=r1", a_w_0="x1")

    def test_running_pods_among_themselves_are_not_the_plan_s_concern(self) -> None:
        scenario = Scenario(self.RACKS)
        for name in "mn":
            scenario = scenario.runs(name, on="x1", away=[near("rack", app="x")], app="x")
        assert accepts(scenario.gang("a", pods=1), a_w_0="x1")

    def test_running_pods_on_nodes_that_are_gone_are_nowhere(self) -> None:
        scenario = Scenario(self.RACKS).runs("n", on="x9", away=[near("rack", group="w")])
        assert accepts(scenario.gang("a", pods=1), a_w_0="x1")

    def test_terms_look_at_their_namespaces(self) -> None:
        term = near("rack", group="w")
        elsewhere = replace(term, namespaces=("other",))
        everywhere = replace(term, namespaces=(), all_namespaces=True)
        for away, fine in ((term, False), (elsewhere, True), (everywhere, False)):
            scenario = Scenario(self.RACKS).gang("a", Group("w", pods=2, away=(away,)))
            assert accepts(scenario, a_w_0="x1", a_w_1="x2") is fine

    def test_a_term_without_selector_matches_nobody(self) -> None:
        term = PodAffinityTerm(None, "rack", ("ml",))
        scenario = Scenario(self.RACKS).gang("a", Group("w", pods=2, away=(term,)))
        assert accepts(scenario, a_w_0="x1", a_w_1="x2")


class TestAffinity:
    RACKS = "r1: x1=8 x2=8 | r2: x3=8 | : x4=8"
    WISH = near("rack", app="cache")

    def test_a_running_pod_helps_in_its_domain_only(self) -> None:
        scenario = Scenario(self.RACKS).runs("c", on="x1", app="cache")
        scenario = scenario.gang("a", Group("w", pods=1, near=(self.WISH,)))
        assert accepts(scenario, a_w_0="x2")
        assert refuses(scenario, "rack=r2 & no pod there matches", a_w_0="x3")

    def test_a_new_pod_without_the_term_helps(self) -> None:
        cache = Group("c", pods=1, labels={"app": "cache"})
        scenario = Scenario(self.RACKS).gang("a", cache, Group("w", pods=1, near=(self.WISH,)))
        assert accepts(scenario, a_c_0="x1", a_w_0="x2")
        assert refuses(scenario, "a-w-0 & rack=r2", a_c_0="x1", a_w_0="x3")

    def test_nobody_to_be_near_is_refused(self) -> None:
        scenario = Scenario(self.RACKS).gang("a", Group("w", pods=1, near=(self.WISH,)))
        assert refuses(scenario, "no pod there matches", a_w_0="x1")

    def test_a_node_without_the_label_is_refused(self) -> None:
        scenario = Scenario(self.RACKS).runs("c", on="x4", app="cache")
        scenario = scenario.gang("a", Group("w", pods=1, near=(self.WISH,)))
        assert refuses(scenario, "no such label", a_w_0="x4")

    def test_pods_that_match_themselves_start_one_domain_together(self) -> None:
        group = Group("w", pods=2, labels={"app": "cache"}, near=(self.WISH,))
        scenario = Scenario(self.RACKS).gang("a", group)
        assert accepts(scenario, a_w_0="x1", a_w_1="x2")
        assert len(violations(scenario, a_w_0="x1", a_w_1="x3")) == 2

    def test_pods_that_match_themselves_join_a_running_pod(self) -> None:
        group = Group("w", pods=1, labels={"app": "cache"}, near=(self.WISH,))
        scenario = Scenario(self.RACKS).runs("c", on="x1", app="cache").gang("a", group)
        assert accepts(scenario, a_w_0="x2")
        assert refuses(scenario, "rack=r2", a_w_0="x3")

    def test_pods_that_match_themselves_join_a_new_pod_without_the_term(self) -> None:
        groups = (
            Group("c", pods=1, labels={"app": "cache"}),
            Group("w", pods=1, labels={"app": "cache"}, near=(self.WISH,)),
        )
        scenario = Scenario(self.RACKS).gang("a", *groups)
        assert accepts(scenario, a_c_0="x1", a_w_0="x2")
        assert refuses(scenario, "a-w-0", a_c_0="x1", a_w_0="x3")

    def test_two_gangs_with_one_term_start_one_domain(self) -> None:
        group = Group("w", pods=1, labels={"app": "cache"}, near=(self.WISH,))
        scenario = Scenario(self.RACKS).gang("a", group).gang("b", group)
        assert accepts(scenario, a_w_0="x1", b_w_0="x2")
        assert len(violations(scenario, a_w_0="x1", b_w_0="x3")) == 2

    def test_every_term_needs_somebody(self) -> None:
        wishes = (self.WISH, near("host", app="db"))
        scenario = Scenario(self.RACKS).runs("c", on="x1", app="cache").runs("d", on="x2", app="db")
        scenario = scenario.gang("a", Group("w", pods=1, near=wishes))
        assert accepts(scenario, a_w_0="x2")
        assert refuses(scenario, HOSTNAME, a_w_0="x1")


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
