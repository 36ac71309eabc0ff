"""Queues: what the pods of some gangs may take together, of one resource.

A queue's limit holds for all gangs in it and below it, what it is guaranteed for those of
them that are not preemptible. Both are rows over units of gangs, wherever these lie:

    sum over gangs g of the row, units u of g:  take[u] <= capacity

Where queues keep something for themselves, a limit is several rows (`kept_amounts`).

    formulation   `formulate` makes the rows from the request; a gang whose queue is not
                  there is refused
    heuristic     `heuristic.queue_ledger` keeps what is left of each row
    bounds        a row as it stands, over classes of gangs in the same rows
    cp_sat        a row as it stands, over the units that a model knows of
    explanation   `explain.queue_reasons`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import NamedTuple

import numpy as np

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.nodes import Nodes
from placement_service.entities.queues import GPUS, Queue, in_millis
from placement_service.entities.request import PodGang, PodTemplate, Policy, Snapshot
from placement_service.formulation.arrays import Ints
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.rules.kept_amounts import KeptAmounts

#: GPUs are counted in thousandths, because pods may ask for a share of one.
UNITS_PER_GPU = 1000

#: The most that a row may take or hold, so that sums over all pods stay in 64 bits.
MOST = 1 << 40


class Excess(NamedTuple):
    """What all units weigh [C] where running pods exceed a limit, also those at home, and what they
    may weigh together once anything new comes.
    """

    weight: Ints
    capacity: int


@dataclass(frozen=True, slots=True, eq=False)
class QueueRow:
    """What is left of one resource in one queue, for the gangs in it and below it.

    `total`, `used` and `take[C]` are as in the queue, GPUs in thousandths, without what runs in
    some queues below that are `left_out`, and those below them; `guaranteed` rows are about gangs
    that are not preemptible. `weight[C]` and `capacity` are the same in
    smaller numbers: a unit that is too large weighs one more than the capacity.

    Where running pods that may go exceed a limit, nothing new may come in a row that is not
    `is_exact`, although it might if enough of them were evicted: that is for `excess` to say, of
    the row that is `loosened`.
    """

    queue: str
    resource: str
    guaranteed: bool
    total: int
    used: int
    take: tuple[int, ...]
    weight: Ints
    capacity: int
    gangs: frozenset[GangIdx]
    is_exact: bool = True
    excess: Excess | None = None
    left_out: frozenset[str] = frozenset()

    def loosened(self) -> QueueRow:
        """The row in which new pods may take all that there is, without those at home."""
        if self.excess is None:
            return self
        return replace(self, capacity=self.excess.capacity, is_exact=True)

    @property
    def left(self) -> int:
        """What gangs may still take, of what the queue has in all; never negative."""
        return max(0, self.total - self.used)


class QueueRows(NamedTuple):
    """The rows of a request; `exact` when no plan is lost to any of them, `said` when none is lost
    where queues keep something for themselves.
    """

    rows: tuple[QueueRow, ...]
    exact: bool
    said: bool = True


class Ask(NamedTuple):
    """What a gang could take at most, and what it takes where it runs: units by pod class."""

    gang: GangIdx
    classes: Mapping[int, int]
    home: Mapping[int, int]


def formulate(
    snapshot: Snapshot,
    policy: Policy,
    contents: Sequence[Sequence[tuple[PodTemplate, int]]],
    asks: Iterable[Ask],
    *,
    repeated: bool = False,
    loose: bool = False,
) -> QueueRows:
    """The rows that could bind, of the gangs that ask for something.

    `contents` are the pods behind a unit of each pod class. `repeated` keeps rows that bind only
    where a gang is placed several times. With `loose` no plan is lost to those of queues below
    which something is kept.
    """
    if not snapshot.queues:
        return QueueRows((), True)
    queues = {q.name: q for q in snapshot.queues}
    above = {q.name: tuple(path(queues, q.name)) for q in snapshot.queues}
    memory = least_memory(snapshot.columns)
    running = list(_running(snapshot))
    by_gang = {ask.gang: ask for ask in asks}
    takes: dict[str, tuple[int, ...]] = {}
    rows: list[QueueRow] = []
    exact = said = True
    members: dict[str, list[GangIdx]] = {}
    for index in by_gang:
        for up in above.get(snapshot.gangs[index].queue, ()):
            members.setdefault(up, []).append(index)
    for fixed in (False, True):
        used = _used(snapshot, policy, above, running, memory, fixed=fixed)
        kept: dict[str, KeptAmounts] = {}
        for queue in snapshot.queues:
            amounts = in_millis(queue.guaranteed if fixed else queue.limit)
            mine = [
                g
                for g in members.get(queue.name, ())
                if not fixed or snapshot.gangs[g].not_preemptible
            ]
            for resource, amount in sorted(amounts.items()) if mine else ():
                if resource not in takes:
                    takes[resource] = tuple(
                        sum(n * pod_amount(policy, t, resource, memory) for t, n in content)
                        for content in contents
                    )
                take = takes[resource]
                if resource not in kept:
                    here = {name: n for (name, r), n in used.items() if r == resource}
                    asked = {
                        name: sum(MOST if repeated else _asked(by_gang[g], take) for g in inside)
                        for name, inside in members.items()
                    }
                    keeping = () if fixed else snapshot.queues
                    kept[resource] = KeptAmounts(keeping, resource, here, asked, loose=loose)
                sums = kept[resource].sums(queue.name)
                now = kept[resource].now(queue.name) if sums.are_several else 0
                for counted in sums.counted:
                    row = _row(
                        queue.name,
                        resource,
                        fixed,
                        max(amount, now) + counted.kept,
                        kept[resource].used(queue.name, counted),
                        take,
                        [
                            by_gang[g]
                            for g in mine
                            if counted.left_out.isdisjoint(above[snapshot.gangs[g].queue])
                        ],
                        moves=policy.eviction is EvictionPolicy.REPACK,
                        repeated=repeated,
                    )
                    if row is None:
                        continue
                    if not sums.are_several:
                        rows.append(row)
                        exact = exact and row.is_exact
                    elif row.is_exact or not loose:
                        # Whether what comes anew counts is for all sums together to say.
                        rows.append(replace(row, excess=None, left_out=counted.left_out))
                        said = said and (loose or (row.is_exact and sums.exact))
    return QueueRows(tuple(rows), exact, said)


def _asked(ask: Ask, take: Sequence[int]) -> int:
    return sum(take[c] * units for c, units in ask.classes.items())


def _row(
    queue: str,
    resource: str,
    guaranteed: bool,
    total: int,
    used: int,
    take: tuple[int, ...],
    asks: Sequence[Ask],
    *,
    moves: bool,
    repeated: bool,
) -> QueueRow | None:
    """The row; None where all that is asked for fits, however often."""
    left = max(0, total - used)
    at_home = sum(take[c] * units for ask in asks for c, units in ask.home.items())
    exact = moves or at_home <= left
    every, most = take, left
    if moves:
        # All of it runs after the plan, and may do so above a limit.
        left = max(left, at_home)
    elif not exact:
        # Running pods above a limit may stay, but nothing new may come.
        homes = {c for ask in asks for c in ask.home}
        take = tuple(0 if c in homes else amount for c, amount in enumerate(take))
        used, left = max(used, total), 0
    asked = sum(_asked(ask, take) for ask in asks)
    if asked <= left and not (repeated and asked):
        return None
    inside = {c for ask in asks for c in ask.classes}
    # Exact where amounts have a common measure or are small; else rounded to the safe side.
    common = gcd(most, *(every[c] for c in inside)) or 1
    measure = common * max(1, -(-most // (common * MOST)))
    capacity = left // measure
    weight = [min(-(-n // measure), most // measure + 1) for n in take]
    excess = None
    if not exact:
        whole = [min(-(-n // measure), most // measure + 1) for n in every]
        excess = Excess(np.array(whole, dtype=np.int64), most // measure)
    return QueueRow(
        queue,
        resource,
        guaranteed,
        total,
        used,
        take,
        np.array(weight, dtype=np.int64),
        capacity,
        frozenset(ask.gang for ask in asks if any(every[c] for c in ask.classes)),
        exact,
        excess,
    )


def above_limits(snapshot: Snapshot, policy: Policy) -> Mapping[str, frozenset[str]]:
    """By queue the resources of which more runs than its limit, or that of a queue above it."""
    queues = {q.name: q for q in snapshot.queues}
    above = {name: tuple(path(queues, name)) for name in queues}
    memory = least_memory(snapshot.columns) if queues else 0
    used = _used(snapshot, policy, above, _running(snapshot), memory, fixed=False)
    over: dict[str, set[str]] = {name: set() for name in queues}
    for resource in {r for q in queues.values() for r in in_millis(q.limit)}:
        here = {name: n for (name, r), n in used.items() if r == resource}
        kept = KeptAmounts(snapshot.queues, resource, here, {})
        full = {
            name
            for name, q in queues.items()
            if kept.now(name) > in_millis(q.limit).get(resource, kept.now(name))
        }
        for name in queues if full else ():
            for up in above[name]:
                if up in full:
                    over[name].add(resource)
                    break
                if not kept.counts_above(up):
                    break
    return {name: frozenset(resources) for name, resources in over.items()}


def path(queues: Mapping[str, Queue], name: str) -> Iterator[str]:
    """A queue and all above it, from the bottom up; nothing for an unknown queue."""
    seen: set[str] = set()
    while name in queues and name not in seen:
        yield name
        seen.add(name)
        name = queues[name].parent


def pod_amount(policy: Policy, template: PodTemplate, resource: str, memory: int) -> int:
    """What a pod takes of a resource of its queue; of GPUs in thousandths.

    `memory` is that of the smallest device there is, 0 where it is not known.
    """
    if resource != GPUS:
        return template.requests.get(resource, 0)
    whole = policy.gpus(template.requests) * UNITS_PER_GPU
    share = template.device_share
    if share is None:
        return whole
    part = max(share.compute_milli, share.memory_milli)
    if share.memory_bytes:
        # On a larger device it takes less: where that is not known, the most.
        part = max(part, -(-share.memory_bytes * UNITS_PER_GPU // memory) if memory else 1000)
    return whole + share.count * part


def least_memory(nodes: Nodes) -> int:
    """The memory of the smallest device there is, 0 where none is known."""
    devices = (device for parts, _ in nodes.parts.counts() for device in parts.devices)
    return min((d.memory_bytes for d in devices if d.memory_bytes), default=0)


def _running(snapshot: Snapshot) -> Iterator[tuple[PodGang, PodTemplate, int]]:
    """Running pods that the request lists with a template."""
    for gang in snapshot.gangs:
        if gang.queue:
            for group in gang.groups:
                for s in group.pod_sets:
                    if s.bound_pods:
                        yield gang, s.template, len(s.bound_pods)


def _used(
    snapshot: Snapshot,
    policy: Policy,
    above: Mapping[str, tuple[str, ...]],
    running: Iterable[tuple[PodGang, PodTemplate, int]],
    memory: int,
    *,
    fixed: bool,
) -> dict[tuple[str, str], int]:
    """What runs in each queue and below it by resource; with `fixed` what is not preemptible."""
    used: dict[tuple[str, str], int] = {}

    def add(queue: str, resource: str, amount: int) -> None:
        for up in above.get(queue, ()):
            used[up, resource] = used.get((up, resource), 0) + amount

    for queue in snapshot.queues:
        own = queue.used_not_preemptible if fixed else queue.used
        for resource, amount in in_millis(own).items():
            add(queue.name, resource, amount)
    for gang, template, count in running:
        if gang.not_preemptible or not fixed:
            for resource in {*template.requests, GPUS}:
                amount = pod_amount(policy, template, resource, memory)
                add(gang.queue, resource, count * amount)
    return used
