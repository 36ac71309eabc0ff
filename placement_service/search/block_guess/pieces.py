"""Cuts gangs that no block can hold whole beside the others into pieces that blocks can hold."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.blocks.parts import Kind
from placement_service.cp_sat.blocks.shapes import Class
from placement_service.formulation.arrays import Ints
from placement_service.search.block_guess.rows import BlockRows

#: The largest first.
Parts = list[Kind]

#: How often blocks for the pieces of a gang are chosen at random, before the roomiest are taken.
CHOICES = 20


class GangPiece(NamedTuple):
    """Some parts of one of the gangs that were cut."""

    gang: int
    parts: Parts


def parts_of(gang: Class) -> Parts:
    """The parts of a gang one by one, the largest first."""
    kinds = sorted(gang.shape.kinds, key=lambda k: -k[0].size)
    return [kind for kind, times in kinds for _ in range(times if kind.size else 0)]


class PieceCutter:
    """Cuts gangs, each time in another way."""

    def __init__(self, rows: BlockRows, *, seed: int) -> None:
        self.rows = rows
        self._kind = {kind: i for i, kind in enumerate(rows.kinds)}
        self._random = random.Random(seed)

    def takes(self, parts: Parts) -> Ints:
        """What parts take together, row by row."""
        total: Ints = self._each(parts).sum(axis=0)
        return total

    def cut(
        self,
        gangs: Sequence[Parts],
        *,
        more: int = 0,
        places: Sequence[Sequence[int]] = (),
        load: Ints | int = 0,
    ) -> list[GangPiece]:
        """Each gang in as few pieces as blocks allow, two at least, and some in one more.

        A piece is what one of so many blocks has room for beside all pieces before it. The gangs
        that take most of anything scarce are cut first. `places` are the blocks for the pieces of
        each gang, nothing where any will do, and `load` [B, R] is what blocks hold already.
        """
        room = np.maximum(self.rows.room - load, 0)
        total = np.maximum(1, room.sum(axis=0))
        hard = [float((self.takes(parts) / total).max(initial=0.0)) for parts in gangs]
        often = Counter(self._random.choices(range(len(gangs)), k=more) if gangs else ())
        found: list[GangPiece] = []
        for gang in sorted(range(len(gangs)), key=lambda gang: -hard[gang]):
            left = gangs[gang]
            most = self._fitting(left, room)
            known = places[gang] if places else ()
            chosen = known or self._choose(most, len(left), often[gang])
            for i, b in enumerate(chosen):
                later = sum(most[other] for other in chosen[i + 1 :])
                size = able = min(most[b], len(left))
                if later:
                    size = self._random.randint(min(max(1, len(left) - later), able), able)
                piece, left = left[:size], left[size:]
                room[b] = np.maximum(room[b] - self.takes(piece), 0)
                found.append(GangPiece(gang, piece))
            found.append(GangPiece(gang, left))
        return [piece for piece in found if piece.parts]

    def _choose(self, most: Sequence[int], parts: int, more: int) -> Sequence[int]:
        """Some of the fewest blocks that have room for so many parts, and `more`."""
        roomy = sorted((b for b, n in enumerate(most) if n), key=lambda b: -most[b])
        count = 2
        while count < len(roomy) and sum(most[b] for b in roomy[:count]) < parts:
            count += 1
        count = min(count + more, len(roomy))
        for _ in range(CHOICES):
            chosen = self._random.sample(roomy, count)
            if sum(most[b] for b in chosen) >= parts:
                return chosen
        return roomy[:count]

    def _fitting(self, parts: Parts, room: Ints) -> list[int]:
        """How many parts each block has room for, the first ones."""
        together = np.cumsum(self._each(parts), axis=0)
        found: list[int] = (together <= room[:, None]).all(axis=2).sum(axis=1).tolist()
        return found

    def _each(self, parts: Parts) -> Ints:
        at = np.array([self._kind[kind] for kind in parts], dtype=np.int64)
        each: Ints = self.rows.parts[at]
        return each
