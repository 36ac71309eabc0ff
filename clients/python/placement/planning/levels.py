"""Topology levels of a request: which label keys they are, and which lie inside which.

A level is a node label key. A request names levels only in packing scopes, so the order
comes from the nodes: of two levels the finer one has more domains, and lies inside the
coarser one when no domain of it is in two domains of that, or in part in none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from placement.v1 import ComputePlacementRequest, Node

HOSTNAME: Final = "kubernetes.io/hostname"
_WELL_KNOWN: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")

#: Labels that begin like this are levels.
_TOPOLOGY: Final = "topology."


def label(node: Node, key: str) -> str | None:
    """The value of a label; a node's own name is its host name where it says none."""
    value = node.labels.get(key)
    return node.name.removeprefix("nodes/") if value is None and key == HOSTNAME else value


def domains(request: ComputePlacementRequest, level: str) -> dict[str, list[Node]]:
    """The nodes of each domain of a level, in order of first mention."""
    found: dict[str, list[Node]] = defaultdict(list)
    for node in request.snapshot.nodes:
        value = label(node, level)
        if value is not None:
            found[value].append(node)
    return dict(found)


def levels_of(request: ComputePlacementRequest, named: Iterable[str]) -> tuple[str, ...]:
    """The levels of a cluster, coarse ones first.

    Those `named`, those that gangs use, the well-known ones, the host name, and labels that
    share the prefix of one of them (``example.com/``) or begin with ``topology.``. Only what nodes
    carry.
    """
    candidates = dict.fromkeys(named)
    for gang in request.gangs:
        for scope in gang.packing_scopes:
            candidates.update(dict.fromkeys((scope.required_level, scope.preferred_level)))
    prefixes = {
        key.partition("/")[0] for key in candidates if "/" in key and "kubernetes.io/" not in key
    }
    for node in request.snapshot.nodes:
        for key in node.labels:
            prefix, slash, _ = key.partition("/")
            if slash and (prefix in prefixes or prefix.startswith(_TOPOLOGY)):
                candidates.setdefault(key)
    candidates.update(dict.fromkeys((*_WELL_KNOWN, HOSTNAME)))
    counts = {key: len(domains(request, key)) for key in candidates if key}
    there = [key for key in counts if counts[key]]
    # The sort is stable: of equal numbers the order in which they are named.
    return tuple(sorted(there, key=lambda key: (counts[key], key == HOSTNAME)))


def inside(request: ComputePlacementRequest, fine: str, coarse: str) -> bool:
    """Whether every domain of `fine` lies in one domain of `coarse`, or outside of all, and some
    in one."""
    above: dict[str, str | None] = {}
    for node in request.snapshot.nodes:
        value = label(node, fine)
        if value is not None and above.setdefault(value, label(node, coarse)) != label(
            node, coarse
        ):
            return False
    return any(value is not None for value in above.values())


def coarser(request: ComputePlacementRequest, level: str, levels: Sequence[str]) -> list[str]:
    """The levels above `level`, nearest first; all but itself for one that no node carries."""
    if level not in levels:
        return [key for key in reversed(levels) if key != HOSTNAME]
    above = levels[: levels.index(level)]
    return [key for key in reversed(above) if inside(request, level, key)]


def finer(request: ComputePlacementRequest, level: str, levels: Sequence[str]) -> list[str]:
    """The levels whose domains lie inside those of `level`."""
    below = levels[levels.index(level) + 1 :] if level in levels else levels
    return [key for key in below if inside(request, key, level)]
