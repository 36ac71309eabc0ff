"""How racks of a block hold some parts: settled by a model over patterns where the nodes of each
rack are alike, else by one over columns that are known of the racks, or by one over counts.

They are small, because racks of a block that are alike are counted together: it takes some
milliseconds, whether the parts fit or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ortools.sat.python import cp_model

from placement_service.cp_sat.blocks.contents import Sizes
from placement_service.cp_sat.blocks.parts import Kind, RackSort
from placement_service.cp_sat.blocks.rack_columns import Column, RackColumns
from placement_service.cp_sat.blocks.room import BlockRoom, TooManyPatterns
from placement_service.cp_sat.blocks.shapes import Blocks
from placement_service.cp_sat.solving import Answer, Found, Strategy, Var, dot, optimise
from placement_service.formulation.tiers.goal import Terms


class PackedRack(NamedTuple):
    """A rack of a sort, and the parts of several nodes in it."""

    sort: RackSort
    kinds: tuple[Kind, ...]


#: The racks that hold parts of several nodes.
PackedRacks = Sequence[PackedRack]


def pack_patterns(
    blocks: Blocks,
    block: int,
    parts: Mapping[Kind, int],
    most_patterns: int,
    *,
    seconds: float,
    effort: float,
) -> PackedRacks | None:
    """How racks of a block, each of one pool, hold these parts; None where they do not, or where
    that takes longer.
    """
    cp = cp_model.CpModel()
    terms = {(kind, block): [(cp.new_int_var(n, n, ""), 1)] for kind, n in parts.items()}
    try:
        room = BlockRoom(cp, blocks, terms, {block: ()}, most_patterns)
    except TooManyPatterns:
        return None
    found = _solve(cp, seconds, effort)
    if found is None:
        return None
    value = found.solver.value
    # Patterns have room for more than there is.
    left: dict[Kind, list[Kind]] = {}
    for (kind, _, q), v in room.used.items():
        left.setdefault(Kind((q,), kind.size), []).extend([kind] * value(v))
    filled = (
        PackedRack(sort, tuple(_in_slots(left, pattern)))
        for (sort, pattern), v in room.racks.items()
        for _ in range(value(v))
    )
    return [rack for rack in filled if rack.kinds]


def _in_slots(left: Mapping[Kind, list[Kind]], pattern: Sizes) -> Iterator[Kind]:
    """Parts for the slots of a pattern, as far as there still are some."""
    for slot, n in pattern:
        mine = left.get(slot, [])
        for _ in range(min(n, len(mine))):
            yield mine.pop()


def pack_columns(
    columns: RackColumns,
    block: int,
    parts: Mapping[Kind, int],
    *,
    seconds: float,
    effort: float,
) -> PackedRacks | None:
    """How racks of a block hold these parts in columns that are known; None where they do not, or
    where that takes longer.
    """
    cp = cp_model.CpModel()
    cover: dict[Kind, Terms[Var]] = {kind: [] for kind, n in parts.items() if n}
    used: list[tuple[RackSort, Column, Var]] = []
    for sort, racks in columns.racks[block].items():
        # Of columns that hold more than is asked for many are alike.
        some = (
            tuple((kind, min(n, parts[kind])) for kind, n in column if parts.get(kind))
            for column in columns.known[sort]
        )
        mine = []
        for column in dict.fromkeys(some):
            v = cp.new_int_var(0, racks, "")
            mine.append(v)
            used.append((sort, column, v))
            for kind, n in column:
                cover[kind].append((v, n))
        cp.add(cp_model.LinearExpr.sum(mine) <= racks)
    for kind, terms in cover.items():
        cp.add(dot(terms) >= parts[kind])
    found = _solve(cp, seconds, effort)
    if found is None:
        return None
    left = Counter(parts)
    value = found.solver.value
    filled = (
        PackedRack(sort, tuple(_taken(left, column)))
        for sort, column, v in used
        for _ in range(value(v))
    )
    return [rack for rack in filled if rack.kinds]


def pack_counts(
    racks: Sequence[RackSort],
    pool_sets: Sequence[frozenset[int]],
    parts: Mapping[Kind, int],
    *,
    seconds: float,
    effort: float,
) -> PackedRacks | None:
    """The same by how many parts of each kind lie in each rack, whatever columns are known."""
    cp = cp_model.CpModel()
    inside: list[dict[Kind, Var]] = [{} for _ in racks]
    for kind, times in parts.items():
        for sort, mine in zip(racks, inside, strict=True):
            most = min(times, sort.within(kind.pools) // kind.size)
            if most:
                mine[kind] = cp.new_int_var(0, most, "")
        cp.add(cp_model.LinearExpr.sum([mine[kind] for mine in inside if kind in mine]) == times)
    for sort, mine in zip(racks, inside, strict=True):
        for pools in pool_sets:
            terms = [(v, kind.size) for kind, v in mine.items() if pools.issuperset(kind.pools)]
            if terms:
                cp.add(dot(terms) <= sort.within(pools))
    found = _solve(cp, seconds, effort)
    if found is None:
        return None
    value = found.solver.value
    filled = (
        PackedRack(sort, tuple(k for k, v in mine.items() if k.size > 1 for _ in range(value(v))))
        for sort, mine in zip(racks, inside, strict=True)
    )
    return [rack for rack in filled if rack.kinds]


def _solve(cp: cp_model.CpModel, seconds: float, effort: float) -> Found | None:
    found = optimise(
        cp,
        [],
        maximize=False,
        seconds=seconds,
        effort=effort,
        strategy=Strategy(linear=1, brief=True, direct=True),
    )
    return None if isinstance(found, Answer) else found


def _taken(left: Counter[Kind], column: Column) -> Iterator[Kind]:
    """Parts of several nodes that a column holds and that are still left."""
    for kind, n in column:
        take = min(n, left[kind])
        left[kind] -= take
        if kind.size > 1:
            yield from [kind] * take
