"""The fewest running pods that would have to go for a gang that waits.

Sets of victims are tried from few pods to many. A look at the nodes refuses most of them;
the service decides about the rest, so every rule counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from placement.planning import changes
from placement.planning.case import Case
from placement.planning.planner import Fit
from placement.planning.remedies import Evict, irreducible
from placement.planning.room import Room
from placement.planning.victims import Budgets, Victim, victims
from placement.v1 import ComputePlacementRequest

#: Most sets of victims that are looked at.
_MOST_SETS: Final = 100_000


def evict(case: Case) -> Iterator[Evict]:
    """The least eviction that is enough."""
    everyone = victims(case.request, case.gang)
    whole = [victim for victim in everyone if victim.extra_of is None]
    budgets = Budgets(case.request)
    room = Room(case.request, case.gang)

    def fit(chosen: Sequence[Victim]) -> Fit:
        if not room.may_suffice(_pods(chosen)):
            return Fit.NO
        gone = {name for v in chosen if v.extra_of is None for name in v.gangs}
        return case.holds(partial(without, chosen=chosen), gone)

    # 1. Is there any set that is enough? Whole gangs leave the most room.
    if not everyone:
        return
    known: Evict | None = None
    answer = fit(whole) if whole else Fit.UNKNOWN
    if answer is Fit.YES:
        by_name = {victim.gangs[0]: victim for victim in whole}
        names = irreducible(
            [victim.gangs[0] for victim in reversed(whole)],
            lambda some: fit([by_name[name] for name in some]) is Fit.YES,
        )
        chosen = [by_name[name] for name in names]
        if budgets.allow(_pods(chosen)):
            known = _remedy(chosen, proven=False)
            yield known
    elif answer is Fit.NO and len(whole) == len(everyone):
        return
    # 2. Is there a lesser one? All sets of one size, then of the next.
    proven = True
    tried = 0
    limits = _extra_limits(case.request)
    most = known.pods if known is not None else sum(len(victim.pods) for victim in everyone)
    for size in range(1, most):
        for some in _sets(everyone, size, limits):
            tried += 1
            if tried > _MOST_SETS or case.planner.left <= 0:
                return
            if not budgets.allow(_pods(some)):
                continue
            answer = fit(some)
            if answer is Fit.YES:
                yield _remedy(some, proven=proven)
                return
            proven = proven and answer is Fit.NO
    if known is not None and proven:
        yield Evict(known.gangs, known.pods, True)


def _pods(chosen: Sequence[Victim]) -> frozenset[str]:
    return frozenset().union(*(victim.pods for victim in chosen))


def without(request: ComputePlacementRequest, chosen: Sequence[Victim]) -> ComputePlacementRequest:
    """The request after the victims are gone; gangs that lose extras stay."""
    gone = dict.fromkeys(name for v in chosen if v.extra_of is None for name in v.gangs)
    extras = frozenset(pod for v in chosen if v.extra_of is not None for pod in v.pods)
    new = changes.without(request, *gone) if gone else request
    return changes.without_pods(new, extras) if extras else new


def _remedy(chosen: Sequence[Victim], *, proven: bool) -> Evict:
    gangs = dict.fromkeys(name for victim in chosen for name in victim.gangs)
    return Evict(tuple(sorted(gangs)), len(_pods(chosen)), proven)


def _extra_limits(request: ComputePlacementRequest) -> dict[tuple[str, str], int]:
    """How many pods each group could lose and keep its minimum."""
    return {
        (gang.name, group.name): sum(len(s.bound_pods) for s in group.pod_sets) - group.min_replicas
        for gang in request.gangs
        for group in gang.groups
    }


def _sets(
    everyone: Sequence[Victim], size: int, limits: dict[tuple[str, str], int]
) -> Iterator[list[Victim]]:
    """Sets of victims of `size` pods together, without repeats of what is alike."""
    chosen: list[Victim] = []
    extras: Counter[tuple[str, str]] = Counter()
    whole: Counter[str] = Counter()

    def extend(start: int, left: int) -> Iterator[list[Victim]]:
        if left == 0:
            yield list(chosen)
            return
        skipped: set[tuple[object, ...]] = set()
        for index in range(start, len(everyone)):
            victim = everyone[index]
            if len(victim.pods) > left:
                return  # They are in order of pods.
            if victim.likeness in skipped or not _may_join(victim):
                continue
            skipped.add(victim.likeness)
            chosen.append(victim)
            _count(victim, 1)
            yield from extend(index + 1, left - len(victim.pods))
            _count(victim, -1)
            chosen.pop()

    def _may_join(victim: Victim) -> bool:
        if victim.extra_of is None:
            touched = {name for name, _ in +extras}
            return not any(whole[name] or name in touched for name in victim.gangs)
        if whole[victim.gangs[0]]:
            return False
        return extras[victim.extra_of] < limits[victim.extra_of]

    def _count(victim: Victim, by: int) -> None:
        if victim.extra_of is None:
            whole.update(dict.fromkeys(victim.gangs, by))
        else:
            extras[victim.extra_of] += by

    yield from extend(0, size)
