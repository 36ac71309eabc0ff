"""The fewest closed nodes that would have to be open for a waiting gang: one of the remedies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from placement_service.bounds.added_nodes import AddedNodes
from placement_service.bounds.counting import Counting
from placement_service.entities.planning import Uncordon
from placement_service.entities.request import Node, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.planning import changes
from placement_service.planning.add_nodes import kind_of
from placement_service.planning.named_counts import NamedCounts
from placement_service.planning.remedy_case import Case, Fit
from placement_service.planning.trial_snapshot import Trial

#: Most domains with closed nodes that are tried for a first answer.
MOST_TRIED = 8


def uncordon(case: Case) -> Iterator[Uncordon]:
    """The fewest closed nodes that would have to be open."""
    nodes = case.snapshot.columns
    known = nodes.parts.where(lambda parts: not parts.closed_because)
    closed = np.flatnonzero(nodes.unschedulable & nodes.ready & known).tolist()
    if not closed:
        return
    every = changes.opened(case.snapshot, closed)
    wide = case.trial(every)
    always = np.setdiff1d(np.arange(len(nodes)), np.array(closed))

    def places(chosen: Sequence[int]) -> bool:
        return wide.place(within=np.union1d(always, np.array(chosen, dtype=np.int64))) is not None

    # 1. A set of which no node can be left out.
    plan: NamedCounts | None = None
    if places(closed):
        enough = min(
            (_irreducible(some, places) for some in _candidates(case, wide, closed, places)),
            key=len,
        )
    else:
        # Only a search may find a plan; the nodes that it needs are a first answer.
        _, plan = case.fit(wide)
        used = {one.node for mine in (plan or {}).values() for one in mine}
        enough = [i for i in closed if i in used]
        if not enough and not case.helped:
            return
    # 2. The least number that may be enough by counting.
    ordered = _closed_last(every, closed)
    lowest = 1
    problem = formulate(ordered, case.policy).loosest
    if problem is not None:
        added = AddedNodes(Counting(Topology(problem)), len(always))
        lowest = max(1, added.mixed(problem.gangs[wide.gang.index], case.others(problem)))
    change = partial(changes.opened, nodes=enough)
    fit = case.settled(change, plan or case.trial(change(case.snapshot)).place())
    if not fit.found:
        # Others that wait take what is opened first.
        enough = closed
        fit = case.settled(partial(changes.opened, nodes=closed))
    if fit.found:
        sure = fit is Fit.YES
        yield Uncordon(tuple(nodes.names[i] for i in enough), sure and len(enough) <= lowest)
        if len(enough) > lowest:
            yield from _fewer_opened(case, closed, enough, lowest, sure=sure)
    else:
        # Of all of them others may get more than of a few.
        yield from _fewer_opened(case, closed, None, lowest)


def _fewer_opened(
    case: Case,
    closed: Sequence[int],
    enough: Sequence[int] | None,
    lowest: int,
    *,
    sure: bool = False,
) -> Iterator[Uncordon]:
    """Sets of fewer nodes than are `enough`, or else than there are, one set of those that are
    alike, until one is enough.

    `sure` says that `enough` is.
    """
    nodes = case.snapshot.columns
    kinds = _alike(case, closed)
    proven = True
    for size in range(lowest, len(closed if enough is None else enough)):
        for counts in _shares(size, [len(kind) for kind in kinds]):
            if case.left <= 0:
                return
            some = [i for kind, k in zip(kinds, counts, strict=True) for i in kind[:k]]
            fit = case.settled(partial(changes.opened, nodes=some))
            # What is known to be enough is better than less of which that is not known.
            if fit is Fit.YES or (fit.found and not sure):
                least = proven and fit is Fit.YES
                yield Uncordon(tuple(nodes.names[i] for i in some), least)
                return
            proven = proven and fit is Fit.NO
    if enough is not None:
        yield Uncordon(tuple(nodes.names[i] for i in enough), proven and sure)


def _shares(total: int, most: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All ways to take so many from some kinds."""
    if not most:
        if not total:
            yield ()
        return
    for k in range(min(total, most[0]), -1, -1):
        for rest in _shares(total - k, most[1:]):
            yield (k, *rest)


def _candidates(
    case: Case, wide: Trial, closed: Sequence[int], places: Callable[[Sequence[int]], bool]
) -> Iterator[Sequence[int]]:
    """Sets of closed nodes that are enough, with likely small ones first."""
    required = [s.required for s in wide.gang.scopes if s.required >= 0]
    if required:
        level = wide.problem.levels[min(required, key=lambda r: wide.problem.levels[r].count)]
        domains: dict[int, list[int]] = {}
        for i in closed:
            domains.setdefault(int(level.domain[i]), []).append(i)
        by_size = sorted((d for d in domains.items() if d[0] >= 0), key=lambda d: len(d[1]))
        found = 0
        for _, inside in by_size:
            if found == MOST_TRIED or case.left <= 0:
                break
            if places(inside):
                found += 1
                yield inside
    yield closed


def _irreducible(items: Sequence[int], enough: Callable[[Sequence[int]], bool]) -> list[int]:
    """A part of the items that is enough and of which none can be left out."""
    kept = list(items)
    size = max(1, len(kept) // 2)
    while True:
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            if enough(rest):
                kept = rest
                break
        else:
            if size == 1:
                return kept
            size //= 2
        size = min(size, max(1, len(kept) - 1))


def _closed_last(snapshot: Snapshot, closed: Sequence[int]) -> Snapshot:
    """The snapshot with some nodes after all others."""
    nodes = snapshot.columns
    moved = [nodes[i] for i in closed]
    first = nodes.updated((), gone=[node.name for node in moved])
    return replace(snapshot, nodes=first.updated(moved))


def _alike(case: Case, closed: Sequence[int]) -> list[list[int]]:
    """The closed nodes that nobody who waits could tell from each other once they are open."""
    whole, nodes = case.whole, case.whole.columns
    eligible = formulate(changes.opened(whole, closed), case.policy).eligible
    there: dict[str, Counter[Hashable]] = {nodes.names[i]: Counter() for i in closed}
    for pod in whole.running_pods:
        if pod.node in there:
            seen = pod.namespace, frozenset(pod.labels.items()), pod.required_anti_affinity
            there[pod.node][seen] += 1
    for one in whole.reservations:
        if one.node in there:
            there[one.node][one.name] += 1
    # Running pods hold the rest of their gang to domains.
    for gang in whole.gangs:
        for group in gang.groups:
            for bound in group.running_pods if gang.is_pending or group.pending_count else ():
                if bound.node in there:
                    there[bound.node][gang.name, group.name] += 1
    found: dict[object, list[int]] = {}
    for i in closed:
        here = frozenset(there[nodes.names[i]].items())
        kind = _likeness(nodes[i]), eligible[:, i].tobytes(), here
        found.setdefault(kind, []).append(i)
    return list(found.values())


def _likeness(node: Node) -> object:
    """The kind of a closed node once it is open, whatever its name and who runs there."""
    return (
        kind_of(node),
        frozenset(node.requested.items()),
        node.host_ports,
        node.devices,
        node.compute_domain,
        node.compute_domain_pods,
    )
