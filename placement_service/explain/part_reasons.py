"""Parts inside parts: each fits a domain by itself, but there are not enough such domains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from placement_service.entities.placement import Reason, ReasonCode
from placement_service.explain import wording as words
from placement_service.explain.capacity_bounds import CLUSTER, Headroom, Kind, Kinds, Need, Needs
from placement_service.explain.capacity_words import CapacityWords
from placement_service.explain.findings import CAPACITY, Finding
from placement_service.formulation.arrays import Ints
from placement_service.formulation.gangs.scope_tree import Part
from placement_service.formulation.problem import Gang


@dataclass(slots=True, eq=False)
class _Alike:
    """Parts inside one part that each need a domain of the same level, of pods of one kind."""

    level: int
    kind: Kind
    sizes: list[int] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)

    @property
    def of_one_size(self) -> bool:
        return min(self.sizes) == max(self.sizes)


@dataclass(frozen=True, slots=True, eq=False)
class _Domains:
    """The narrow domains that parts need, inside those of `level`: the wide one of each narrow one,
    its place at the narrow level, and how many pods it has room for, with all rules and without.
    """

    level: int
    count: int
    wide: Ints
    narrow: Ints
    room: Ints
    bare: Ints

    @classmethod
    def of(cls, headroom: Headroom, level: int, alike: _Alike) -> _Domains:
        of, count = headroom.regions(level)
        low, low_count = headroom.regions(alike.level)
        inside = (of >= 0) & (low >= 0)
        pairs, where = np.unique(of[inside] * low_count + low[inside], return_inverse=True)

        def of_each(row: Ints) -> Ints:
            return np.bincount(where, row[inside], len(pairs)).astype(np.int64)

        return cls(
            level,
            count,
            wide=pairs // max(1, low_count),
            narrow=pairs % max(1, low_count),
            room=of_each(headroom.row(alike.kind)),
            bare=of_each(headroom.row(alike.kind, bare=True)),
        )

    def holding(self, room: Ints, size: int) -> Ints:
        """How many parts of a size each wide domain holds."""
        return np.bincount(self.wide, room // size, self.count).astype(np.int64)


class PartShortfalls:
    """Findings about the parts of gangs."""

    def __init__(self, kinds: Kinds, say: CapacityWords) -> None:
        self.kinds = kinds
        self.problem = kinds.problem
        self.say = say

    def findings(self, gang: Gang, headroom: Headroom, part: Part) -> Iterator[Finding]:
        """Those of a part, or else those of the parts in it."""
        found = False
        for several in self._alike_below(gang, part):
            findings = (self._too_few_domains(headroom, part, alike) for alike in several)
            finding = next((one for one in findings if one is not None), None)
            if finding is not None:
                found = True
                yield finding
        if not found:
            for child in part.children:
                yield from self.findings(gang, headroom, child)

    def _alike_below(self, gang: Gang, part: Part) -> Iterator[Iterable[_Alike]]:
        """The nearest parts below that require a level, level by level."""
        inner = list(_required_below(part))
        for level in dict.fromkeys(child.required for child in inner):
            found: dict[int, _Alike] = {}
            for child in inner:
                needs = self.kinds.needs(gang, child.demands)
                kinds = {k.number: k for n in needs for k, _ in n.kinds}
                pinned = child.scope is not None and child.scope.pin >= 0
                if child.required == level and len(kinds) == 1 and not pinned:
                    ((number, kind),) = kinds.items()
                    alike = found.setdefault(number, _Alike(level, kind))
                    alike.sizes.append(sum(n.missing for n in needs))
                    alike.needs.extend(needs)
            yield found.values()

    def _too_few_domains(self, headroom: Headroom, part: Part, alike: _Alike) -> Finding | None:
        """A finding when more parts of some size are asked for than domains hold."""
        level = part.required if part.required >= 0 else CLUSTER
        domains = _Domains.of(headroom, level, alike)
        pin = part.scope.pin if part.scope is not None else -1
        for size in sorted(set(alike.sizes), reverse=True):
            large = sorted((s for s in alike.sizes if s >= size), reverse=True)
            holds = domains.holding(domains.room, size)
            best = pin if pin >= 0 else int(np.argmax(holds)) if len(holds) else -1
            if best >= 0 and holds[best] < len(large) and len(large) >= 2:
                fitting = int(holds[best])
                reason = self._reason(headroom, domains, alike, large, best, fitting, pin)
                return Finding(reason, tuple(alike.needs), level, pin)
        return None

    def _reason(
        self,
        headroom: Headroom,
        domains: _Domains,
        alike: _Alike,
        large: list[int],
        best: int,
        fitting: int,
        pin: int,
    ) -> Reason:
        """Why: of the `large` parts only `fitting` are held by the `best` domain."""
        level, narrow, size = domains.level, alike.level, large[-1]
        needs: Needs = tuple(alike.needs)
        same = "" if large[0] == large[-1] else "at least "
        most = "" if not fitting or (alike.of_one_size and headroom.exact(needs)) else "at most "
        text = (
            f"{self.say.place(level, best, pinned=pin >= 0)} has room for "
            f"{most}{fitting} of {len(large)} parts of "
            f"{same}{words.pods(size)}{self.say.of_what(needs)} that need one "
            f"{self.say.level(narrow)} each"
        )
        code = ReasonCode.NO_COMBINATION if level == CLUSTER else CAPACITY[True, pin >= 0]
        holds = domains.holding(domains.bare, size)
        there = pin if pin >= 0 else int(np.argmax(holds))
        if holds[there] >= len(large):
            rules = self.kinds.rules_of([alike.kind])
            code = words.code_of(rules)
            text += f" under {words.listed(rules)}; resources alone would do"
            text += "" if level == CLUSTER else f" in {self.say.place(level, there)}"
        keys = [self.problem.levels[narrow].key]
        if level != CLUSTER:
            keys.append(self.problem.levels[level].key)
            if pin < 0 and domains.count > 1:
                text += f"; no other {self.say.level(level)} has more"
        shown, domain = level, best
        if level == CLUSTER:
            # Where the next part nearly fits, after those that fit.
            rest = domains.room % size
            shown, domain = narrow, int(domains.narrow[int(np.argmax(rest))])
            if rest.any():
                most = "" if headroom.exact(needs) else "at most "
                text += f"; after those {self.say.place(narrow, domain)} has most left, for "
                text += f"{most}{int(rest.max())} of {size}"
        text += f" ({words.required(keys)})."
        if closed := self.say.closed(needs, headroom.regions(level)[0] == best):
            at = "" if level == CLUSTER else f" in {self.say.place(level, best)}"
            text += f" Closed{at}: {closed}."
        return Reason(
            code,
            text,
            level=self.problem.levels[shown].key,
            domain=self.problem.levels[shown].values[domain],
            asked=sum(large),
            found=sum(large[:fitting]),
        )


def _required_below(part: Part) -> Iterable[Part]:
    """The nearest parts below with a required level."""
    for child in part.children:
        if child.required >= 0:
            yield child
        else:
            yield from _required_below(child)
