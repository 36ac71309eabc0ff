"""The verifier: each rule on the smallest plan that keeps it, and one change that breaks it.

Every test states a plan that is fine and a plan, or a cluster, that differs in one
thing. That the engine's own answers are accepted is tested in `test_properties`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from placement_service.entities.request import (
    CPU,
    EPHEMERAL_STORAGE,
    HOSTNAME,
    PODS,
    Binding,
    HostPort,
    PackingScope,
    Pod,
    PodAffinityTerm,
    PodSet,
    Policy,
    Snapshot,
)
from placement_service.entities.selectors import NodeSelectorTerm, Operator, Requirement
from placement_service.judge.verify import RULES, verify
from tests.scenario import GPU, Group, Scenario, gang_name, near, pod_name, spread
from tests.strategies import snapshots


def violations(scenario: Scenario, **pods: str) -> tuple[str, ...]:
    return verify(scenario.snapshot(), scenario.policy, scenario.bind(**pods))


def accepts(scenario: Scenario, **pods: str) -> bool:
    return violations(scenario, **pods) == ()


def refuses(scenario: Scenario, words: str, **pods: str) -> bool:
    """Whether the plan breaks exactly one rule once, and the sentence holds these words."""
    found = violations(scenario, **pods)
    return len(found) == 1 and all(word in found[0] for word in words.split(" & "))


ONE = Scenario("r1: x1=8 x2=8").gang("a", pods=1, gpus=8)


def test_the_empty_plan_keeps_every_rule() -> None:
    assert accepts(ONE)


@given(snapshots())
def test_the_empty_plan_keeps_every_rule_on_any_snapshot(snapshot: Snapshot) -> None:
    assert verify(snapshot, Policy(), ()) == ()


def test_every_rule_has_a_sentence_of_its_own() -> None:
    assert len({rule.__doc__ for rule in RULES}) == len(RULES)
    assert all(rule.__doc__ for rule in RULES)


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


class TestCapacity:
    def test_what_is_free_is_the_limit(self) -> None:
        scenario = Scenario("r1: x1=4/8").gang("a", pods=2, gpus=2, min=0).gang("b", pods=1, gpus=1)
        assert accepts(scenario, a_w_0="x1", a_w_1="x1")
        assert refuses(
            scenario, f"3 new pods ask for 5 {GPU} & 4 are free", a_w_0="x1", a_w_1="x1", b_w_0="x1"
        )

    def test_a_resource_that_the_node_does_not_list_is_not_there(self) -> None:
        scenario = Scenario("r1: x1=0").gang("a", pods=1, gpus=1)
        assert refuses(scenario, "0 are free", a_w_0="x1")

    def test_ephemeral_storage_that_the_node_does_not_list_is_not_limited(self) -> None:
        scenario = ONE
        group = scenario.gangs[0].groups[0]
        template = replace(group.pod_sets[0].template, requests={PODS: 1, EPHEMERAL_STORAGE: 2**40})
        group = replace(group, pod_sets=(PodSet(template, group.pod_sets[0].pods),))
        scenario = replace(scenario, gangs=(replace(scenario.gangs[0], groups=(group,)),))
        assert accepts(scenario, a_w_0="x1")
        node = scenario.nodes[0]
        small = replace(node, allocatable={**node.allocatable, EPHEMERAL_STORAGE: 2**30})
        assert refuses(replace(scenario, nodes=(small,)), EPHEMERAL_STORAGE, a_w_0="x1")

    def test_every_pod_counts_as_one(self) -> None:
        scenario = Scenario("r1: x1=8").gang("a", pods=2)
        node = scenario.nodes[0]
        full = replace(node, requested={PODS: 109})
        assert refuses(
            replace(scenario, nodes=(full,)), "2 pods & 1 are free", a_w_0="x1", a_w_1="x1"
        )

    def test_an_overfull_node_still_takes_pods_that_ask_for_nothing_of_it(self) -> None:
        scenario = Scenario("r1: x1=8").gang("a", pods=1, gpus=1)
        node = scenario.nodes[0]
        assert accepts(
            replace(scenario, nodes=(replace(node, requested={CPU: 10**9}),)), a_w_0="x1"
        )


class TestNodeRules:
    def test_a_node_selector_is_kept(self) -> None:
        scenario = Scenario("r1: x1=8 x2=8").node("x2", labels={"gpu": "h100"})
        scenario = scenario.gang("a", Group("w", pods=1, select={"gpu": "h100"}))
        assert accepts(scenario, a_w_0="x2")
        assert refuses(scenario, "excludes", a_w_0="x1")

    def test_required_node_affinity_is_kept(self) -> None:
        group = ONE.gangs[0].groups[0]
        term = NodeSelectorTerm(match_fields=(Requirement("metadata.name", Operator.IN, ("x2",)),))
        template = replace(group.pod_sets[0].template, required_node_affinity=(term,))
        group = replace(group, pod_sets=(PodSet(template, group.pod_sets[0].pods),))
        scenario = replace(ONE, gangs=(replace(ONE.gangs[0], groups=(group,)),))
        assert accepts(scenario, a_w_0="x2")
        assert refuses(scenario, "excludes", a_w_0="x1")

    def test_a_taint_needs_a_toleration(self) -> None:
        drawing = Scenario("r1: x1=8").node("x1", taints=["gpu"])
        assert refuses(drawing.gang("a", pods=1), "taints", a_w_0="x1")
        assert accepts(drawing.gang("a", Group("w", pods=1, tolerate=("gpu",))), a_w_0="x1")


class TestHostPorts:
    PORTS = Scenario("r1: x1=8 x2=8").gang("a", Group("w", pods=2, ports=(80,)))

    def test_two_pods_do_not_share_a_port_of_a_node(self) -> None:
        assert accepts(self.PORTS, a_w_0="x1", a_w_1="x2")
        assert refuses(self.PORTS, "both ask for host port 80/TCP", a_w_0="x1", a_w_1="x1")

    def test_a_port_in_use_is_taken(self) -> None:
        used = self.PORTS.node("x1", ports=[80])
        assert refuses(used, "port 80/TCP & in use", a_w_0="x1", a_w_1="x2")
        assert accepts(self.PORTS.node("x1", ports=[81]), a_w_0="x1", a_w_1="x2")

    def test_ports_differ_by_address_and_protocol(self) -> None:
        node = replace(
            self.PORTS.nodes[0],
            host_ports=(HostPort(80, "UDP"), HostPort(81, "TCP", "10.0.0.1")),
        )
        assert accepts(
            replace(self.PORTS, nodes=(node, self.PORTS.nodes[1])), a_w_0="x1", a_w_1="x2"
        )


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

    def test_a_pod_that_its_own_constraint_does_not_match_counts_once_more(self) -> None:
        group = Group("w", pods=1, spread=(spread("rack", app="x"),))
        scenario = Scenario(self.RACKS).gang("a", group)
        assert accepts(scenario, a_w_0="x1")
        crowded = scenario.runs("n", on="x1", app="x")
        assert refuses(crowded, "rack=r1 with 2 pods", a_w_0="x2")
        assert accepts(crowded, a_w_0="x3")


def test_several_broken_rules_are_all_told() -> None:
    scenario = Scenario("r1: x1=4 | r2: x2=4").node("x2", cordoned=True)
    scenario = scenario.gang("a", pods=3, gpus=4, pack="rack")
    found = violations(scenario, a_w_0="x1", a_w_1="x1", a_w_2="x2", b_w_0="x1")
    assert len(found) == 4
    for words in ("not a pending pod", "unschedulable", "uses 2: r1, r2", "ask for 8"):
        assert any(words in sentence for sentence in found), words


def test_pods_of_one_set_are_told_apart_by_name() -> None:
    pods = tuple(Pod(pod_name(f"p{i}"), uid=f"u{i}") for i in range(2))
    gang = ONE.gangs[0]
    group = replace(gang.groups[0], pod_sets=(PodSet(gang.groups[0].pod_sets[0].template, pods),))
    snapshot = replace(ONE.snapshot(), gangs=(replace(gang, groups=(group,)),))
    swapped = Binding(pods[0].name, "nodes/x1", gang.name, "w", "u1")
    assert "uid 'u1'" in verify(snapshot, Policy(), (swapped,))[0]
