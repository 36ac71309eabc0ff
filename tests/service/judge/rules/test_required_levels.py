"""Required levels: the pods of a scope are in one domain."""

from __future__ import annotations

from placement_service.entities.request import (
    HOSTNAME,
    PackingScope,
)
from tests.scenario import Group, Scenario
from tests.service.judge.rules.plans import accepts, refuses


class TestRequiredLevel:
    RACKS = "b1/r1: x1=8 x2=8 | b1/r2: x3=8 | : x4=8"

    def test_one_domain_is_fine_and_two_are_refused(self) -> None:
        scenario = Scenario(self.RACKS).gang("a", pods=2, pack="rack")
        assert accepts(scenario, a_w_0="x1", a_w_1="x2")
        assert refuses(scenario, "requires one rack & uses 2: r1, r2", a_w_0="x1", a_w_1="x3")
        assert accepts(Scenario(self.RACKS).gang("a", pods=2), a_w_0="x1", a_w_1="x3")

    def test_a_node_without_the_label_is_in_no_domain(self) -> None:
        scenario = Scenario(self.RACKS).gang("a", pods=1, pack="rack")
        assert refuses(scenario, "nodes/x4 & in none", a_w_0="x4")

    def test_running_pods_pin_the_domain(self) -> None:
        scenario = Scenario(self.RACKS).gang(
            "a", Group("w", pods=1, min=1, on=("x1",)), pack="rack"
        )
        assert accepts(scenario, a_w_0="x2")
        assert refuses(scenario, "uses 2", a_w_0="x3")

    def test_a_running_pod_on_a_node_that_is_gone_is_in_no_domain(self) -> None:
        scenario = Scenario(self.RACKS).gang(
            "a", Group("w", pods=1, min=1, on=("x9",)), pack="rack"
        )
        assert refuses(scenario, "nodes/x9 & in none", a_w_0="x1")

    def test_a_broken_gang_without_new_pods_is_not_the_plan_s_concern(self) -> None:
        assert accepts(Scenario(self.RACKS).gang("a", Group("w", on=("x1", "x3")), pack="rack"))

    def test_a_scope_covers_its_groups_only(self) -> None:
        groups = (Group("p", pods=1), Group("d", pods=1), Group("r", pods=1))
        pair = PackingScope("pair", ("p", "d"), "rack")
        scenario = Scenario(self.RACKS).gang("a", *groups, scopes=[pair])
        assert accepts(scenario, a_p_0="x1", a_d_0="x2", a_r_0="x3")
        assert refuses(scenario, "scope pair", a_p_0="x1", a_d_0="x3", a_r_0="x1")

    def test_a_group_can_have_a_level_of_its_own(self) -> None:
        scenario = Scenario(self.RACKS).gang(
            "a", Group("p", pods=2, pack="host"), Group("d", pods=1)
        )
        assert accepts(scenario, a_p_0="x1", a_p_1="x1", a_d_0="x2")
        assert refuses(scenario, f"scope p & {HOSTNAME}", a_p_0="x1", a_p_1="x2", a_d_0="x2")

    def test_domains_are_label_values_whatever_lies_around_them(self) -> None:
        scenario = Scenario("b1/r1: x1=8 | b2/r1: x2=8").gang("a", pods=2, pack="rack")
        assert accepts(scenario, a_w_0="x1", a_w_1="x2")

    def test_a_preferred_level_never_refuses(self) -> None:
        scenario = Scenario(self.RACKS).gang("a", pods=2, prefer="rack")
        assert accepts(scenario, a_w_0="x1", a_w_1="x4")
