"""What victims leave besides room: host ports, and places that anti-affinity kept free."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.eviction import EvictionKind, EvictionPolicy
from placement_service.entities.request import Policy
from tests.scenario import Group, Scenario, near
from tests.service.judge.rules.asking import accepts, refuses

PREEMPT, MOVE = EvictionKind.PREEMPT, EvictionKind.MOVE
OLD = {"old_w_runs_0": None}

#: A gang with a host port on a node with much room, and two that want the port.
PORT = (
    Scenario("x1=6/8 x2=8", policy=Policy(eviction=EvictionPolicy.PREEMPT))
    .node("x1", ports=[80])
    .gang("old", Group("w", gpus=2, ports=(80,), told=("x1",)))
    .gang("high", Group("w", pods=1, gpus=1, ports=(80,)), priority=1)
    .gang("equal", Group("w", pods=1, gpus=1, ports=(80,)))
)


class TestPorts:
    def test_an_evicted_pod_leaves_its_port(self) -> None:
        bindings = PORT.bind(high_w_0="x1")
        assert refuses(PORT, "port 80/TCP & in use on node nodes/x1", bindings)
        assert accepts(PORT, bindings, PORT.evict(PREEMPT, "high", old_w_runs_0=None))

    def test_the_port_serves_nobody_of_the_priority_of_its_victim(self) -> None:
        scenario = PORT.gang("other", pods=1, gpus=1, priority=1)
        gone = scenario.evict(PREEMPT, "other", old_w_runs_0=None)
        bindings = scenario.bind(other_w_0="x1", equal_w_0="x1")
        words = "equal-w-0 gets a host port of victim & priority 0"
        assert refuses(scenario, words, bindings, gone)
        assert accepts(scenario, scenario.bind(other_w_0="x1", equal_w_0="x2"), gone)

    @pytest.mark.parametrize(("port", "fine"), [(80, False), (81, False), (82, True)])
    def test_each_port_of_a_victim_counts_and_no_other(self, port: int, fine: bool) -> None:
        scenario = Scenario("x1=4/8", policy=PORT.policy).node("x1", ports=[80, 81])
        scenario = scenario.gang("old", Group("w", gpus=4, ports=(80, 81), told=("x1",)))
        scenario = scenario.gang("high", pods=1, gpus=4, priority=1)
        scenario = scenario.gang("equal", Group("w", pods=1, gpus=1, ports=(port,)))
        gone = scenario.evict(PREEMPT, "high", **OLD)
        bindings = scenario.bind(high_w_0="x1", equal_w_0="x1")
        words = "equal-w-0 gets a host port of victim"
        assert (
            accepts(scenario, bindings, gone) if fine else refuses(scenario, words, bindings, gone)
        )

    def test_victims_of_other_nodes_do_not_count(self) -> None:
        scenario = PORT.node("x2", ports=[80])
        scenario = scenario.gang("high2", Group("w", gpus=1, ports=(80,), told=("x2",)), priority=1)
        scenario = scenario.gang("highest", pods=1, gpus=1, priority=2)
        gone = scenario.evict(PREEMPT, "highest", old_w_runs_0=None, high2_w_runs_0=None)
        bindings = scenario.bind(high_w_0="x1", highest_w_0="x2")
        assert accepts(scenario, bindings, gone)

    def test_a_port_that_a_pod_which_stays_has_as_well_is_in_use(self) -> None:
        scenario = PORT.gang("too", Group("w", gpus=1, ports=(80,), told=("x1",)))
        gone = scenario.evict(PREEMPT, "high", old_w_runs_0=None)
        assert refuses(scenario, "in use on node nodes/x1", scenario.bind(high_w_0="x1"), gone)

    def test_a_port_that_no_node_lists_is_in_use_neither_before_an_eviction_nor_after(self) -> None:
        scenario = PORT.gang("too", Group("w", gpus=1, ports=(80,), told=("x2",)))
        scenario = scenario.gang("left", Group("w", gpus=1, ports=(80,), told=("x2",)))
        bindings = scenario.bind(high_w_0="x2")
        assert accepts(scenario, bindings)
        assert accepts(scenario, bindings, scenario.evict(PREEMPT, "high", left_w_runs_0=None))

    def test_a_moved_pod_leaves_its_port_to_all_and_needs_another(self) -> None:
        scenario = replace(PORT, policy=Policy(eviction=EvictionPolicy.REPACK))
        gone = scenario.evict(MOVE, "equal", old_w_runs_0="x2")
        assert accepts(scenario, scenario.bind(equal_w_0="x1"), gone)
        both = scenario.bind(equal_w_0="x2")
        assert refuses(scenario, "both ask for host port 80/TCP on node nodes/x2", both, gone)


def in_domain(domain: str) -> dict[str, str]:
    return {"compute_domain": domain}


def served(members: int) -> Scenario:
    """Half of a node serves a ComputeDomain, and so many pods are said to be in it."""
    scenario = Scenario("x1=4/8", policy=PORT.policy)
    [x1] = scenario.nodes
    there = replace(x1, compute_domain="theirs", compute_domain_pods=members)
    old = Group("w", gpus=4, told=("x1",), asks=in_domain("theirs"))
    new = Group("w", pods=1, gpus=1, asks=in_domain("mine"))
    return (
        replace(scenario, nodes=(there,))
        .gang("old", old)
        .gang("high", new, priority=1)
        .gang("equal", new)
        .gang("plain", pods=1, gpus=1, priority=1)
    )


class TestComputeDomains:
    def test_the_domain_ends_with_its_last_pod(self) -> None:
        scenario = served(1)
        bindings, gone = scenario.bind(high_w_0="x1"), scenario.evict(PREEMPT, "high", **OLD)
        assert refuses(scenario, "would serve & mine, theirs", bindings)
        assert accepts(scenario, bindings, gone)

    @pytest.mark.parametrize("members", [0, 2])
    def test_it_does_not_end_while_others_may_be_in_it(self, members: int) -> None:
        scenario = served(members)
        gone = scenario.evict(PREEMPT, "high", **OLD)
        words = "would serve & mine, theirs"
        assert refuses(scenario, words, scenario.bind(high_w_0="x1"), gone)

    def test_its_node_serves_no_domain_of_its_priority(self) -> None:
        scenario = served(1)
        gone = scenario.evict(PREEMPT, "plain", **OLD)
        words = "equal-w-0 of compute domain mine & served theirs until & priority 0"
        bindings = scenario.bind(plain_w_0="x1", equal_w_0="x1")
        assert refuses(scenario, words, bindings, gone)


@pytest.mark.parametrize("carrier", ["victim", "new"])
class TestPlaces:
    def scenario(self, carrier: str) -> Scenario:
        """The victim keeps new pods out of its rack, or they avoid it."""
        mine, theirs = (near("rack", kind="new"),), (near("rack", kind="old"),)
        of_victim, of_new = (mine, ()) if carrier == "victim" else ((), theirs)
        old = Group("w", gpus=2, told=("x1",), labels={"kind": "old"}, away=of_victim)
        new = Group("w", pods=1, gpus=1, labels={"kind": "new"}, away=of_new)
        return (
            Scenario("r1: x1=6/8 x2=8 | r2: x3=8", policy=PORT.policy)
            .gang("old", old)
            .runs("old-w-runs-0", "x1", away=of_victim, kind="old")
            .gang("high", new, priority=1)
            .gang("equal", new)
            .gang("other", pods=1, gpus=1, priority=1)
        )

    def test_an_evicted_pod_keeps_nobody_away(self, carrier: str) -> None:
        scenario = self.scenario(carrier)
        bindings = scenario.bind(high_w_0="x2")
        assert refuses(scenario, "keeps pod & rack=r1", bindings)
        gone = scenario.evict(PREEMPT, "high", old_w_runs_0=None)
        assert accepts(scenario, bindings, gone)

    def test_its_place_serves_nobody_of_its_priority(self, carrier: str) -> None:
        scenario = self.scenario(carrier)
        gone = scenario.evict(PREEMPT, "other", old_w_runs_0=None)
        bindings = scenario.bind(other_w_0="x1", equal_w_0="x2")
        words = "equal-w-0 is in rack=r1 & until the eviction of victim & priority 0"
        assert refuses(scenario, words, bindings, gone)
        assert accepts(scenario, scenario.bind(other_w_0="x1", equal_w_0="x3"), gone)
