"""A cluster drawn as text: ``b1/r1: x1=8 x3=2/8 | b1/r2: x5=4``.

Racks are separated by ``|``. The domains of a rack are in front of the colon, from broad to
narrow: the last one is of level "rack", the one before of level "block", and the one before
that of level "zone"; ``-`` or nothing is no label. The nodes are behind the colon: ``x1=8``
has 8 GPUs, all free, ``x1=2/8`` has 2 of 8 free, and ``x1=0`` has none. Every node has `CPUS`
cores.
"""

from __future__ import annotations

from collections.abc import Iterable

from placement_service.entities.request import (
    CPU,
    HOSTNAME,
    PODS,
    Node,
)

GPU = "nvidia.com/gpu"
CPUS = 64

#: Levels in front of the colon, the narrowest last.
LEVELS = ("zone", "block", "rack")


def level_key(level: str) -> str:
    """The label key of a level: "host" is short for the hostname label."""
    return HOSTNAME if level == "host" else level


def parse(drawing: str) -> Iterable[Node]:
    """The nodes of a drawing."""
    for rack in drawing.split("|"):
        path, colon, nodes = rack.rpartition(":")
        domains = path.strip().split("/") if colon and path.strip() else []
        levels = LEVELS[len(LEVELS) - len(domains) :]
        labels = {k: v for k, v in zip(levels, domains, strict=True) if v not in ("", "-")}
        for text in nodes.split():
            name, _, gpus = text.partition("=")
            free, slash, total = gpus.partition("/")
            size = int(total if slash else free)
            yield Node(
                name=f"nodes/{name}",
                labels={HOSTNAME: name, **labels},
                allocatable={CPU: CPUS * 1000, PODS: 110, **({GPU: size} if size else {})},
                requested={GPU: size - int(free)} if slash else {},
            )
