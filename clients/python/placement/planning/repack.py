"""Fewest running pods to move so that whole domains hold no GPU pod.

1. What it costs to empty a set of domains is known without the solver: each GPU pod in them
   moves, as an extra, or with its whole gang. Sets are taken in order of that cost.
2. The service says whether what has to move fits elsewhere: first into room that is free
   now, which is one step; else into room that other moves leave, in several steps.
3. A set that is cheaper and refused bounds what any plan costs: with moves of further gangs
   it would cost more.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from placement.planning.bounded import Bounded
from placement.planning.changes import (
    cordoned,
    keep,
    released,
)
from placement.planning.gpus import gpus_in, uses_gpus
from placement.planning.levels import domains, inside
from placement.planning.planner import Fit, OutOfTime, Planner, is_admission_proven, placed
from placement.planning.steps import Move, in_steps
from placement.planning.victims import Budgets, is_protected
from placement.v1 import ComputePlacementRequest, Node, Placement, PodGang

#: Most sets of domains, partial ones among them, that are looked at.
_MOST_SETS: Final = 200_000


@dataclass(frozen=True, slots=True)
class Repacking:
    """The moves in order of their steps, the domains that are free after, and their pods.

    No moves and fewer domains than were asked for: it was not found to be possible.
    """

    moves: tuple[Move, ...]
    freed: tuple[str, ...]
    pods: Bounded


@dataclass(frozen=True, slots=True)
class _Gang:
    """A running gang: its GPU pods by domain and group, all its pods, what may move."""

    name: str
    gpu_pods: Mapping[str, Mapping[str, tuple[str, ...]]]
    pods: tuple[str, ...]
    extras: Mapping[str, int]
    may_move_whole: bool
    may_move_extras: bool

    def leaving(self, freed: Collection[str], *, whole: bool = False) -> tuple[str, ...] | None:
        """The pods that move when these domains are freed; None when they must not."""
        inside: dict[str, list[str]] = defaultdict(list)
        for domain in freed:
            for group, pods in self.gpu_pods.get(domain, {}).items():
                inside[group] += pods
        if not inside:
            return ()
        few = all(len(pods) <= self.extras[group] for group, pods in inside.items())
        if few and self.may_move_extras and not (whole and self.may_move_whole):
            return tuple(pod for pods in inside.values() for pod in pods)
        return self.pods if self.may_move_whole else None


def repack(
    request: ComputePlacementRequest, level: str, count: int, *, planner: Planner
) -> Repacking:
    """Free `count` domains of `level`; those that are free already count.

    Gangs that wait are left out of it. Raises ValueError when there are not so many domains.
    """
    there = domains(request, level)
    if count > len(there):
        raise ValueError(f"there are {len(there)} domains of {level}, not {count}")
    running = _running_only(request)
    gangs = [_gang(gang, running, level) for gang in running.gangs]
    busy = _gpu_pods(gangs)
    strangers = _with_strangers(running, there)
    candidates = [domain for domain in there if domain not in strangers]
    search = _Search(running, gangs, there, planner)
    for cost, chosen in _sets(candidates, count, gangs, busy):
        found = search.until(cost) or search.attempt(cost, chosen, whole=False)
        if found is not None:
            return found
        if search.out_of_time:
            break
    return search.until(None) or Repacking((), (), Bounded(0, None))


class _Search:
    """Tries sets of domains in order of cost, and keeps what is proven of the cheaper ones."""

    def __init__(
        self,
        request: ComputePlacementRequest,
        gangs: Sequence[_Gang],
        there: Mapping[str, Sequence[Node]],
        planner: Planner,
    ) -> None:
        self._request = request
        self._gangs = gangs
        self._there = there
        self._planner = planner
        self._budgets = Budgets(request)
        self._bound: int | None = None
        #: Refused sets that further moves may make possible: cost with whole gangs, domains.
        self._retries: list[tuple[int, tuple[str, ...]]] = []
        self.out_of_time = False

    def until(self, cost: int | None) -> Repacking | None:
        """What the retries that cost no more come to."""
        while self._retries and (cost is None or self._retries[0][0] <= cost):
            dearer, chosen = heapq.heappop(self._retries)
            found = self.attempt(dearer, chosen, whole=True)
            if found is not None:
                return found
        return None

    def attempt(self, cost: int, chosen: tuple[str, ...], *, whole: bool) -> Repacking | None:
        """The repacking that frees this set, moving only `whole` gangs if told so."""
        leaving = self._leaving(chosen, whole=whole)
        if leaving is None or not self._budgets.allow(leaving):
            return None
        if not leaving:
            return Repacking((), tuple(sorted(chosen)), Bounded(0, 0))
        closed = {node.name for name in chosen for node in self._there[name]}
        shut = cordoned(self._request, closed)
        try:
            moves, fit = _moves(self._request, shut, leaving, self._planner)
            if fit is Fit.YES:
                bound = cost if self._bound is None else min(cost, self._bound)
                return Repacking(moves, tuple(sorted(chosen)), Bounded(len(moves), bound))
            if fit is Fit.NO and self._is_hopeless(shut):
                return None
        except OutOfTime:
            self.out_of_time = True
            fit = Fit.UNKNOWN
        # Refused as it is, it may be possible with further moves, which cost more.
        least = cost + 1 if fit is Fit.NO else cost
        self._bound = least if self._bound is None else min(self._bound, least)
        everything = self._leaving(chosen, whole=True)
        if not whole and everything is not None and len(everything) > cost:
            heapq.heappush(self._retries, (len(everything), chosen))
        return None

    def _leaving(self, chosen: Collection[str], *, whole: bool) -> frozenset[str] | None:
        pods: set[str] = set()
        for gang in self._gangs:
            leaving = gang.leaving(chosen, whole=whole)
            if leaving is None:
                return None
            pods.update(leaving)
        return frozenset(pods)

    def _is_hopeless(self, shut: ComputePlacementRequest) -> bool:
        """Whether it is proven that no further moves make room."""
        movable = {pod for gang in self._gangs if gang.may_move_whole for pod in gang.pods}
        plan = self._planner.plan(released(shut, movable))
        everyone = {gang.name for gang in self._request.gangs}
        return not placed(plan) >= everyone and is_admission_proven(plan)


def _moves(
    request: ComputePlacementRequest,
    shut: ComputePlacementRequest,
    leaving: frozenset[str],
    planner: Planner,
) -> tuple[tuple[Move, ...], Fit]:
    """The moves of what leaves, with nodes closed in `shut`; NO when it fits nowhere, in any
    order of steps."""
    everyone = {gang.name for gang in request.gangs}
    for give_back in (False, True):
        plan = planner.plan(released(shut, leaving, give_back=give_back))
        if placed(plan) >= everyone and len(plan.bindings) == len(leaving):
            moves = in_steps(request, plan)
            return (moves, Fit.YES) if moves is not None else ((), Fit.UNKNOWN)
    return (), Fit.NO if _is_proven(plan) else Fit.UNKNOWN


def _is_proven(plan: Placement) -> bool:
    extra = [tier for tier in plan.tiers if tier.name == "extra"]
    return is_admission_proven(plan) and all(
        tier.HasField("bound") and tier.bound <= tier.value for tier in extra
    )


def _sets(
    candidates: Sequence[str], size: int, gangs: Sequence[_Gang], busy: Mapping[str, int]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Sets of so many domains with the pods that leave, cheapest first.

    Every GPU pod of a set leaves, so their number is never more than the cost.
    """
    order = sorted(candidates, key=lambda domain: (busy[domain], domain))
    by_domain: dict[str, list[_Gang]] = defaultdict(list)
    for gang in gangs:
        for domain in gang.gpu_pods:
            by_domain[domain].append(gang)

    def cost(chosen: tuple[int, ...]) -> int | None:
        names = [order[index] for index in chosen]
        touched = {gang.name: gang for name in names for gang in by_domain[name]}
        total = 0
        for gang in touched.values():
            pods = gang.leaving(names)
            if pods is None:
                return None
            total += len(pods)
        return total

    heap: list[tuple[int, bool, tuple[int, ...]]] = [(0, False, ())]
    looked = 0
    while heap and looked < _MOST_SETS:
        looked += 1
        bound, whole, chosen = heapq.heappop(heap)
        if whole:
            yield bound, tuple(order[index] for index in chosen)
            continue
        start = chosen[-1] + 1 if chosen else 0
        left = size - len(chosen) - 1
        pods = sum(busy[order[index]] for index in chosen)
        for index in range(start, len(order) - left):
            extended = (*chosen, index)
            exact = cost(extended)
            if exact is None:
                continue
            rest = sum(busy[order[i]] for i in range(index + 1, index + 1 + left))
            least = max(exact, pods + busy[order[index]] + rest)
            heapq.heappush(heap, (exact if not left else least, not left, extended))


