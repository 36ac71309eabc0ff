"""Nodes that may be used, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass

from placement_service.formulation.arrays import Ints
from placement_service.formulation.indices import NO_DOMAIN, NO_LEVEL


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Nodes that may be used, as sorted indices; None for all.

    Where they are exactly a place of a level, `level` and `domain` say which, so that facts about
    its domains need not be computed again. `even` is true when no two of them are in different
    domains of the narrowest level.
    """

    nodes: Ints | None
    level: int = NO_LEVEL
    domain: int = NO_DOMAIN
    even: bool = False


EVERYWHERE = Region(None)
