"""Bindings name what there is, and gangs get their minimum or nothing."""

from __future__ import annotations

import pytest

from placement_service.entities.request import (
    Binding,
)
from placement_service.judge.verify import verify
from tests.scenario import Group, Scenario, gang_name, pod_name
from tests.service.judge.rules.plans import ONE, accepts, refuses


class TestBindings:
    def test_a_pending_pod_on_a_node_is_fine(self) -> None:
        assert accepts(ONE, a_w_0="x1")

    def test_an_unknown_pod_is_refused(self) -> None:
        assert refuses(ONE, "a-w-9 & not a pending pod", a_w_9="x1")

    def test_a_pod_that_runs_is_not_pending(self) -> None:
        scenario = Scenario("r1: x1=8").gang("a", Group("w", min=1, on=("x1",)))
        assert refuses(scenario, "a-w-bound-0 & not a pending pod", a_w_bound_0="x1")

    def test_an_unknown_node_is_refused(self) -> None:
        assert refuses(ONE, "nodes/x9 & does not have", a_w_0="x9")

    def test_a_pod_is_bound_once(self) -> None:
        (first,) = ONE.bind(a_w_0="x1")
        (second,) = ONE.bind(a_w_0="x2")
        found = verify(ONE.snapshot(), ONE.policy, (first, second))
        assert found == (f"pod {pod_name('a-w-0')} is bound twice",)

    @pytest.mark.parametrize("wrong", ["gang", "group", "uid"])
    def test_a_binding_names_the_pod_s_gang_group_and_uid(self, wrong: str) -> None:
        (binding,) = ONE.bind(a_w_0="x1")
        pod, gang, group, uid = binding.pod, binding.gang, binding.group, binding.uid
        changed = {
            "gang": Binding(pod, binding.node, gang_name("b"), group, uid),
            "group": Binding(pod, binding.node, gang, "v", uid),
            "uid": Binding(pod, binding.node, gang, group, "another"),
        }
        (found,) = verify(ONE.snapshot(), ONE.policy, (changed[wrong],))
        assert "the request says" in found

    def test_a_cordoned_node_gets_no_pods(self) -> None:
        scenario = ONE.node("x1", cordoned=True)
        assert refuses(scenario, "unschedulable", a_w_0="x1")
        assert accepts(scenario, a_w_0="x2")

    def test_a_node_that_is_not_ready_gets_no_pods(self) -> None:
        scenario = ONE.node("x1", ready=False)
        assert refuses(scenario, "not ready", a_w_0="x1")
        assert accepts(scenario, a_w_0="x2")


class TestAllOrNothing:
    PAIR = Scenario("r1: x1=8").gang("a", Group("l", pods=1, min=1), Group("w", pods=3, min=2))

    def test_minimums_are_enough(self) -> None:
        assert accepts(self.PAIR, a_l_0="x1", a_w_0="x1", a_w_1="x1")

    def test_a_group_below_its_minimum_is_refused(self) -> None:
        assert refuses(self.PAIR, "group w has 1 & minimum is 2", a_l_0="x1", a_w_0="x1")

    def test_a_group_without_any_pod_is_refused(self) -> None:
        assert refuses(self.PAIR, "group l has 0", a_w_0="x1", a_w_1="x1")

    def test_running_pods_count(self) -> None:
        scenario = Scenario("r1: x1=8").gang("a", Group("w", pods=1, min=2, on=("x1",)))
        assert accepts(scenario, a_w_0="x1")

    def test_an_uninitialized_gang_gets_nothing(self) -> None:
        scenario = Scenario("r1: x1=8").gang("a", pods=1, uninitialized=True)
        assert refuses(scenario, "not initialized", a_w_0="x1")

    def test_a_gang_that_is_not_supported_gets_nothing(self) -> None:
        scenario = Scenario("r1: x1=8").gang("a", pods=1, unsupported=["pod a: spec.magic"])
        assert refuses(scenario, "spec.magic", a_w_0="x1")

    def test_a_base_is_placed_with_or_before_what_it_carries(self) -> None:
        scenario = Scenario("r1: x1=8").gang("a", pods=1).gang("b", pods=1, base="a")
        assert accepts(scenario, a_w_0="x1", b_w_0="x1")
        assert accepts(scenario, a_w_0="x1")
        assert refuses(scenario, "its base & podgangs/a", b_w_0="x1")

    def test_a_base_that_runs_is_placed(self) -> None:
        base = Scenario("r1: x1=8").gang("a", Group("w", min=1, on=("x1",)))
        assert accepts(base.gang("b", pods=1, base="a"), b_w_0="x1")

    def test_an_unknown_base_is_not_placed(self) -> None:
        scenario = Scenario("r1: x1=8").gang("b", pods=1, base="a")
        assert refuses(scenario, "its base", b_w_0="x1")
