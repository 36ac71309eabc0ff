"""A node serves pods of one ComputeDomain at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.request import PODS, BoundPod, PodSet, PodTemplate
from placement_service.entities.selectors import NodeSelectorTerm
from tests.scenario import spread
from tests.service.boards import placed, pods_of
from tests.service.questions import GPU, node


def template(domain: str, gpus: int = 2) -> PodTemplate:
    return PodTemplate({GPU: gpus, PODS: 1}, compute_domain=domain)


def test_domains_do_not_share_a_node() -> None:
    gangs = [pods_of(name, 1, template(f"ml/{name}")) for name in "abc"]
    bindings, proven = placed([node("n0"), node("n1")], gangs)
    assert len({b.node for b in bindings}) == len(bindings) == 2
    assert proven


def test_pods_of_one_domain_do() -> None:
    gangs = [pods_of(name, 2, template("ml/same")) for name in "ab"]
    assert len(placed([node("n0")], gangs)[0]) == 4


def test_a_node_that_serves_another_domain_is_closed() -> None:
    busy = replace(node("n0"), compute_domain="ml/other")
    bindings, _ = placed([busy, node("n1")], [pods_of("b", 1, template("ml/b"))])
    assert [b.node for b in bindings] == ["nodes/n1"]


def test_running_pods_hold_their_domain() -> None:
    running = pods_of("old", 1, template("ml/old"))
    bound = PodSet(template("ml/old"), (), (BoundPod("namespaces/ml/pods/old-0", "nodes/n0"),))
    group = replace(running.groups[0], pod_sets=(bound,))
    gangs = [replace(running, groups=(group,)), pods_of("new", 1, template("ml/new"))]
    assert not placed([node("n0", used=2)], gangs)[0]


def test_pods_without_a_domain_go_anywhere() -> None:
    busy = replace(node("n0"), compute_domain="ml/other")
    assert len(placed([busy], [pods_of("plain", 1, PodTemplate({GPU: 1, PODS: 1}))])[0]) == 1


def test_spread_counts_nodes_that_serve_another_domain() -> None:
    """No pod may go to the second rack, so that stays empty and the first takes one at most."""
    nodes = [node("n0", rack="r0"), replace(node("n1", rack="r1"), compute_domain="ml/other")]
    even = replace(template("ml/a"), spread_constraints=(spread("rack"),))
    gangs = [pods_of(name, 1, even) for name in "ab"]
    bindings, proven = placed(nodes, gangs)
    assert [b.node for b in bindings] == ["nodes/n0"]
    assert proven


@pytest.mark.parametrize("affinity", [(), (NodeSelectorTerm(),)])
def test_affinity_that_selects_no_node_selects_none_in_a_domain(
    affinity: tuple[NodeSelectorTerm, ...],
) -> None:
    busy = replace(node("n0"), compute_domain="ml/other")
    nowhere = replace(template("ml/a"), required_node_affinity=affinity)
    assert not placed([busy, node("n1")], [pods_of("a", 1, nowhere)])[0]
