"""Evictions: which gangs may be disturbed, for which gangs, and how far."""

from __future__ import annotations

from collections.abc import Iterator

from placement_service.entities.eviction import EvictionKind, EvictionPolicy
from placement_service.entities.queues import GPUS, in_millis
from placement_service.entities.request import namespace_of
from placement_service.judge.outcome import EvictedPod
from placement_service.judge.plan import Plan
from placement_service.judge.rules.preempting import (
    goes_whole,
    lacks_run_time,
    loses_its_minimum,
)
from placement_service.judge.rules.queues import WHOLE, Usage
from placement_service.judge.rules.reclaiming import (
    asked_by_gang,
    compared,
    run_time_before_reclaim,
    takers,
)

#: What each policy allows.
ALLOWED = {
    EvictionPolicy.NONE: (),
    EvictionPolicy.PREEMPT: (EvictionKind.PREEMPT,),
    EvictionPolicy.RECLAIM: (EvictionKind.PREEMPT, EvictionKind.RECLAIM),
    EvictionPolicy.REPACK: (EvictionKind.MOVE,),
}


def evictions_are_of_running_pods_and_allowed(plan: Plan) -> Iterator[str]:
    """Each is of a pod that runs in a pod set, once, of a kind that the policy allows."""
    running = {evicted.pod.name: evicted for evicted in plan.evicted}
    seen = set()
    for eviction in plan.evictions:
        pod = eviction.pod
        evicted = running.get(pod)
        if evicted is None:
            yield f"pod {pod} is evicted but does not run in a pod set of the request"
            continue
        if pod in seen:
            yield f"pod {pod} is evicted twice"
            continue
        seen.add(pod)
        if (eviction.gang, eviction.node) != (evicted.gang.name, evicted.pod.node):
            yield (
                f"the eviction of pod {pod} says gang {eviction.gang}, node {eviction.node}; "
                f"the request says gang {evicted.gang.name}, node {evicted.pod.node}"
            )
        if eviction.kind not in ALLOWED[plan.policy.eviction]:
            yield (
                f"pod {pod} is evicted by {eviction.kind.value}, "
                f"which the policy {plan.policy.eviction.value} does not allow"
            )
        if eviction.kind is not EvictionKind.MOVE:
            if eviction.to_node:
                yield f"pod {pod} is evicted, not moved, but is to go to {eviction.to_node}"
        elif eviction.to_node not in plan.outcome.question.node:
            yield f"pod {pod} is moved to {eviction.to_node}, which the snapshot does not have"


def preemptible_gangs_give_way(plan: Plan) -> Iterator[str]:
    """No pod of a gang that is not preemptible is disturbed."""
    for gang in plan.outcome.gangs:
        if gang.evicted and gang.gang.not_preemptible:
            yield (
                f"gang {gang.gang.name} is not preemptible but loses {len(gang.evicted)} pods, "
                f"{gang.evicted[0].pod.name} first"
            )


def only_what_can_be_asked_for_again_is_moved(plan: Plan) -> Iterator[str]:
    """No pod of a gang is moved of which some pod runs that asks for what nobody can honour."""
    for gang in plan.outcome.gangs:
        if any(victim.moves for victim in gang.evicted):
            sets = (s for group in gang.gang.groups for s in group.pod_sets if s.bound_pods)
            for what in dict.fromkeys(word for s in sets for word in s.template.unsupported):
                yield f"gang {gang.gang.name} is moved but uses {what}, which is not supported"


def whole_gangs_or_extras_give_way(plan: Plan) -> Iterator[str]:
    """What stays of a gang has every group's minimum, or nothing stays."""
    for gang in plan.outcome.gangs:
        if not gang.evicted or goes_whole(gang):
            continue
        for group in gang.groups:
            if group.undisturbed < group.group.min_replicas:
                yield (
                    f"gang {gang.gang.name} loses {len(gang.evicted)} of its pods: group "
                    f"{group.group.name} keeps {group.undisturbed}, "
                    f"its minimum is {group.group.min_replicas}"
                )


def bases_stay_while_gangs_based_on_them_run(plan: Plan) -> Iterator[str]:
    """A base goes only together with all gangs that are based on it."""
    lost = {
        gang.gang.name
        for gang in plan.outcome.gangs
        if gang.evicted and not gang.placed and goes_whole(gang)
    }
    for gang in plan.outcome.gangs if lost else ():
        if gang.gang.base_gang in lost and not goes_whole(gang):
            yield f"gang {gang.gang.base_gang} goes, but gang {gang.gang.name} is based on it"


def gangs_run_for_their_minimum_time(plan: Plan) -> Iterator[str]:
    """A gang loses its minimum only after the time that it may run undisturbed."""
    now = plan.snapshot.as_of
    for gang in plan.outcome.gangs:
        if not gang.evicted or not loses_its_minimum(gang):
            continue
        first: dict[int, EvictedPod] = {}
        for victim in gang.evicted:
            first.setdefault(_minimum_run_time(plan, victim), victim)
        for seconds, victim in first.items():
            if not lacks_run_time(plan, gang.gang, seconds):
                continue
            start = gang.gang.start
            known = "an unknown time" if now is None or start is None else f"{now - start} s"
            yield (
                f"gang {gang.gang.name} loses pod {victim.pod.name} but has run for {known}, "
                f"its minimum is {seconds} s"
            )


