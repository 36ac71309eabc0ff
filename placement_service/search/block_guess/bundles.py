"""Gangs that belong in one block together: a gang and those that are based on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from placement_service.cp_sat.blocks.parts import Kind
from placement_service.cp_sat.blocks.shapes import Class
from placement_service.search.blocks.problem import names_blocks


class Bundle(NamedTuple):
    """Gangs by class and how many of each; where there is a base, it comes first, alone."""

    members: tuple[tuple[int, int], ...]

    @property
    def first(self) -> int:
        """The class of the base, or of the only gang."""
        return self.members[0][0]


class Apart(NamedTuple):
    """A bundle without one of its gangs, and that gang."""

    rest: Bundle
    gang: Bundle


def bundles(classes: Sequence[Class], gangs: Sequence[int]) -> Counter[Bundle]:
    """So many gangs of each class as bundles; only those to which blocks matter."""
    based: dict[int, list[int]] = {}
    for c, mine in enumerate(classes):
        if mine.base >= 0:
            based.setdefault(mine.base, []).append(c)
    found: Counter[Bundle] = Counter()
    for c, mine in enumerate(classes):
        left = {f: gangs[f] for f in based.get(c, ())}
        if mine.base >= 0 or not (left or names_blocks(mine)):
            continue
        for _ in range(gangs[c]):
            members = [(c, 1)]
            for f, n in left.items():
                here = min(n, classes[f].times)
                if here:
                    members.append((f, here))
                    left[f] -= here
            found[Bundle(tuple(members))] += 1
    return found


def loose_parts(classes: Sequence[Class], gangs: Sequence[int]) -> Counter[Kind]:
    """The parts of so many gangs of each class that name no block."""
    found: Counter[Kind] = Counter()
    for mine, n in zip(classes, gangs, strict=True):
        for kind, times in () if names_blocks(mine) else mine.shape.kinds:
            if kind.size:
                found[kind] += n * times
    return +found


def picky_parts(parts: Counter[Kind], pools: AbstractSet[int]) -> Counter[Kind]:
    """Those of some loose parts that may not use all pools: they need blocks like parts of other
    gangs, because what is left may be of other pools.
    """
    return Counter({kind: n for kind, n in parts.items() if not pools <= set(kind.pools)})


def may_be_apart(bundle: Bundle, classes: Sequence[Class]) -> bool:
    """Whether a bundle may lie in several blocks."""
    only = classes[bundle.first]
    return len(bundle.members) > 1 or (only.base < 0 and only.shape.splits is not None)


def without_one(bundle: Bundle) -> Apart:
    """Take one gang that is based on the first away."""
    *others, (c, n) = bundle.members
    fewer = [(c, n - 1)] if n > 1 else []
    return Apart(Bundle((*others, *fewer)), Bundle(((c, 1),)))
