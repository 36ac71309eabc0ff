"""What a guess of blocks for gangs consists of, and how far one came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from placement_service.cp_sat.blocks.parts import Kind
from placement_service.formulation.arrays import Ints
from placement_service.search.block_guess.assignment import Crowded
from placement_service.search.block_guess.bundles import Bundle


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """Bundles whole in a block, by bundle and block; the parts of torn gangs: their class and
    parts by kind and block; and `picky` parts of gangs that name no block. Blocks are places in
    `Blocks.order`.
    """

    whole: Counter[tuple[Bundle, int]]
    torn: Sequence[tuple[int, Counter[tuple[Kind, int]]]]
    picky: Counter[tuple[Kind, int]]


@dataclass(frozen=True, slots=True, eq=False)
class Try:
    """A guess of which some bundles (`nowhere`) have no block, and what these cost."""

    guess: Guess
    nowhere: Sequence[int]
    cost: int


class Settled(NamedTuple):
    """Whether racks hold what blocks hold; else an assignment that obeys all other rows, of which
    the racks of most blocks hold their share, None if there was none, and what leaves room in the
    blocks that hold too much.
    """

    held: bool
    nearest: Ints | None = None
    crowded: Sequence[Crowded] = ()


class Begun(NamedTuple):
    """How many bundles need a block, by place, and the classes of torn gangs."""

    gangs: Counter[int]
    torn: list[int]
