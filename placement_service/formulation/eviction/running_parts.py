"""Running gangs of which what runs and what waits are two gangs, where they may be evicted.

What runs of a gang that lacks pods of its minimum may have to go, may stay while the rest waits, or
may be made whole. So it becomes a gang of its own behind those of the request, its part, without
which the rest gets no pod:

    its running pods    all stay, or all go; worth nothing, because no minimum is met
    the gang itself     waits as before; its running pods are places that cannot change

What runs of other gangs that are based on it is based on its running pods, and what waits of them
on the gang itself. Extras go with the rest, because a gang that goes in part has to keep its
minimum. Where gangs are moved it stays as it is: pods that move are new ones, and a gang gets these
only with its minimum.

A whole gang is divided, too, where its extras wait for a base that waits itself: these get no pods
before the base does, and what runs stays without it. Its part is the gang with its minimum and what
that is worth. It stays undivided where it could lose extras in places that count in `topology`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import PodGang, PodGroup, Policy, Snapshot
from placement_service.formulation.eviction.running_gangs import gangs_that_may_go
from placement_service.formulation.eviction.running_topology import pending, running
from placement_service.formulation.gangs.packing_scopes import set_level
from placement_service.formulation.open_gangs import has_extras, part_name


def with_running_parts(snapshot: Snapshot, policy: Policy) -> Snapshot:
    """The snapshot with such gangs divided, those that may be evicted."""
    if policy.eviction in (EvictionPolicy.NONE, EvictionPolicy.REPACK):
        return snapshot
    able = frozenset(_divisible(snapshot))
    while able:
        divided = _divided(snapshot, able)
        parts = dict(zip(sorted(able), range(len(snapshot.gangs), len(divided.gangs)), strict=True))
        go = gangs_that_may_go(divided, policy)
        if go.issuperset(parts.values()):
            return divided
        able = frozenset(i for i in able if parts[i] in go)
    return snapshot


def _divisible(snapshot: Snapshot) -> Iterator[int]:
    short = {gang.name: gang for gang in snapshot.gangs if gang.is_pending}
    for i, gang in enumerate(snapshot.gangs):
        base = short.get(gang.base_gang)
        if (
            (gang.is_pending or (base and any(pending(gang)) and _has_fixed_places(gang, base)))
            and any(running(gang))
            and not any(g.fixed_pods for g in gang.groups)
        ):
            yield i


def _has_fixed_places(gang: PodGang, base: PodGang) -> bool:
    """Whether no place of a whole gang that counts in `topology` could change while it stays."""
    return not has_extras(gang) or not (
        set_level(base) or any(scope.preferred_level for scope in gang.packing_scopes)
    )


def _divided(snapshot: Snapshot, which: Collection[int]) -> Snapshot:
    part_of = {snapshot.gangs[i].name: part_name(snapshot.gangs[i].name) for i in which}
    gangs = []
    for i, gang in enumerate(snapshot.gangs):
        if i in which:
            gangs.append(what_waits(gang))
        elif gang.base_gang in part_of and not (gang.is_pending or any(pending(gang))):
            gangs.append(replace(gang, base_gang=part_of[gang.base_gang]))
        else:
            gangs.append(gang)
    for i in sorted(which):
        part = _part(snapshot.gangs[i])
        gangs.append(replace(part, base_gang=part_of.get(part.base_gang, part.base_gang)))
    return replace(snapshot, gangs=tuple(gangs))


def what_waits(gang: PodGang) -> PodGang:
    """What waits of a gang; where the other pods run is known, and does not change."""
    groups = (
        replace(
            group,
            pod_sets=tuple(replace(s, bound_pods=()) for s in group.pod_sets),
            fixed_pods=group.running_pods,
        )
        for group in gang.groups
    )
    return replace(gang, groups=tuple(groups))


def _part(gang: PodGang) -> PodGang:
    """What runs of a gang; all of it is needed where the gang lacks pods."""
    groups = tuple(
        PodGroup(
            group.name,
            group.running_count if gang.is_pending else group.min_replicas,
            tuple(replace(s, pods=()) for s in group.pod_sets if s.bound_pods),
        )
        for group in gang.groups
        if group.running_count
    )
    return replace(
        gang,
        name=part_name(gang.name),
        groups=groups,
        packing_scopes=(),
        previous_nodes=(),
        volume_claims=(),
    )
