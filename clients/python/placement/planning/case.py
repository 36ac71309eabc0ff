"""A gang that waits, and the two ways to ask whether a change lets it in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from placement.planning.planner import Fit, Planner
from placement.v1 import ComputePlacementRequest, PodGang

#: A request as it would be.
Change = Callable[[ComputePlacementRequest], ComputePlacementRequest]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """`wanted` are the gangs that have to be placed together: this one and what the plan
    places. `settled` is the request for it alone after the plan was carried out. `levels`:
    coarse first.
    """

    request: ComputePlacementRequest
    settled: ComputePlacementRequest
    gang: PodGang
    wanted: frozenset[str]
    levels: Sequence[str]
    planner: Planner

    def within(self, share: float) -> Case:
        """The case with a part of the time that is left."""
        return replace(self, planner=self.planner.within(share))

    def quick(self, change: Change) -> bool:
        """Whether the gang fits beside the plan as it is. False says little."""
        alone = [gang.name for gang in self.settled.gangs]
        return self.planner.places(change(self.settled), alone) is Fit.YES

    def fit(self, change: Change) -> Fit:
        """Whether all wanted gangs fit together."""
        return self.planner.fit(change(self.request), self.wanted)

    def holds(self, change: Change, gone: Collection[str] = ()) -> Fit:
        """Whether the best plan for everything that waits places all that is wanted."""
        wanted = self.wanted.difference(gone)
        changed = change(self.request)
        fit = self.planner.fit(changed, wanted)
        if fit is not Fit.YES or len(wanted) == len(changed.gangs):
            return fit
        return self.planner.places(changed, wanted)


def least(
    most: int, quick: Callable[[int], bool], fit: Callable[[int], Fit]
) -> tuple[int | None, bool]:
    """The least number from 1 to `most` that is enough, where more is never worse.

    `quick` may say no too often; it finds where to look. And whether it is known that less
    is not enough; None with True when even `most` is known not to be.
    """
    if most < 1:
        return None, True
    high = _first(most, quick)
    answer = fit(high) if high is not None else Fit.UNKNOWN
    if answer is not Fit.YES:
        high = most
        answer = fit(high)
        if answer is not Fit.YES:
            return None, answer is Fit.NO
    assert high is not None
    # What `quick` found is likely the least, so the steps grow downwards.
    low, step, proven = 0, 1, True
    while low + 1 < high:
        middle = max(high - step, (low + high) // 2)
        answer = fit(middle)
        if answer is Fit.YES:
            high, step = middle, step * 2
        else:
            # What is not known counts as too little; then the proof is lost.
            low, step, proven = middle, 1, answer is Fit.NO
    return high, proven


def _first(most: int, quick: Callable[[int], bool]) -> int | None:
    """The least number that `quick` accepts, looked for in growing steps."""
    low, high = 0, 1
    while not quick(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    while low + 1 < high:
        middle = (low + high) // 2
        if quick(middle):
            high = middle
        else:
            low = middle
    return high
