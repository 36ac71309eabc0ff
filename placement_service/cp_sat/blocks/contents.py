"""The content of blocks as counts: the form between the models of blocks and plans."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from placement_service.cp_sat.blocks.parts import Kind, RackSort

#: A pattern: (slot, how many of it). In a rack of one pool it is a slot for any part of its size
#: there, in a mixed one for a part of just this kind.
Sizes = tuple[tuple[Kind, int], ...]

#: Gangs wholly in a block, by class and block.
Held = Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True)
class LargePart:
    """The parts and extras of one large gang of a class, by kind and block."""

    cls: int
    parts: Mapping[tuple[Kind, int], int]
    extras: Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """What a model decided, as counts.

    `whole` and `away` by (class, block): gangs wholly there, and gangs of sets there without
    their base. `split` by class; `loose` are the parts of these by (kind, block); `extras` by
    (class, extra, block). `used` are parts by (kind, block, pool), `racks` racks by sort and
    pattern.
    """

    whole: dict[tuple[int, int], int] = field(default_factory=dict)
    away: dict[tuple[int, int], int] = field(default_factory=dict)
    split: dict[int, int] = field(default_factory=dict)
    loose: dict[tuple[Kind, int], int] = field(default_factory=dict)
    large: tuple[LargePart, ...] = ()
    extras: dict[tuple[int, int, int], int] = field(default_factory=dict)
    used: dict[tuple[Kind, int, int], int] = field(default_factory=dict)
    racks: dict[tuple[RackSort, Sizes], int] = field(default_factory=dict)

    def placed(self, classes: int) -> list[int]:
        """Gangs that have a place, by class."""
        found = [self.split.get(c, 0) for c in range(classes)]
        for part in self.large:
            found[part.cls] += 1
        for (c, _), n in (*self.whole.items(), *self.away.items()):
            found[c] += n
        return found

    def only(self, blocks: Collection[int]) -> Filled:
        """The part of it that lies in some blocks."""
        return Filled(
            {key: n for key, n in self.whole.items() if key[1] in blocks},
            {key: n for key, n in self.away.items() if key[1] in blocks},
            dict(self.split),
            {key: n for key, n in self.loose.items() if key[1] in blocks},
            tuple(
                LargePart(
                    p.cls,
                    {key: n for key, n in p.parts.items() if key[1] in blocks},
                    {key: n for key, n in p.extras.items() if key[1] in blocks},
                )
                for p in self.large
            ),
            {key: n for key, n in self.extras.items() if key[2] in blocks},
            {key: n for key, n in self.used.items() if key[1] in blocks},
            {key: n for key, n in self.racks.items() if key[0].block in blocks},
        )

    def beside(self, other: Filled) -> Filled:
        """Both together: this one decided what is split, for its blocks and those of the other.

        The first large gangs of this one are those of the other, in order; both are sorted.
        """
        large = []
        for i, mine in enumerate(self.large):
            rest = other.large[i] if i < len(other.large) else LargePart(mine.cls, {}, {})
            large.append(
                LargePart(mine.cls, {**mine.parts, **rest.parts}, {**mine.extras, **rest.extras})
            )
        return Filled(
            {**self.whole, **other.whole},
            {**self.away, **other.away},
            self.split,
            {**self.loose, **other.loose},
            tuple(sorted((p for p in large if p.parts), key=lambda p: p.cls)),
            {**self.extras, **other.extras},
            {**self.used, **other.used},
            {**self.racks, **other.racks},
        )