def _minimum_run_time(plan: Plan, victim: EvictedPod) -> int:
    """How long the gang of a pod keeps its minimum from whom the pod goes for, in seconds."""
    if victim.eviction.kind is not EvictionKind.RECLAIM:
        return victim.gang.minimum_run_time
    winner = plan.outcome.gang.get(victim.eviction.for_gang)
    pair = None if winner is None else compared(plan, winner.gang, victim.gang)
    return run_time_before_reclaim(plan, pair, victim.gang)


def disruption_budgets_hold(plan: Plan) -> Iterator[str]:
    """No more pods of a budget go than it allows, moved ones among them."""
    if not plan.evicted:
        return
    for budget in plan.snapshot.disruption_budgets:
        home, selector = namespace_of(budget.name), budget.selector
        gone = [
            v.pod.name
            for v in plan.evicted
            if selector is not None
            and v.gang.namespace == home
            and selector.matches(v.template.labels)
        ]
        if len(gone) > budget.allowed:
            yield f"{len(gone)} pods of {budget.name} are evicted, it allows {budget.allowed}"


def victims_go_for_a_gang_that_is_placed(plan: Plan) -> Iterator[str]:
    """Preempted and reclaimed pods go for a gang of the request that gets new pods."""
    gangs = {gang.gang.name: gang for gang in plan.outcome.gangs}
    for victim in plan.evicted:
        if victim.moves:
            continue
        winner = gangs.get(victim.eviction.for_gang)
        if winner is None or not winner.has_bound:
            yield (
                f"pod {victim.pod.name} is evicted for {victim.eviction.for_gang!r}, "
                "which is no gang that gets new pods"
            )


def only_lower_priorities_are_preempted(plan: Plan) -> Iterator[str]:
    """A preempted pod goes for a gang of strictly higher priority, one that may preempt."""
    gangs = {gang.name: gang for gang in plan.snapshot.gangs}
    for victim in plan.evicted:
        winner = gangs.get(victim.eviction.for_gang)
        if victim.eviction.kind is not EvictionKind.PREEMPT or winner is None:
            continue
        if victim.gang.priority >= winner.priority:
            yield (
                f"pod {victim.pod.name} of priority {victim.gang.priority} is preempted for "
                f"gang {winner.name} of priority {winner.priority}"
            )
        if winner.never_preempts:
            yield f"pod {victim.pod.name} is preempted for gang {winner.name}, which never preempts"


def queues_reclaim_what_is_guaranteed(plan: Plan) -> Iterator[str]:
    """From queues above their guaranteed GPUs, for queues that are below theirs and stay within
    them. The queues compared are the first two that differ on the paths from the roots.
    """
    reclaimed = [v for v in plan.evicted if v.eviction.kind is EvictionKind.RECLAIM]
    if not reclaimed:
        return
    usage = Usage(plan, fixed=False)
    gangs = {gang.name: gang for gang in plan.snapshot.gangs}
    for victim in reclaimed:
        winner = gangs.get(victim.eviction.for_gang)
        if winner is None:
            continue
        pair = compared(plan, winner, victim.gang)
        if pair is None:
            yield (
                f"pod {victim.pod.name} is reclaimed for gang {winner.name}, but their queues "
                f"{winner.queue!r} and {victim.gang.queue!r} do not differ"
            )
            continue
        if plan.queues[victim.gang.queue].not_reclaimable:
            yield (
                f"pod {victim.pod.name} is reclaimed from {victim.gang.queue}, "
                "which is not reclaimable"
            )
        yield from _above_guaranteed(plan, usage, pair.theirs, victim)
    asked = asked_by_gang(plan)
    for queue, names in sorted(takers(plan).items()):
        guaranteed = in_millis(plan.queues[queue].guaranteed).get(GPUS, 0)
        before = usage.of(queue, GPUS)
        then = before + sum(asked[name] for name in names)
        if before >= guaranteed or then > guaranteed:
            yield (
                f"{queue} reclaims, but has {before / WHOLE:g} GPUs before and "
                f"{then / WHOLE:g} after of {guaranteed / WHOLE:g} that are guaranteed"
            )


def _above_guaranteed(plan: Plan, usage: Usage, queue: str, victim: EvictedPod) -> Iterator[str]:
    guaranteed = in_millis(plan.queues[queue].guaranteed).get(GPUS, 0)
    used = usage.of(queue, GPUS)
    if used <= guaranteed:
        yield (
            f"pod {victim.pod.name} is reclaimed from {queue}, which has {used / WHOLE:g} GPUs "
            f"of {guaranteed / WHOLE:g} that are guaranteed"
        )
