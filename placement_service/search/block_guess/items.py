"""What gets blocks in one guess, class by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from placement_service.cp_sat.blocks.parts import Kind
from placement_service.formulation.arrays import Bools, Ints
from placement_service.search.block_guess.pieces import GangPiece


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """What gets one block: a bundle, a picky part, or a piece of a torn gang. `content` [K] are its
    parts by kind, `takes` and `small` [R] what it takes of rows.
    """

    content: Ints
    takes: Ints
    small: Ints
    cost: int
    tearable: bool


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Bundles by their places, picky parts by kind and pieces, in this order: an item `each` [C],
    and how many `times` there is one.
    """

    bundles: Sequence[int]
    picky: Sequence[Kind]
    pieces: Sequence[GangPiece]
    each: Sequence[Item]
    times: Sequence[int]

    def with_pieces(self, pieces: Sequence[GangPiece], each: Sequence[Item]) -> Items:
        """The same and more pieces."""
        return replace(
            self,
            pieces=[*self.pieces, *pieces],
            each=[*self.each, *each],
            times=[*self.times, *(1 for _ in pieces)],
        )

    @property
    def first_piece(self) -> int:
        """The place of the first piece."""
        return len(self.each) - len(self.pieces)

    @property
    def content(self) -> Ints:
        """The parts of each by kind [C, K]."""
        return np.array([item.content for item in self.each], dtype=np.int64)

    @property
    def takes(self) -> Ints:
        """What each takes of rows [C, R]."""
        return np.array([item.takes for item in self.each], dtype=np.int64)

    @property
    def small(self) -> Ints:
        """What each takes of rows of small pods [C, R]."""
        return np.array([item.small for item in self.each], dtype=np.int64)

    @property
    def costs(self) -> Ints:
        """What each costs that has no block [C]."""
        return np.array([item.cost for item in self.each], dtype=np.int64)

    @property
    def tearable(self) -> Bools:
        """Which may be torn [C]."""
        return np.array([item.tearable for item in self.each], dtype=bool)

    @property
    def gang(self) -> Ints:
        """The torn gang of each piece, -1 for all others [C]."""
        gangs = [-1] * self.first_piece + [piece.gang for piece in self.pieces]
        return np.array(gangs, dtype=np.int64)
