"""A placement service that lets running gangs give way, by trying out who has to.

It asks the real service without any eviction; for a gang that has no place it takes gangs of
lower priority away, the fewest pods first, until the real service finds one. All pods are
alike: one GPU each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from placement import v1
from placement.client import PlacementClient

_GPU = "nvidia.com/gpu"


def preempting(address: str) -> Callable[[v1.ComputePlacementRequest], v1.Placement]:
    """Answers requests with the help of the service at an address."""

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        with PlacementClient(address) as client:

            def compute(one: v1.ComputePlacementRequest) -> v1.Placement:
                plain = v1.ComputePlacementRequest()
                plain.CopyFrom(one)
                plain.policy.eviction = v1.EvictionPolicy.EVICTION_POLICY_NONE
                return client.compute(plain)

            placement = compute(request)
            if request.policy.eviction != v1.EvictionPolicy.EVICTION_POLICY_PREEMPT:
                return placement
            placed = {result.name for result in placement.gangs if result.placed}
            for gang in sorted(request.gangs, key=lambda one: -one.priority):
                if gang.name in placed or not any(True for _ in _waiting(gang)):
                    continue
                for victims in _choices(request, gang):
                    tried = compute(_without(request, victims))
                    if any(one.name == gang.name and one.placed for one in tried.gangs):
                        tried.evictions.extend(
                            v1.Eviction(
                                pod=pod.name,
                                gang=victim.name,
                                node=pod.node,
                                kind=v1.EvictionKind.EVICTION_KIND_PREEMPT,
                                for_gang=gang.name,
                            )
                            for victim in victims
                            for pod in _running(victim)
                        )
                        # Their room serves nobody else in the same answer.
                        kept = [one for one in tried.bindings if one.gang == gang.name]
                        del tried.bindings[:]
                        tried.bindings.extend(kept)
                        return tried
            return placement

    return answer


def _choices(
    request: v1.ComputePlacementRequest, gang: v1.PodGang
) -> Iterator[tuple[v1.PodGang, ...]]:
    lower = [g for g in request.gangs if g.priority < gang.priority and list(_running(g))]
    every = [c for size in range(1, len(lower) + 1) for c in combinations(lower, size)]
    return iter(sorted(every, key=lambda c: sum(len(list(_running(g))) for g in c)))


def _running(gang: v1.PodGang) -> Iterator[v1.BoundPod]:
    for group in gang.groups:
        yield from group.bound_pods
        for pods in group.pod_sets:
            yield from pods.bound_pods


def _waiting(gang: v1.PodGang) -> Iterator[v1.Pod]:
    return (pod for group in gang.groups for pods in group.pod_sets for pod in pods.pods)


def _without(
    request: v1.ComputePlacementRequest, victims: tuple[v1.PodGang, ...]
) -> v1.ComputePlacementRequest:
    result = v1.ComputePlacementRequest()
    result.CopyFrom(request)
    names = {gang.name for gang in victims}
    nodes = {node.name: node for node in result.snapshot.nodes}
    for gang in victims:
        for pod in _running(gang):
            nodes[pod.node].requested.extended[_GPU] -= 1
    kept = [gang for gang in result.gangs if gang.name not in names]
    del result.gangs[:]
    result.gangs.extend(kept)
    return result