def _gpu_pods(gangs: Sequence[_Gang]) -> Counter[str]:
    busy: Counter[str] = Counter()
    for gang in gangs:
        for domain, groups in gang.gpu_pods.items():
            busy[domain] += sum(map(len, groups.values()))
    return busy


def _running_only(request: ComputePlacementRequest) -> ComputePlacementRequest:
    """The request without pods that wait, and without gangs of which nothing runs."""
    new = ComputePlacementRequest()
    new.CopyFrom(request)
    new.policy.ClearField("eviction")
    for gang in new.gangs:
        for group in gang.groups:
            for pod_set in group.pod_sets:
                del pod_set.pods[:]
            keep(group.pod_sets, lambda pod_set: bool(pod_set.bound_pods))
            # What does not run whole today need not do so after.
            there = len(group.bound_pods) + sum(len(s.bound_pods) for s in group.pod_sets)
            group.min_replicas = min(group.min_replicas, there)
            group.gated_count = 0
    keep(new.gangs, lambda gang: any(g.bound_pods or g.pod_sets for g in gang.groups))
    names = {gang.name for gang in new.gangs}
    for gang in new.gangs:
        gang.uninitialized = False
        del gang.unsupported[:]
        if gang.base_gang not in names:
            gang.base_gang = ""
    return new


