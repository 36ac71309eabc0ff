"""Parts that a filling of configurations lays into domains, and the gangs that get them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from placement_service.formulation.indices import GangIdx


class RequirementUnits(NamedTuple):
    """So many units of one requirement of a gang."""

    requirement: int
    units: int


@dataclass(frozen=True, slots=True)
class Piece:
    """`units` of some requirements of a gang that share a domain, all of one kind.

    `pin` is the domain that running pods hold it to, -1 for none.
    """

    kind: int
    units: tuple[RequirementUnits, ...]
    pin: int


#: Pieces that must share a domain.
Group = Sequence[Piece]


class GroupOf(NamedTuple):
    """A group of a gang of the problem."""

    gang: GangIdx
    pieces: Group


@dataclass(slots=True, eq=False)
class Slots:
    """Parts that lie in domains and are not yet given to gangs: {kind: times} by domain."""

    left: dict[int, dict[int, int]]
    given: dict[int, list[GroupOf]] = field(default_factory=dict)

    def take(self, gang: GangIdx, groups: Iterable[Group], domains: Iterable[int]) -> bool:
        """Give a gang slots in some domains for all its groups, or none."""
        domains = list(domains)
        taken: list[tuple[int, Group]] = []
        for pieces in groups:
            pin = next((p.pin for p in pieces if p.pin >= 0), -1)
            able = [d for d in domains if pin in (-1, d) and self._has(d, pieces)]
            if not able:
                for domain, mine in taken:
                    self.give_back(domain, mine)
                return False
            for piece in pieces:
                self.left[able[0]][piece.kind] -= 1
            taken.append((able[0], pieces))
        for domain, mine in taken:
            self.given.setdefault(domain, []).append(GroupOf(gang, mine))
        return True

    def add(self, others: Slots) -> None:
        """What was taken as `others` from the slots that are left here."""
        for domain, mine in others.given.items():
            self.given.setdefault(domain, []).extend(mine)

    def give_all_back(self) -> None:
        """Nobody has any slots here any longer."""
        for domain, mine in self.given.items():
            for one in mine:
                self.give_back(domain, one.pieces)
        self.given = {}

    def give_back(self, domain: int, pieces: Group) -> None:
        """Slots that nobody has any longer."""
        for piece in pieces:
            self.left[domain][piece.kind] += 1

    def drop_torn(self, gang: GangIdx, place_of: Callable[[int], int]) -> None:
        """Takes its slots from a gang that has some in several places."""
        mine = {d for d, groups in self.given.items() if any(one.gang == gang for one in groups)}
        if len({place_of(domain) for domain in mine}) > 1:
            for domain in mine:
                self.given[domain] = [one for one in self.given[domain] if one.gang != gang]

    def _has(self, domain: int, pieces: Group) -> bool:
        left = self.left.get(domain, {})
        need = Counter(piece.kind for piece in pieces)
        return all(left.get(k, 0) >= n for k, n in need.items())
