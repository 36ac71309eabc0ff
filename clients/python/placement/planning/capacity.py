"""How many copies of a gang fit, and how many domains are missing so that all gangs fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from placement.planning import changes
from placement.planning.levels import domains
from placement.planning.planner import Fit, Planner, only, placed
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
    request: ComputePlacementRequest


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
    first = changes.pending_copy(model, "-copy")
    most = _most(base, first)

    def named(count: int) -> list[str]:
        return [f"{first.name}-{number}" for number in range(count)]

    def fit(count: int) -> Fit:
        asked = changes.copy_of(base)
        asked.gangs.extend(changes.pending_copy(model, f"-copy-{n}") for n in range(count))
        return planner.fit(asked, kept | set(named(count)))

    value, bound = _greatest(most, fit)
    return Copies(gang, Bounded(value, bound))


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
    like = like or _largest(request, level)
    everyone = frozenset(gang.name for gang in request.gangs)

    def with_more(count: int) -> ComputePlacementRequest:
        return (
            changes.with_domains(request, level, like, count, levels=levels) if count else request
        )

    def fit(count: int) -> Fit:
        return planner.fit(with_more(count), everyone)

    def answer(value: int | None, bound: int | None) -> FurtherDomains:
        if value is None:
            return FurtherDomains(level, like, Bounded(None, bound), None, request)
        changed = with_more(value)
        return FurtherDomains(level, like, Bounded(value, bound), planner.plan(changed), changed)

    if like not in there:
        changes.with_domains(request, level, like, 1, levels=levels)  # Says what is near.
    now = fit(0)
    if now is Fit.YES:
        return answer(0, 0)
    # Every gang that waits, alone in domains of its own, is the most that can be of use.
    waiting = sum(
        sum(len(s.pods) for s in group.pod_sets) for gang in request.gangs for group in gang.groups
    )
    value, proven, refused = _first(min(waiting, _MOST_DOMAINS), fit)
    if value is None:
        return answer(None, None)
    return answer(value, value if proven and now is Fit.NO else refused + 1)


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


def _first(most: int, fit: FitOf) -> tuple[int | None, bool, int]:
    """The least number from 1 to `most` that fits, growing from below.

    Also whether it is proven, and the greatest number that is proven not to fit.
    """
    refused, step = 0, 1
    while True:
        tried = min(step, most)
        answer = fit(tried)
        if answer is Fit.YES:
            break
        if answer is Fit.NO:
            refused = tried
        if tried == most:
            return None, answer is Fit.NO, refused
        step *= 2
    low, high = tried // 2, tried
    proven = refused == low
    while low + 1 < high:
        middle = (low + high) // 2
        answer = fit(middle)
        if answer is Fit.YES:
            high = middle
        else:
            low = middle
            if answer is Fit.NO:
                refused = middle
            proven = answer is Fit.NO
    return high, proven and refused == high - 1, refused


def _most(request: ComputePlacementRequest, gang: PodGang) -> int:
    """No more copies than this fit, by what is free of each resource in the whole cluster."""
    free = Resources()
    for node in request.snapshot.nodes:
        if node.unschedulable or node.not_ready:
            continue
        free.cpu_millis += max(0, node.allocatable.cpu_millis - node.requested.cpu_millis)
        free.memory_bytes += max(0, node.allocatable.memory_bytes - node.requested.memory_bytes)
        there = node.allocatable.pod_count or 110
        free.pod_count += max(0, there - node.requested.pod_count)
        for name, amount in node.allocatable.extended.items():
            left = amount - node.requested.extended.get(name, 0)
            free.extended[name] = free.extended.get(name, 0) + max(0, left)
    asked = Resources()
    for group in gang.groups:
        # Of several templates those that ask least are not known, so none counts.
        if len(group.pod_sets) != 1:
            continue
        each = group.pod_sets[0].template.requests
        asked.cpu_millis += group.min_replicas * each.cpu_millis
        asked.memory_bytes += group.min_replicas * each.memory_bytes
        asked.pod_count += group.min_replicas
        for name, amount in each.extended.items():
            asked.extended[name] = asked.extended.get(name, 0) + group.min_replicas * amount
    limits = [_MOST_COPIES]
    for field in ("cpu_millis", "memory_bytes", "pod_count"):
        if getattr(asked, field):
            limits.append(getattr(free, field) // getattr(asked, field))
    limits += [free.extended.get(n, 0) // a for n, a in asked.extended.items() if a]
    return min(limits)


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
