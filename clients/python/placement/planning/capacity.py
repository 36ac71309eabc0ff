"""How many copies of a gang fit, and how many domains are missing so that all gangs fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from placement.planning import changes
from placement.planning.levels import domains
from placement.planning.planner import (
    Fit,
    OutOfTime,
    Planner,
    is_admission_proven,
    only,
    placed,
)
from placement.v1 import ComputePlacementRequest, Placement, PodGang, Resources

#: Most copies that are asked about; the service takes 10,000 gangs.
_MOST_COPIES: Final = 5_000
_MOST_DOMAINS: Final = 4_096


FitOf = Callable[[int], Fit]


@dataclass(frozen=True, slots=True)
class Bounded:
    """What was reached, and the proven bound; None where nothing is known."""

    value: int | None
    bound: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """How many copies of a gang run beside all that the plan places."""

    gang: str
    copies: Bounded


@dataclass(frozen=True, slots=True, eq=False)
class FurtherDomains:
    """The fewest domains like `like` to add at `level` so that every gang is placed.

    `plan` is the plan with them; None when no number of them is enough.
    """

    level: str
    like: str
    domains: Bounded
    plan: Placement | None


def copies(request: ComputePlacementRequest, gang: str, *, planner: Planner) -> Copies:
    """Most copies of a gang beside all other gangs that the plan places.

    A gang that waits counts as its first copy; of one that runs, further copies are
    counted. Raises ValueError when there is no such gang or it cannot be copied.
    """
    model = changes.find_gang(request, gang)
    running = any(
        group.bound_pods or any(s.bound_pods for s in group.pod_sets) for group in model.groups
    )
    kept = placed(planner.plan(request)) - (set() if running else {gang})
    if model.base_gang and model.base_gang not in kept:
        return Copies(gang, Bounded(0, 0))
    base = only(request, kept)
    more = [changes.pending_copy(model, f"-copy-{n}") for n in range(_most_copies(base, model))]

    def fit(count: int) -> Fit:
        asked = changes.copy_of(base)
        asked.gangs.extend(more[:count])
        return _in_time(planner, asked, kept.union(one.name for one in more[:count]))

    return Copies(gang, Bounded(*_greatest(len(more), fit)))


def further_domains(
    request: ComputePlacementRequest,
    level: str,
    like: str | None,
    *,
    planner: Planner,
    levels: Sequence[str],
) -> FurtherDomains:
    """The fewest domains to add; without `like`, like the one with the most to allocate.

    Raises ValueError when there is no such level or domain.
    """
    there = domains(request, level)
    if like not in there:
        like = _largest(request, level) if like is None else like
        changes.with_domains(request, level, like, 1, levels=levels)  # Says what is near.
    everyone = frozenset(gang.name for gang in request.gangs)
    plans: dict[int, Placement] = {}

    def fit(count: int) -> Fit:
        asked = request
        if count:
            asked = changes.with_domains(request, level, like, count, levels=levels)
        if not _may_suffice(asked):
            return Fit.NO
        try:
            plan = planner.plan(asked)
        except OutOfTime:
            return Fit.UNKNOWN
        if placed(plan) >= everyone:
            plans[count] = plan
            return Fit.YES
        return Fit.NO if is_admission_proven(plan) else Fit.UNKNOWN

    if fit(0) is Fit.YES:
        return FurtherDomains(level, like, Bounded(0, 0), plans[0])
    # Each pod in a domain of its own is the most that can be of use.
    waiting = sum(len(s.pods) for g in request.gangs for group in g.groups for s in group.pod_sets)
    value, bound = _fewest(min(waiting, _MOST_DOMAINS), fit)
    return FurtherDomains(level, like, Bounded(value, bound), plans.get(value or 0))


def _in_time(planner: Planner, request: ComputePlacementRequest, gangs: frozenset[str]) -> Fit:
    try:
        return planner.fit(request, gangs)
    except OutOfTime:
        return Fit.UNKNOWN


def _greatest(most: int, fit: FitOf) -> tuple[int, int]:
    """The greatest number from 0 to `most` that fits, and the proven bound.

    `most` is proven to be enough as a bound. Steps grow from below, then halve.
    """
    low, high = 0, most + 1  # low fits, high does not.
    bound, step = most, 1
    while low + 1 < high:
        middle = min(low + step, (low + high + 1) // 2) if step else (low + high) // 2
        middle = min(max(middle, low + 1), high - 1)
        answer = fit(middle)
        if answer is Fit.YES:
            low = middle
            step *= 2
        else:
            high, step = middle, 0
            if answer is Fit.NO:
                bound = min(bound, middle - 1)
    return low, bound


def _fewest(most: int, fit: FitOf) -> tuple[int | None, int | None]:
    """The least number from 1 to `most` that fits, and the proven bound.

    None for the value when none was found, for both when not even `most` fits.
    """
    refused, low, high, step = 0, 0, 0, 1
    while not high:
        tried = min(low + step, most)
        answer = fit(tried)
        if answer is Fit.YES:
            high = tried
            break
        if answer is Fit.NO:
            refused = tried
        if tried == most:
            return None, None if answer is Fit.NO else refused + 1
        low, step = tried, step * 2
    while low + 1 < high:
        middle = (low + high) // 2
        answer = fit(middle)
        if answer is Fit.YES:
            high = middle
        else:
            low = middle
            refused = max(refused, middle) if answer is Fit.NO else refused
    return high, refused + 1


class _Totals:
    """Amounts of resources, by name."""

    def __init__(self) -> None:
        self.amounts: Counter[str] = Counter()

    def add(self, resources: Resources, times: int = 1) -> None:
        self.amounts["cpu"] += times * resources.cpu_millis
        self.amounts["memory"] += times * resources.memory_bytes
        for name, amount in resources.extended.items():
            self.amounts[name] += times * amount


def _free(request: ComputePlacementRequest) -> Counter[str]:
    """What is free in the whole cluster."""
    free: Counter[str] = Counter()
    for node in request.snapshot.nodes:
        if node.unschedulable or node.not_ready:
            continue
        there, used = _Totals(), _Totals()
        there.add(node.allocatable)
        used.add(node.requested)
        for name, amount in there.amounts.items():
            free[name] += max(0, amount - used.amounts[name])
        free["pods"] += max(0, (node.allocatable.pod_count or 110) - node.requested.pod_count)
    return free


def _asked(gang: PodGang) -> Counter[str]:
    """No less than what the pods ask for that the gang's minimum still lacks."""
    asked = _Totals()
    for group in gang.groups:
        running = len(group.bound_pods) + sum(len(s.bound_pods) for s in group.pod_sets)
        lacks = max(0, group.min_replicas - running)
        asked.amounts["pods"] += lacks
        # Of several templates it is not known which the minimum takes.
        if len(group.pod_sets) == 1:
            asked.add(group.pod_sets[0].template.requests, lacks)
    return asked.amounts


def _may_suffice(request: ComputePlacementRequest) -> bool:
    """False when all gangs together ask for more than is free in the whole cluster."""
    free = _free(request)
    asked: Counter[str] = Counter()
    for gang in request.gangs:
        asked.update(_asked(gang))
    return all(amount <= free[name] for name, amount in asked.items())


def _most_copies(request: ComputePlacementRequest, gang: PodGang) -> int:
    """No more copies than this fit, by what is free of each resource in the whole cluster."""
    free = _free(request)
    model = changes.pending_copy(gang, "")
    limits = [free[name] // amount for name, amount in _asked(model).items() if amount]
    return min([_MOST_COPIES, *limits])


def _largest(request: ComputePlacementRequest, level: str) -> str:
    """The domain with the most to allocate, of equal ones the first by name."""

    def size(value: str) -> tuple[int, int]:
        nodes = there[value]
        units = sum(sum(node.allocatable.extended.values()) for node in nodes)
        return units, sum(node.allocatable.cpu_millis for node in nodes)

    there = domains(request, level)
    if not there:
        changes.with_domains(request, level, "", 1, levels=())
    return min(there, key=lambda value: (*(-part for part in size(value)), value))
