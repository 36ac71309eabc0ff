"""Which gangs preempt whom, and how long a gang runs undisturbed."""

from __future__ import annotations

from placement_service.entities.eviction import EvictionKind
from placement_service.entities.request import PodGang
from placement_service.judge.outcome import EvictedPod, GangOutcome
from placement_service.judge.plan import Plan


def may_preempt(plan: Plan, gang: PodGang, victim: EvictedPod) -> bool:
    """Whether a gang stands above a victim, and might preempt it if that is reclaimed."""
    if gang.never_preempts or gang.priority <= victim.gang.priority:
        return False
    if victim.eviction.kind is not EvictionKind.RECLAIM:
        return True
    protected = lacks_run_time(plan, victim.gang, victim.gang.minimum_run_time)
    return not (protected and loses_its_minimum(plan.outcome.gang[victim.gang.name]))


def lacks_run_time(plan: Plan, gang: PodGang, seconds: int) -> bool:
    """Whether a gang has not run yet for the time that it may keep its minimum.

    One that does not say since when it runs is not protected. Without a time of the snapshot every
    other one is.
    """
    if not seconds or gang.start is None:
        return False
    now = plan.snapshot.as_of
    return now is None or now - gang.start < seconds


def loses_its_minimum(gang: GangOutcome) -> bool:
    """Whether a running gang is left below its minimum, or with no pod."""
    return goes_whole(gang) or any(
        group.undisturbed < group.group.min_replicas for group in gang.groups
    )


def goes_whole(gang: GangOutcome) -> bool:
    """Whether no pod of a gang stays where it is."""
    return not any(group.undisturbed for group in gang.groups)
