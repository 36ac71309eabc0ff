"""What planning answers: remedies for a gang that waits, amounts with bounds, moves.

Names are resource names as on the wire. A remedy is the smallest of its kind that was found;
`proven` means that it is enough and that no smaller one is.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Evict:
    """Running gangs that would have to go, whole or some of their extras: these pods."""

    gangs: tuple[str, ...]
    pods: tuple[str, ...]
    proven: bool


@dataclass(frozen=True, slots=True)
class Uncordon:
    """Closed nodes that would have to be open."""

    nodes: tuple[str, ...]
    proven: bool


@dataclass(frozen=True, slots=True)
class Relax:
    """A packing scope that would have to accept a coarser level, "" for none.

    `scope` is "" for the scope of the whole gang.
    """

    scope: str
    level: str
    to: str
    proven: bool


@dataclass(frozen=True, slots=True)
class Reduce:
    """A group that would have to accept `to` pods instead of its minimum."""

    group: str
    minimum: int
    to: int
    proven: bool


@dataclass(frozen=True, slots=True)
class AddNodes:
    """`count` further nodes like one that exists."""

    like: str
    count: int
    proven: bool


Remedy = Evict | Uncordon | Relax | Reduce | AddNodes


@dataclass(frozen=True, slots=True)
class Bounded:
    """What was reached and the proven bound; None where nothing is known.

    `impossible`: it is proven that no number is enough.
    """

    value: int | None
    bound: int | None
    impossible: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """One pod that moves, in a step that has room once all earlier steps are done."""

    step: int
    pod: str
    gang: str
    from_node: str
    to_node: str


@dataclass(frozen=True, slots=True)
class Repacking:
    """The moves in order of their steps, and the domains that are free afterwards.

    No moves and fewer domains than asked for mean that no way was found.
    """

    moves: tuple[Move, ...]
    freed: tuple[str, ...]
    pods: Bounded
