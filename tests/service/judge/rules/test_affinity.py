"""Required affinity between pods, as the judge sees it."""

from __future__ import annotations

from placement_service.entities.request import (
    HOSTNAME,
)
from tests.scenario import Group, Scenario, near
from tests.service.judge.rules.plans import accepts, refuses, violations


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
