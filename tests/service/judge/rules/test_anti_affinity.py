"""Required anti-affinity between pods, as the judge sees it."""

from __future__ import annotations

from dataclasses import replace

from placement_service.entities.request import (
    PodAffinityTerm,
)
from tests.scenario import Group, Scenario, near
from tests.service.judge.rules.plans import accepts, refuses


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
