"""Rows that separate a point from others, in exact numbers.

Among a >= 0 with a.m <= 1 for every given point m, the one with the largest a.x. If that is
above 1 it is a row that every m keeps and x breaks; else x lies below a convex combination
of the m, and the dual prices name those that it is made of. A textbook simplex is enough for
points of a few dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import Ints

Point = tuple[int, ...]


class Separation(NamedTuple):
    """`row` in whole numbers, None when there is none; then `inside` are points around it."""

    row: Point | None
    inside: tuple[Point, ...] = ()


def separate(points: Ints, away: Point) -> Separation:
    """A row that all points [P, K] keep and `away` breaks."""
    reach = points.max(axis=0)
    for k, count in enumerate(away):
        if count and not reach[k]:
            return Separation(tuple(int(j == k) for j in range(len(away))))
    # Few points matter: each round adds the most violated one.
    chosen = [int(np.argmax(points[:, k])) for k, count in enumerate(away) if count]
    chosen = list(dict.fromkeys(chosen))
    while True:
        row, prices = _largest([tuple(map(int, points[i])) for i in chosen], away)
        if _times(row, away) <= 1:
            inside = (tuple(map(int, points[i])) for i, p in zip(chosen, prices, strict=True) if p)
            return Separation(None, tuple(inside))
        scale = lcm(*(v.denominator for v in row))
        whole = np.array([int(v * scale) for v in row], dtype=np.int64)
        values = points @ whole
        worst = int(np.argmax(values))
        if values[worst] <= scale:
            return Separation(tuple((whole // gcd(*whole.tolist())).tolist()))
        chosen.append(worst)


def _times(row: Sequence[Fraction], point: Point) -> Fraction:
    return sum((a * b for a, b in zip(row, point, strict=True)), Fraction(0))


def _largest(points: Sequence[Point], away: Point) -> tuple[list[Fraction], list[Fraction]]:
    """The row that is largest on `away`, and the price of each point."""
    zero, one = Fraction(0), Fraction(1)
    used = [k for k, count in enumerate(away) if count]
    # The row, a slack for each point, the right side. The last line is the objective.
    lines = [
        [
            *(Fraction(p[k]) for k in used),
            *(one if i == j else zero for j in range(len(points))),
            one,
        ]
        for i, p in enumerate(points)
    ]
    aim = [*(Fraction(-away[k]) for k in used), *([zero] * (len(points) + 1))]
    basis = [len(used) + i for i in range(len(points))]
    # Bland's rule: the first that improves, so that it ends.
    while (enter := next((c for c, v in enumerate(aim[:-1]) if v < 0), -1)) >= 0:
        able = [
            (line[-1] / line[enter], basis[i], i) for i, line in enumerate(lines) if line[enter] > 0
        ]
        _, _, leave = min(able)
        pivot = lines[leave][enter]
        lines[leave] = [v / pivot for v in lines[leave]]
        for other in (*(line for i, line in enumerate(lines) if i != leave), aim):
            if factor := other[enter]:
                other[:] = [
                    v - factor * p if p else v for v, p in zip(other, lines[leave], strict=True)
                ]
        basis[leave] = enter
    row = [zero] * len(away)
    for b, line in zip(basis, lines, strict=True):
        if b < len(used):
            row[used[b]] = line[-1]
    return row, aim[len(used) : -1]
