"""Nodes of a few kinds, in racks and blocks."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from placement_service.entities.request import CPU, HOSTNAME, PODS, Effect, HostPort, Node, Taint
from tests.strategies.words import GPU, LEVELS, Feature, Size, rarely


@st.composite
def clusters(draw: st.DrawFn, size: Size, features: frozenset[Feature]) -> tuple[Node, ...]:
    """Nodes of a few kinds, in racks and blocks that mostly nest, some labels missing."""
    count = draw(st.integers(1, size.nodes))
    per_rack = draw(st.integers(1, 3))
    nested = draw(st.integers(0, 3)) > 0
    gpus = draw(st.lists(st.sampled_from([0, 1, 2, 4, 8]), min_size=1, max_size=2))
    nodes = []
    for index in range(count):
        rack = index // per_rack
        block = rack // 2 if nested else draw(st.integers(0, 2))
        labels = {HOSTNAME: f"n{index}", "rack": f"r{rack}", "block": f"b{block}"}
        for level in LEVELS:
            if draw(rarely):
                del labels[level]
        node = draw(nodes_of(f"nodes/n{index}", gpus, features))
        nodes.append(replace(node, labels={**node.labels, **labels}))
    return tuple(nodes)


@st.composite
def nodes_of(draw: st.DrawFn, name: str, gpus: list[int], features: frozenset[Feature]) -> Node:
    """A node without topology labels, often empty, sometimes used or even overfull."""
    size = draw(st.sampled_from(gpus))
    used = draw(st.sampled_from([0, 0, 0, 1, 2]))
    node = Node(
        name=name,
        allocatable={CPU: 4, PODS: draw(st.sampled_from([110, 110, 110, 2])), GPU: size},
        requested={GPU: used, PODS: used, CPU: draw(st.sampled_from([0, 0, 1, 3]))},
    )
    if Feature.NODE_RULES in features:
        node = replace(
            node,
            labels={"model": draw(st.sampled_from(["old", "new"]))},
            taints=(Taint("gpu", "", Effect.NO_SCHEDULE),) if draw(rarely) else (),
            unschedulable=draw(rarely),
            ready=not draw(rarely),
        )
    if Feature.HOST_PORTS in features and draw(rarely):
        node = replace(node, host_ports=(draw(host_ports),))
    return node


host_ports = st.builds(
    HostPort, st.sampled_from([80, 81]), st.just("TCP"), st.sampled_from(["", "", "10.0.0.1"])
)
