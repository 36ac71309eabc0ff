"""Admitted: the value of gangs whose minimum is met, by priority, and which of them come first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.queues import GPUS, in_millis
from placement_service.entities.request import PodGang, Policy
from placement_service.judge.outcome import GangOutcome, Outcome
from placement_service.judge.tiers.count import Count, Counts, gangs_by_priority
from placement_service.judge.tiers.waiting import waited


def count(outcome: Outcome, policy: Policy) -> Counts:
    """By priority from the highest: what decides which gangs come first, which is not reported, and
    the value of all whose minimum is met; in millionths of a GPU.
    """
    values = outcome.question.values
    bands = _bands(outcome, policy)
    inside = _inside_guarantees(outcome, policy)
    counts = []
    for priority, mine in gangs_by_priority(outcome).items():
        met = [g.gang for g in mine if g.gang.is_pending and g.placed]
        # It ran, and had to go.
        lost = sum(values[g.gang.name] for g in mine if not g.gang.is_pending and not g.placed)
        made_whole = [g for g in met if any(group.running_count for group in g.groups)]
        first = [_sum(values, made_whole) - lost]
        for seconds in bands:
            first.append(_sum(values, [g for g in met if waited(outcome, g) > seconds]))
        # With RECLAIM other gangs may have to go for it.
        reclaims = policy.eviction is EvictionPolicy.RECLAIM
        first = [inside[priority], *first] if reclaims else [*first, inside[priority]]
        counts += [Count(value, priority, reported=False) for value in first]
        counts.append(Count(_sum(values, met) - lost, priority))
    return tuple(counts)


def _sum(values: Mapping[str, int], gangs: Iterable[PodGang]) -> int:
    return sum(values[gang.name] for gang in gangs)


def _inside_guarantees(outcome: Outcome, policy: Policy) -> dict[int, int]:
    """Thousandths of guaranteed GPUs that queues use beyond what they use without the plan, by
    priority. It counts in the queue that a gang names, and of new pods only the minimums of this
    priority and above.
    """
    guaranteed = {q.name: in_millis(q.guaranteed).get(GPUS, 0) for q in outcome.snapshot.queues}
    used = {q.name: in_millis(q.used).get(GPUS, 0) for q in outcome.snapshot.queues}
    for gang in outcome.gangs:
        if gang.gang.queue in used:
            used[gang.gang.queue] += sum(
                len(s.bound_pods) * policy.milli_gpus(s.template)
                for group in gang.groups
                for s in group.group.pod_sets
            )
    found = {}
    total = 0
    for priority, gangs in gangs_by_priority(outcome).items():
        for gang in gangs:
            queue = gang.gang.queue
            if queue in used:
                before = used[queue]
                used[queue] += _minimums_added(gang, policy)
                most = guaranteed[queue]
                total += min(most, used[queue]) - min(most, before)
        found[priority] = total
    return found


def _minimums_added(gang: GangOutcome, policy: Policy) -> int:
    """Thousandths of GPUs in the minimum of a gang that is placed, less where it had to go."""
    pending = gang.gang.is_pending
    # It ran and had to go; its extras do not count.
    counts = int(gang.placed) if pending else -int(not gang.placed)
    if not counts:
        return 0
    added = 0
    for group in gang.groups:
        sets = [s for s in group.group.pod_sets if s.pods or not pending]
        pods = group.group.missing if pending else group.group.min_replicas
        added += pods * min((policy.milli_gpus(s.template) for s in sets), default=0)
    return counts * added


def _bands(outcome: Outcome, policy: Policy) -> list[int]:
    """Waiting times that some gang has exceeded: the starvation time, four times that, and so on.

    The longest first.
    """
    if policy.starvation_after is None:
        return []
    longest = max((waited(outcome, gang.gang) for gang in outcome.gangs), default=0)
    bands = [policy.starvation_after]
    while bands[-1] < longest:
        bands.append(max(1, bands[-1] * 4))
    return bands[::-1]
