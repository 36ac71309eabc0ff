"""Where everything stands after a guess, so that the next one begins there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.blocks.parts import Kind
from placement_service.formulation.arrays import Ints
from placement_service.search.block_guess.assignment import BlockAssignment, Crowded
from placement_service.search.block_guess.items import Items
from placement_service.search.block_guess.pieces import Parts


class PlacedPiece(NamedTuple):
    """A piece of a torn gang: which of these, its parts, and its block."""

    gang: int
    parts: Parts
    block: int


@dataclass(slots=True, eq=False)
class Standing:
    """How many bundles and picky parts each block has [B], and the pieces of so many torn gangs.

    `over` is what blocks hold above their rows. Where they hold too much, `tear` are bundles that
    leave room if they are torn, and `cut` torn gangs of which pieces do.
    """

    bundles: dict[int, Ints]
    picky: dict[Kind, Ints]
    pieces: list[PlacedPiece]
    torn: int
    over: int = 0
    tear: Sequence[Crowded] = ()
    cut: Sequence[Crowded] = ()

    def count(self, items: Items, blocks: int) -> Ints:
        """The same for items, of which the first pieces are those here [C, B + 1]."""
        count = np.zeros((len(items.each), blocks + 1), dtype=np.int64)
        for k, bundle in enumerate(items.bundles):
            count[k, :-1] = self.bundles.get(bundle, 0)
        for k, kind in enumerate(items.picky, len(items.bundles)):
            count[k, :-1] = self.picky.get(kind, 0)
        for k, piece in enumerate(self.pieces, items.first_piece):
            count[k, piece.block] = 1
        # What has no block is placed anew.
        count[:, -1] = 0
        return count

    def without(self, gang: int) -> Standing:
        """The same without the pieces of one of the torn gangs."""
        pieces = [
            piece._replace(gang=piece.gang - (piece.gang > gang))
            for piece in self.pieces
            if piece.gang != gang
        ]
        return Standing(self.bundles, self.picky, pieces, self.torn - 1)

    def pieces_of(self, gang: int) -> list[int]:
        """The pieces of a torn gang that have parts, by their places, the smallest first."""
        mine = (i for i, piece in enumerate(self.pieces) if piece.gang == gang and piece.parts)
        return sorted(mine, key=lambda i: len(self.pieces[i].parts))

    def joined(self, piece: int, other: int) -> Standing:
        """The same with the parts of a piece where another one of the gang is."""
        one, larger = self.pieces[piece], self.pieces[other]
        parts = sorted([*one.parts, *larger.parts], key=lambda kind: -kind.size)
        rest = [p for i, p in enumerate(self.pieces) if i not in (piece, other)]
        pieces = [*rest, larger._replace(parts=parts)]
        return Standing(self.bundles, self.picky, pieces, self.torn)


def where_all_stand(
    items: Items,
    torn: int,
    kinds: Sequence[Kind],
    search: BlockAssignment,
    crowded: Sequence[Crowded],
) -> Standing:
    """Where items of a search are, of which so many gangs are torn."""
    count, gang, first = search.count, items.gang.tolist(), len(items.bundles)

    return Standing(
        {bundle: count[k, :-1].copy() for k, bundle in enumerate(items.bundles)},
        {kind: count[k, :-1] for k, kind in enumerate(items.picky, first)},
        [
            PlacedPiece(gang[k], _parts(kinds, search.content[k]), int(count[k].argmax()))
            for k in range(items.first_piece, len(items.each))
        ],
        torn,
        search.over,
        [
            one._replace(gang=items.bundles[one.gang])
            for one in crowded
            if one.gang < first and items.each[one.gang].tearable
        ],
        [one._replace(gang=gang[one.gang]) for one in crowded if one.gang >= items.first_piece],
    )


def _parts(kinds: Sequence[Kind], content: Ints) -> Parts:
    """Parts one by one, the largest first."""
    found = [kind for kind, n in zip(kinds, content.tolist(), strict=True) for _ in range(n)]
    return sorted(found, key=lambda kind: -kind.size)
