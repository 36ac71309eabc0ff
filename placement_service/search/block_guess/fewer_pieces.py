"""What may be tried so that torn gangs use fewer blocks: one is whole, or two pieces are one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from placement_service.search.block_guess.guess import Begun
from placement_service.search.block_guess.standing import Standing
from placement_service.search.block_guess.target import GuessTarget


class Fewer(NamedTuple):
    """Where a guess with one piece less begins. What is alike has one `name`; `size` are the nodes
    that find another block, or the parts.
    """

    name: object
    size: int
    begun: Begun
    standing: Standing


def fewer_pieces(target: GuessTarget, begun: Begun, standing: Standing) -> Iterator[Fewer]:
    """Each torn gang whole, and its smallest piece together with each other one, where a block has
    room for that alone. A gang has two pieces at least.
    """
    for gang, c in enumerate(begun.torn):
        whole = target.mended(gang, begun)
        if whole is not None:
            size = target.mine.classes[c].shape.size
            yield Fewer(("whole", c), size, whole, standing.without(gang))
        smallest, *others = standing.pieces_of(gang) or [-1]
        for other in others if len(others) > 1 else ():
            joined = standing.joined(smallest, other)
            if target.fits(joined.pieces[-1].parts):
                sizes = [len(standing.pieces[i].parts) for i in (smallest, other)]
                yield Fewer((c, *sizes), sizes[0], begun, joined)
