"""A tighter linear program with the same whole solutions (Savelsbergh, "Preprocessing and probing
techniques for mixed integer programming problems", 1994).

*Bounds:* a row leaves each of its variables what all others do not take at least, and a whole
variable ends at a whole number. *Weights:* where a row only says something while a whole variable
is at its bound, a smaller weight says the same of whole numbers and more of others:

    8 load + kept <= 8  with  kept <= 7     becomes     7 load + kept <= 7
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.linear_program import LinearProgram
from placement_service.formulation.arrays import Bools, Floats, Ints

#: How far from a whole number a bound may be and still mean that number.
TINY = 1e-6
#: A bound changes by so much at least: others follow slowly, and say little.
LEAST_CHANGE = 1e-3
#: So often all rows are looked at: in each one bounds follow from those of the one before.
ROUNDS = 10


class Bounds(NamedTuple):
    """The least and the most of each variable [V]."""

    least: Floats
    most: Floats


def tightened(program: LinearProgram) -> LinearProgram:
    """The program with tighter bounds and weights; the same where it has no whole solution."""
    bounds = bounds_of(program)
    return program if bounds is None else _with_smaller_weights(program, *bounds)


def bounds_of(program: LinearProgram) -> Bounds | None:
    """The bounds that follow from all rows; None where there is no whole solution."""
    bounds = Bounds(np.zeros(len(program.goal)), program.most.astype(np.float64))
    every = np.arange(len(program.matrix.rows))
    for _ in range(ROUNDS):
        changed = follow(program, bounds, every)
        if (bounds.least[changed] > bounds.most[changed] + TINY).any():
            return None
        if not len(changed):
            break
    return bounds


def follow(program: LinearProgram, bounds: Bounds, entries: Ints) -> Ints:
    """Bring bounds to what some entries, of whole rows, leave to their variables; which of these
    changed.
    """
    least, most = bounds
    rows, columns, weights = program.matrix.some(entries)
    low, high = each(weights, columns, least, most)
    # What a row leaves when all its other variables take as little, or as much, as they can.
    above = program.row_most[rows] - (sums(rows, low, program)[rows] - low)
    below = program.row_least[rows] - (sums(rows, high, program)[rows] - high)
    up, down = np.where(weights > 0, (above, below), (below, above)) / weights
    new_most, new_least = most.copy(), least.copy()
    np.minimum.at(new_most, columns, up)
    np.maximum.at(new_least, columns, down)
    mine = np.unique(columns)
    up, down, whole = new_most[mine], new_least[mine], program.whole[mine]
    up = np.where(whole, np.floor(up + TINY), up)
    down = np.where(whole, np.ceil(down - TINY), down)
    falls, rises = up < most[mine] - LEAST_CHANGE, down > least[mine] + LEAST_CHANGE
    most[mine[falls]], least[mine[rises]] = up[falls], down[rises]
    changed: Ints = mine[falls | rises]
    return changed


def _with_smaller_weights(program: LinearProgram, least: Floats, most: Floats) -> LinearProgram:
    """The program with these bounds, and no weight larger than what its row has to say: by how much
    it can be broken at all.

    One step of a whole variable away from its bound then makes the row true whatever the others do,
    with the larger weight as with the smaller one. All weights of a row may change at once, because
    what it has to say stays the same.
    """
    rows, columns, weights = program.matrix
    # Rows with two sides would need other weights for each.
    upper, lower = np.isfinite(program.row_most), np.isfinite(program.row_least)
    sign = np.where(upper & ~lower, 1.0, np.where(lower & ~upper, -1.0, 0.0))
    room = np.where(sign > 0, program.row_most, np.where(sign < 0, -program.row_least, 0.0))
    mine = sign[rows] * weights
    _, high = each(mine, columns, least, most)
    says = (sums(rows, high, program) - room)[rows]
    free = program.whole[columns] & (most - least > TINY)[columns]
    large: Bools = free & (sign[rows] != 0) & (says > TINY) & (np.abs(mine) > says + TINY)
    cut = np.where(large, np.abs(mine) - says, 0.0)
    mine = mine - np.sign(mine) * cut
    # At its bound a variable takes as much less as there is less room.
    at = np.where(mine > 0, most[columns], -least[columns])
    room = room - sums(rows, cut * at, program)
    return program._replace(
        matrix=program.matrix._replace(weights=np.where(large, sign[rows] * mine, weights)),
        row_most=np.where(sign > 0, room, program.row_most),
        row_least=np.where(sign < 0, -room, program.row_least),
        most=most,
    )


def each(weights: Floats, columns: Ints, least: Floats, most: Floats) -> tuple[Floats, Floats]:
    """The least and the most that each entry adds to its row."""
    some, others = weights * least[columns], weights * most[columns]
    return np.minimum(some, others), np.maximum(some, others)


def sums(rows: Ints, entries: Floats, program: LinearProgram) -> Floats:
    """What the entries of each row add up to [R]."""
    return np.bincount(rows, entries, len(program.row_most)).astype(np.float64)
