"""How racks of a block hold some parts, settled by a model over the patterns of racks.

It is small, because racks of a block that are alike are counted together: it takes some
milliseconds, whether the parts fit or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ortools.sat.python import cp_model

from placement_service.cp_sat.block_contents import Sizes
from placement_service.cp_sat.block_room import BlockRoom, TooManyPatterns
from placement_service.cp_sat.block_shapes import Blocks, Kind
from placement_service.cp_sat.solving import Answer, optimise


class PackedRack(NamedTuple):
    """A rack of a pool, its whole nodes, and the sizes of the parts in it."""

    pool: int
    capacity: int
    sizes: tuple[int, ...]


class PackedRacks(NamedTuple):
    """Parts by kind and pool, and the racks that hold those of several nodes."""

    used: Mapping[tuple[Kind, int], int]
    racks: Sequence[PackedRack]


def pack_racks(
    blocks: Blocks,
    block: int,
    parts: Mapping[Kind, int],
    most_patterns: int,
    *,
    seconds: float,
    effort: float,
) -> PackedRacks | None:
    """How racks of a block hold these parts; None where they do not, or where that takes longer."""
    cp = cp_model.CpModel()
    terms = {(kind, block): [(cp.new_int_var(n, n, ""), 1)] for kind, n in parts.items()}
    try:
        room = BlockRoom(cp, blocks, terms, {block: ()}, most_patterns)
    except TooManyPatterns:
        return None
    found = optimise(
        cp,
        [],
        maximize=False,
        seconds=seconds,
        effort=effort,
        portfolio=False,
        brief=True,
        direct=True,
    )
    if isinstance(found, Answer):
        return None
    value = found.solver.value
    used = Counter({(kind, q): value(v) for (kind, _, q), v in room.used.items()})
    times = [(sort, pattern, value(v)) for (sort, pattern), v in room.racks.items()]
    # Patterns have room for more than there is.
    left: Counter[tuple[int, int]] = Counter()
    for (kind, q), n in used.items():
        left[q, kind.size] += n
    racks = []
    for sort, pattern, n in times:
        for _ in range(n):
            sizes = tuple(_taken(left, sort.pool, pattern))
            if sizes:
                racks.append(PackedRack(sort.pool, sort.capacity, sizes))
    return PackedRacks(+used, racks)


def _taken(left: Counter[tuple[int, int]], pool: int, pattern: Sizes) -> Iterator[int]:
    """The sizes of a pattern for which there still are parts."""
    for size, n in pattern:
        take = min(n, left[pool, size])
        left[pool, size] -= take
        yield from [size] * take
