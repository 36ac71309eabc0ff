"""What a node has room for, and whom it lets in."""

from __future__ import annotations

from dataclasses import replace

from placement_service.entities.request import (
    CPU,
    EPHEMERAL_STORAGE,
    PODS,
    HostPort,
    PodSet,
)
from placement_service.entities.selectors import NodeSelectorTerm, Operator, Requirement
from tests.drawing import GPU
from tests.scenario import Group, Scenario
from tests.service.judge.rules.plans import ONE, accepts, refuses


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
