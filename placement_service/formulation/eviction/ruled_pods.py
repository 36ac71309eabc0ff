"""Running pods whose rules bind them only where they come.

A pod that stays where it is need not keep its required affinity or be spread any more, and one that
moves has to. So where gangs are moved, a pod set with such rules becomes several of the same pods:

    one for all nodes      the pods where they come, with all their rules
    one for each home      the pods that stay there, without these; they are nowhere else

As many of them run as did before. To the rules of others both are pods as any. Pods that their
nodes would not take again are divided in the same way: closed nodes and new taints bind only what
comes.

The same goes for a gang that runs in several domains of a level that it requires: only the pods
that come are in its scopes. That is so where it has no extras and none of its pods waits, so that
it stays or moves whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from placement_service.entities.request import (
    BoundPod,
    Pod,
    PodGang,
    PodSet,
    Snapshot,
)
from placement_service.formulation.eviction.running_topology import RunningOn, keeps_its_levels

#: Homes of such pods up to which their gangs are moved: each is a kind of pods for every model, and
#: with more of them others that move are found later.
MOST_HOMES = 50


def binds_what_comes(pod_set: PodSet, refused: Collection[str] = frozenset()) -> bool:
    """Whether running pods have rules that bind them only where they come; `refused` are names of
    pods that their nodes would not take again.
    """
    template = pod_set.template
    return bool(template.required_affinity or template.spread_constraints) or (
        bool(refused) and any(pod.name in refused for pod in pod_set.bound_pods)
    )


def bound_sets(gang: PodGang) -> Iterator[PodSet]:
    """The pod sets of running pods."""
    return (s for group in gang.groups for s in group.pod_sets if s.bound_pods)


def ruled_sets(gang: PodGang, refused: Collection[str] = frozenset()) -> Iterator[PodSet]:
    """The pod sets of running pods with such rules of their own."""
    return (s for s in bound_sets(gang) if binds_what_comes(s, refused))


def can_be_divided(gang: PodGang, refused: Collection[str] = frozenset()) -> bool:
    """Whether its pods with such rules can be told by their homes alone; so can all where it has
    none.
    """
    return not any(ruled_sets(gang, refused)) or (
        _are_simple(gang)
        and all(
            sum(bool(s.bound_pods) for s in group.pod_sets) == 1
            for group in gang.groups
            if any(s.bound_pods and binds_what_comes(s, refused) for s in group.pod_sets)
        )
    )


def may_come_together(gang: PodGang) -> bool:
    """Whether a gang that breaks its required levels where it runs can be told to keep them where
    it moves.
    """
    return _are_simple(gang) and all(
        group.running_count == group.min_replicas
        and not group.pending_count
        and sum(bool(s.bound_pods) for s in group.pod_sets) <= 1
        for group in gang.groups
    )


def _are_simple(gang: PodGang) -> bool:
    return all(_is_simple(s.bound_pods) for group in gang.groups for s in group.pod_sets)


def _is_simple(pods: tuple[BoundPod, ...]) -> bool:
    return all(pod.held is None and not pod.devices for pod in pods)


def has_many_homes(
    snapshot: Snapshot, nodes: RunningOn, refused: Collection[str] = frozenset()
) -> bool:
    """Whether such pods run in so many places that none of them is moved."""
    homes = 0
    for gang in snapshot.gangs:
        every = not keeps_its_levels(gang, nodes)
        for s in bound_sets(gang) if every else ruled_sets(gang, refused):
            homes += len({pod.node for pod in s.bound_pods})
    return homes > MOST_HOMES


def divided(pod_set: PodSet) -> tuple[PodSet, Mapping[str, PodSet]]:
    """The set of the pods where they come, and those of the pods that stay, by their nodes."""
    stays = replace(pod_set.template, required_affinity=(), spread_constraints=())
    at_home: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pod_set.bound_pods:
        at_home[pod.node].append(Pod(pod.name))
    every = tuple(pod for pods in at_home.values() for pod in pods)
    return PodSet(pod_set.template, every), {
        node: PodSet(stays, tuple(pods)) for node, pods in at_home.items()
    }
