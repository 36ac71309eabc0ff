"""Running gangs that may go and begin anew.

A gang that is evicted as a whole may get its minimum all the same, of pods that wait. So where
enough of these wait, the gang is in the problem once more, behind the others: all its waiting pods,
and nothing that runs. That way is open only while what runs of it does not stay.

Left out are gangs on which others are based, which would be based on either of two.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import PodGang, Policy, Snapshot
from placement_service.formulation.eviction.running_topology import pending, running
from placement_service.formulation.open_gangs import anew_name, part_name, whole_name


def with_gangs_anew(snapshot: Snapshot, policy: Policy) -> Snapshot:
    """The snapshot with such gangs a second time; what runs of them may be another gang."""
    if policy.eviction in (EvictionPolicy.NONE, EvictionPolicy.REPACK):
        return snapshot
    bases = {whole_name(gang.base_gang) for gang in snapshot.gangs if gang.base_gang}
    names = {gang.name for gang in snapshot.gangs}
    again = tuple(
        _anew(gang)
        for gang in snapshot.gangs
        if may_begin_anew(gang, names) and gang.name not in bases
    )
    return replace(snapshot, gangs=snapshot.gangs + again) if again else snapshot


def may_begin_anew(gang: PodGang, names: Container[str]) -> bool:
    """Whether the pods that wait of a gang that runs, wholly or in part, are enough for it, and
    all that runs of it can go; `names` are those of all gangs.
    """
    divided = part_name(gang.name) in names
    return (
        any(pending(gang))
        and any(running(gang))
        and (divided or not any(group.fixed_pods for group in gang.groups))
        # Of one without a minimum all can come, whatever goes.
        and any(group.min_replicas for group in gang.groups)
        and all(group.pending_count >= group.min_replicas for group in gang.groups)
    )


def _anew(gang: PodGang) -> PodGang:
    groups = (
        replace(
            group,
            pod_sets=tuple(replace(s, bound_pods=()) for s in group.pod_sets if s.pods),
            fixed_pods=(),
        )
        for group in gang.groups
    )
    return replace(gang, name=anew_name(gang.name), groups=tuple(groups))
