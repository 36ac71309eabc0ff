"""Nodes in racks and wider domains, of one kind or a few."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from placement_service.entities.request import (
    CPU,
    HOSTNAME,
    MEMORY,
    PODS,
    Effect,
    HostPort,
    Node,
    Taint,
)
from tests.medium.tastes import Has, Taste
from tests.strategies.words import GPU

#: From broad to narrow.
LEVELS = ("region", "zone", "block", "row", "rack", "half")
GIB = 1 << 30


def levels_of(rng: random.Random, taste: Taste) -> tuple[str, ...]:
    """The levels of a cluster, from broad to narrow."""
    if Has.MANY_LEVELS in taste:
        return LEVELS[-rng.randint(3, 6) :]
    return rng.choice((("block", "rack"), ("block", "rack"), ("rack",), ("zone", "block", "rack")))


def cluster(rng: random.Random, taste: Taste, levels: Sequence[str]) -> tuple[Node, ...]:
    """All nodes, of which some are in use."""
    kinds = [
        _hardware(rng, taste, k)
        for k in range(rng.randint(2, 4) if Has.UNLIKE_NODES in taste else 1)
    ]
    by_rack = rng.random() < 0.5
    of_rack: dict[str, Node] = {}
    places = _places(rng, taste.nodes, levels)
    nodes = []
    for i, labels in enumerate(places):
        rack = labels[levels[-1]]
        kind = of_rack.setdefault(rack, rng.choice(kinds)) if by_rack else rng.choice(kinds)
        mine = {**kind.labels, HOSTNAME: f"n{i}", **labels}
        if Has.CROSSING_LEVELS in taste:
            mine["power"] = f"p{rng.randrange(5)}"
        if Has.BARE_NODES in taste and rng.random() < 0.1:
            for level in rng.sample(levels, rng.randint(1, len(levels))):
                del mine[level]
        node = replace(kind, name=f"nodes/n{i}", labels=mine)
        if Has.USED_NODES in taste and rng.random() < 0.4:
            node = replace(node, requested=_used(rng, node))
        if Has.CLOSED_NODES in taste:
            node = replace(
                node,
                unschedulable=rng.random() < 0.05,
                ready=rng.random() > 0.05,
                taints=(Taint("gpu", "", Effect.NO_SCHEDULE),) if rng.random() < 0.2 else (),
            )
        if Has.HOST_PORTS in taste and rng.random() < 0.1:
            node = replace(node, host_ports=(HostPort(80),))
        nodes.append(node)
    return tuple(nodes)


def _places(rng: random.Random, count: int, levels: Sequence[str]) -> list[dict[str, str]]:
    """The labels of each node: domains of equal size, or of any down to a single node."""
    places: list[dict[str, str]] = [{} for _ in range(count)]
    inside = list(range(count))
    for level in reversed(levels):
        even = rng.random() < 0.6
        most = rng.choice((2, 3, 4, 4, 6, 9, 18)) if inside[-1] == count - 1 else rng.randint(2, 4)
        domains, left = [], 0
        for _ in range(inside[-1] + 1):
            if not left:
                left = most if even else rng.randint(1, most)
                domains.append(0)
            domains[-1] += 1
            left -= 1
        of = [d for d, size in enumerate(domains) for _ in range(size)]
        inside = [of[k] for k in inside]
        for i, k in enumerate(inside):
            places[i][level] = f"{level}{k}"
    return places


def _hardware(rng: random.Random, taste: Taste, k: int) -> Node:
    gpus = rng.choice((3, 5, 6, 7, 16)) if Has.ODD_GPUS in taste else rng.choice((4, 8, 8))
    if k and rng.random() < 0.3 and Has.CPU_ONLY in taste:
        gpus = 0
    cores = max(2, gpus) * rng.choice((4, 12, 16))
    room = {GPU: gpus, CPU: 1000 * cores, MEMORY: max(2, gpus) * 120 * GIB, PODS: 110}
    if Has.FEW_PODS in taste:
        room[PODS] = rng.choice((1, 2, 4, 8))
    if Has.STRANGE_AMOUNTS in taste:
        room[MEMORY] += rng.choice((-1, 1, 12345))
        room[CPU] += rng.choice((-1, 1, 333))
    return Node("", {"model": f"m{k}"}, {r: n for r, n in room.items() if n})


def _used(rng: random.Random, node: Node) -> dict[str, int]:
    """All of it, some whole GPUs with what belongs to them, or anything."""
    gpus = node.allocatable.get(GPU, 0)
    match rng.randrange(3):
        case 0:
            return dict(node.allocatable)
        case 1 if gpus:
            some = rng.randint(1, gpus)
            return {r: n * some // gpus if r != PODS else 1 for r, n in node.allocatable.items()}
        case _:
            return {r: rng.randint(0, n) for r, n in node.allocatable.items()}
