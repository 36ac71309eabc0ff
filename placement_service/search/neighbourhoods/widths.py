"""How many domains neighbourhoods set free, level by level: as many as are settled in time."""

from __future__ import annotations

from collections import Counter

from placement_service.search.parameters import SearchParameters


class Widths:
    """Learns from each neighbourhood that was settled in vain, or was not settled.

    Domains of one level may be racks and those of another a third of the cluster, so each level has
    a width of its own.
    """

    def __init__(self, parameters: SearchParameters) -> None:
        self._parameters = parameters
        self._width: dict[int, float] = {}
        #: How many of the smallest neighbourhoods of a level were not settled in a row.
        self._unsettled: Counter[int] = Counter()

    def domains(self, level: int) -> int:
        """The domains of a level to set free at once."""
        return min(self._parameters.most_domains, int(self._of(level)))

    def is_too_broad(self, level: int) -> bool:
        """Whether even the smallest neighbourhoods of a level take too long."""
        return self._unsettled[level] >= self._parameters.neighbourhood_unsettled

    def settled(self, level: int, size: int | None) -> None:
        """Nothing better is in one with so many variables, None where that is not known."""
        p = self._parameters
        small = size is not None and size <= p.neighbourhood_small
        self._width[level] = self._of(level) + (p.wider_small if small else p.wider)
        self._unsettled[level] = 0

    def improved(self, level: int) -> None:
        """One of this level made the plan better."""
        self._unsettled[level] = 0

    def unsettled(self, level: int) -> None:
        """One of this level was neither settled nor made the plan better."""
        p = self._parameters
        width = self._of(level)
        if width > p.fewest_domains:
            self._width[level] = max(p.fewest_domains, width - p.narrower)
        else:
            self._unsettled[level] += 1

    def _of(self, level: int) -> float:
        return self._width.get(level, float(self._parameters.fewest_domains))
