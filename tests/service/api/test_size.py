"""Small requests that would cost a lot are refused before they do."""

from __future__ import annotations

import tracemalloc

import pytest

from placement.v1 import ComputePlacementRequest
from placement_service.api import size
from placement_service.api.wire.requests import parse_request
from placement_service.entities.errors import InvalidRequest
from tests.service.questions import gang, message, snapshot


def many_nodes(count: int = 5000) -> ComputePlacementRequest:
    return message(snapshot(count, (gang("a", pods=1, gpus=1),)))


def refusal(there: ComputePlacementRequest) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as caught:
        parse_request(there)
    return {v.field: v.description for v in caught.value.violations}


def test_many_resource_names_on_many_nodes() -> None:
    there = many_nodes()
    extended = there.snapshot.nodes[0].allocatable.extended
    extended.update({f"example.com/{i}": 1 for i in range(100_000)})
    words = refusal(there)["snapshot.nodes"]
    assert words.startswith("5,000 nodes by 100,00")
    assert words.endswith("at most 20,000,000")


def test_many_host_ports_on_many_nodes() -> None:
    there = many_nodes()
    ports = there.gangs[0].groups[0].pod_sets[0].template.host_ports
    for i in range(60_000):
        ports.add(port=i + 1)
    assert "60,000 host ports" in refusal(there)["gangs.groups.pod_sets.template.host_ports"]


def test_many_levels_on_many_nodes() -> None:
    there = many_nodes()
    for i in range(4001):
        there.gangs[0].packing_scopes.add(required_level=f"level-{i}")
    assert "4,001 label keys" in refusal(there)["gangs.packing_scopes"]


def test_many_templates_on_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit itself is too large for a test."""
    monkeypatch.setattr(size, "MAX_ELIGIBILITY", 3)
    gangs = (gang("a", pods=1, gpus=1), gang("b", pods=1, gpus=2))
    assert "2 templates" in refusal(message(snapshot(2, gangs)))["gangs.groups.pod_sets.template"]
    alike = (gang("a", pods=1, gpus=1), gang("b", pods=1, gpus=1))
    parse_request(message(snapshot(2, alike)))


def test_many_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "MAX_TERMS", 9)
    there = many_nodes(1)
    template = there.gangs[0].groups[0].pod_sets[0].template
    term = template.required_node_affinity.terms.add()
    for i in range(10):
        term.match_expressions.add(key=f"k{i}", operator=3)
    assert "terms" in refusal(there)["gangs.groups.pod_sets.template"]


def test_many_terms_between_pods_on_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "MAX_RULES", 3)
    there = many_nodes(2)
    terms = there.gangs[0].groups[0].pod_sets[0].template.required_anti_affinity
    terms.add(topology_key="a")
    parse_request(there)
    terms.add(topology_key="b")
    assert "2 terms between pods" in refusal(there)["gangs.groups.pod_sets.template"]


@pytest.mark.parametrize(
    ("limit", "field"),
    [
        ("MAX_QUEUES", "snapshot.queues"),
        ("MAX_RESERVATIONS", "snapshot.reservations"),
        ("MAX_DISRUPTION_BUDGETS", "snapshot.disruption_budgets"),
        ("MAX_NODE_PARTS", "snapshot.nodes.devices"),
        ("MAX_NODE_PARTS", "snapshot.nodes.taints"),
        ("MAX_NODE_PARTS", "snapshot.nodes.host_ports"),
        ("MAX_PARTS", "gangs.packing_scopes"),
        ("MAX_PODS", "gangs.previous_nodes"),
    ],
)
def test_every_list_has_an_end(monkeypatch: pytest.MonkeyPatch, limit: str, field: str) -> None:
    monkeypatch.setattr(size, limit, 2)
    there = many_nodes(1)
    lists = {
        "snapshot.nodes.devices": there.snapshot.nodes[0].devices,
        "snapshot.nodes.taints": there.snapshot.nodes[0].taints,
        "snapshot.nodes.host_ports": there.snapshot.nodes[0].host_ports,
        "gangs.packing_scopes": there.gangs[0].packing_scopes,
        "snapshot.queues": there.snapshot.queues,
        "snapshot.reservations": there.snapshot.reservations,
        "snapshot.disruption_budgets": there.snapshot.disruption_budgets,
    }
    for _ in range(3):
        if field == "gangs.previous_nodes":
            there.gangs[0].previous_nodes.append("nodes/n0")
        else:
            lists[field].add()  # type: ignore[attr-defined]
    assert refusal(there) == {field: "holds 3 entries, at most 2"}


def test_a_large_refusal_takes_little_memory() -> None:
    """What is refused is a table of five hundred million cells."""
    there = many_nodes()
    extended = there.snapshot.nodes[0].allocatable.extended
    extended.update({f"example.com/{i}": 1 for i in range(100_000)})
    tracemalloc.start()
    try:
        refusal(there)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * 2**20