def _gang(gang: PodGang, request: ComputePlacementRequest, level: str) -> _Gang:
    value = {node.name: node.labels.get(level) for node in request.snapshot.nodes}
    gpu_pods: dict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    pods: list[str] = []
    extras: dict[str, int] = {}
    for group in gang.groups:
        there = sum(len(pod_set.bound_pods) for pod_set in group.pod_sets)
        extras[group.name] = there + len(group.bound_pods) - group.min_replicas
        for pod_set in group.pod_sets:
            uses = uses_gpus(pod_set.template, request.policy)
            for pod in pod_set.bound_pods:
                pods.append(pod.name)
                domain = value.get(pod.node)
                if uses and domain is not None:
                    own = gpu_pods[domain]
                    own[group.name] = (*own.get(group.name, ()), pod.name)
    known = not any(group.bound_pods for group in gang.groups)
    movable = known and not gang.not_preemptible
    # An extra stays where its gang requires a domain that lies inside a freed one.
    pinned = any(
        scope.required_level and inside(request, scope.required_level, level)
        for scope in gang.packing_scopes
    )
    return _Gang(
        name=gang.name,
        gpu_pods=dict(gpu_pods),
        pods=tuple(pods),
        extras=extras,
        may_move_whole=movable and not is_protected(gang, request),
        may_move_extras=movable and not pinned,
    )


def _with_strangers(
    request: ComputePlacementRequest, there: Mapping[str, Sequence[Node]]
) -> frozenset[str]:
    """Domains with GPU pods that belong to no gang, or whose requests are not told."""
    known: Counter[str] = Counter()
    for gang in request.gangs:
        for group in gang.groups:
            for pod_set in group.pod_sets:
                units = gpus_in(pod_set.template.requests, request.policy)
                for pod in pod_set.bound_pods:
                    known[pod.node] += units
    return frozenset(
        domain
        for domain, nodes in there.items()
        if any(gpus_in(node.requested, request.policy) > known[node.name] for node in nodes)
    )
