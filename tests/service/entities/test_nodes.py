"""Columns of nodes say what the nodes said one by one, and change a few of them cheaply."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from placement_service.entities.devices import Device
from placement_service.entities.node import (
    CPU,
    EPHEMERAL_STORAGE,
    HOSTNAME,
    PODS,
    Effect,
    HostPort,
    Node,
    Taint,
)
from placement_service.entities.nodes import Nodes

RACK = "rack"


def node(name: str, **facts: object) -> Node:
    one = Node(f"nodes/{name}", {HOSTNAME: name}, {CPU: 8000, PODS: 110})
    return replace(one, **facts)  # type: ignore[arg-type]


@st.composite
def _nodes(draw: st.DrawFn) -> Node:
    name = draw(st.sampled_from("abcdef"))
    labels = draw(st.dictionaries(st.sampled_from([RACK, "zone"]), st.sampled_from("12")))
    host = draw(st.sampled_from([name, "another"]))
    amounts = st.dictionaries(st.sampled_from([CPU, PODS, "gpu"]), st.integers(1, 3))
    return Node(
        f"nodes/{name}",
        {**labels, HOSTNAME: host},
        draw(amounts),
        draw(amounts),
        draw(st.sampled_from([(), (Taint("k", "v", Effect.NO_EXECUTE),)])),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from([(), (HostPort(80),)])),
        draw(st.sampled_from([(), (Device(0), Device(1, healthy=False))])),
    )


@given(
    st.lists(st.tuples(st.lists(_nodes(), max_size=4), st.sets(st.sampled_from("abcdef")))),
)
def test_versions_hold_what_was_said_last_of_each_node(
    steps: list[tuple[list[Node], set[str]]],
) -> None:
    nodes, want = Nodes.of(()), dict[str, Node]()
    for changed, gone in steps:
        before, kept = nodes, tuple(nodes)
        names = {f"nodes/{name}" for name in gone}
        nodes = nodes.updated(changed, names)
        want = {name: one for name, one in want.items() if name not in names}
        want |= {one.name: one for one in changed}
        assert tuple(nodes) == tuple(want.values())
        assert [nodes.row_of[name] for name in want] == list(range(len(want)))
        # The version before is as it was.
        assert tuple(before) == kept


def test_alike_nodes_share_their_labels_though_each_has_a_name_of_its_own() -> None:
    nodes = Nodes.of(node(f"n{i}", labels={HOSTNAME: f"n{i}", RACK: "r1"}) for i in range(3))
    assert nodes.labels.kinds == ({RACK: "r1"},)
    assert nodes.label(HOSTNAME) == ["n0", "n1", "n2"]
    assert nodes.label(RACK) == ["r1", "r1", "r1"]
    assert nodes.label("zone") == [None, None, None]


def test_what_is_free_is_what_a_node_says_of_itself() -> None:
    nodes = Nodes.of(
        (
            node("a", requested={CPU: 3000}),
            node("b", allocatable={CPU: 1000, EPHEMERAL_STORAGE: 5}, requested={CPU: 2000}),
        )
    )
    for resource in (CPU, EPHEMERAL_STORAGE, "gpu"):
        assert nodes.free(resource).tolist() == [one.free(resource) for one in nodes]
    assert nodes.total_requested((CPU, "gpu")).tolist() == [3000, 2000]


def test_kinds_that_no_node_has_any_more_do_not_pile_up() -> None:
    nodes = Nodes.of((node("a"), node("b")))
    for i in range(1000):
        nodes = nodes.updated((node("a", allocatable={CPU: i}),))
    assert len(nodes.allocatable.kinds) < 100
    assert nodes[0].allocatable == {CPU: 999}
    assert nodes[1] == node("b")


def test_columns_are_not_to_be_changed() -> None:
    nodes = Nodes.of((node("a", requested={CPU: 1}),))
    for array in (nodes.requested[CPU], nodes.ready, nodes.labels.number):
        assert not array.flags.writeable
