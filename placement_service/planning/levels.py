"""Topology levels of a snapshot: their label keys, and which of them nest.

A level is a node label key. A request names levels only in packing scopes, so the order
comes from the nodes: of two levels the finer one has more domains, and lies inside the
coarser one when no domain of it is in two domains of that, or in part in none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from placement_service.entities.request import HOSTNAME, Snapshot

_WELL_KNOWN: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")

#: Labels that begin like this are levels.
_TOPOLOGY: Final = "topology."


def levels_of(
    snapshot: Snapshot, named: Iterable[str] = (), *, akin: bool = True
) -> tuple[str, ...]:
    """The levels of a cluster, coarse ones first.

    Those `named`, those that gangs use, the well-known ones, the host name, and if `akin` labels
    that share the prefix of one of them (``example.com/``) or begin with ``topology.``. Only what
    nodes carry.
    """
    candidates = dict.fromkeys(named)
    for gang in snapshot.gangs:
        for scope in gang.packing_scopes:
            candidates.update(dict.fromkeys((scope.required_level, scope.preferred_level)))
    prefixes = {
        key.partition("/")[0] for key in candidates if "/" in key and "kubernetes.io/" not in key
    }
    keys = dict.fromkeys(key for labels, _ in snapshot.columns.labels.counts() for key in labels)
    keys[HOSTNAME] = None
    for key in keys if akin else ():
        prefix, slash, _ = key.partition("/")
        if slash and (prefix in prefixes or prefix.startswith(_TOPOLOGY)):
            candidates[key] = None
    candidates.update(dict.fromkeys((*_WELL_KNOWN, HOSTNAME)))
    counts = {
        key: len(set(snapshot.columns.label(key)) - {None}) for key in candidates if key in keys
    }
    # The sort is stable: of equal numbers the order in which they are named.
    return tuple(sorted(counts, key=lambda key: (counts[key], key == HOSTNAME)))


def inside(snapshot: Snapshot, fine: str, coarse: str) -> bool:
    """Whether every domain of `fine` lies in one domain of `coarse`, or outside of all, and some
    in one."""
    above: dict[str, str | None] = {}
    values = snapshot.columns.label(fine), snapshot.columns.label(coarse)
    for value, over in zip(*values, strict=True):
        if value is not None and above.setdefault(value, over) != over:
            return False
    return any(value is not None for value in above.values())


def coarser(snapshot: Snapshot, level: str, levels: Sequence[str]) -> list[str]:
    """The levels above `level`, nearest first; all but hosts for one that no node carries."""
    if level not in levels:
        return [key for key in reversed(levels) if key != HOSTNAME]
    above = levels[: levels.index(level)]
    return [key for key in reversed(above) if inside(snapshot, level, key)]


def finer(snapshot: Snapshot, level: str, levels: Sequence[str]) -> list[str]:
    """The levels whose domains lie inside those of `level`."""
    below = levels[levels.index(level) + 1 :] if level in levels else levels
    return [key for key in below if inside(snapshot, key, level)]
