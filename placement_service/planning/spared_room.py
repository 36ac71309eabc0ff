"""What nodes spare beside what runs, for gangs that move while they still hold their room.

Moves of others never make that more, so it says who can never move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial

import numpy as np

from placement_service.entities.nodes import Ints
from placement_service.entities.request import PodGang, Policy, Resources, Snapshot
from placement_service.formulation.arrays import Bools
from placement_service.formulation.planning_questions import Spared


class SparedRoom:
    """The nodes of a snapshot; `domain` of each [N] is -1 where it is in none of the `domains`."""

    def __init__(self, snapshot: Snapshot, policy: Policy, domain: Ints, domains: int) -> None:
        self._snapshot, self._policy = snapshot, policy
        self._domain, self._domains = domain, domains

    def of(self, able: Sequence[int]) -> Iterator[Spared]:
        """For each kind of GPU: what these domains have, and what all nodes spare."""
        inside = self._domain >= 0
        for has, spared in self._gpus.values():
            of = np.bincount(self._domain[inside], has[inside], self._domains)
            yield Spared(tuple(int(of[d]) for d in able), spared)

    def may_hold(self, gang: PodGang) -> bool:
        """Whether all nodes together spare the GPUs of a gang that moves whole, in one step."""
        return all(_asked(gang, name) <= spared for name, (_, spared) in self._gpus.items())

    def may_hold_outside(self, chosen: Sequence[int], gangs: Iterable[PodGang]) -> bool:
        """Whether nodes outside some domains spare what each of these gangs needs, of every
        resource; none of what moves comes inside.
        """
        requested = self._snapshot.columns.requested
        outside: Bools = ~np.isin(self._domain, chosen)
        whole = list(gangs)
        for name in requested:
            spared = int((self._has(name) - requested[name])[outside].sum())
            most = spared + self._not_asked_again(name)
            if any(_asked(gang, name) > most for gang in whole):
                return False
        return True

    @cached_property
    def _gpus(self) -> dict[str, tuple[Ints, int]]:
        """What each node has of each kind of GPU, and what all spare."""
        requested = self._snapshot.columns.requested
        found = {}
        for name in (r for r in requested if self._policy.gpus({r: 1})):
            has = self._has(name)
            least = int(requested[name].sum()) - self._not_asked_again(name)
            found[name] = has, int(has.sum()) - least
        return found

    def _has(self, resource: str) -> Ints:
        """What each node has of a resource; one that takes no new pods has only what runs there."""
        nodes = self._snapshot.columns
        used = nodes.requested[resource]
        there = nodes.allocatable.numbers(partial(_amount, resource))
        return np.where(nodes.open, np.maximum(there, used), used)

    def _not_asked_again(self, resource: str) -> int:
        """What pods hold of a resource that they would not ask for elsewhere."""
        return sum(
            max(0, pod.held.get(resource, 0) - pod_set.template.requests.get(resource, 0))
            for gang in self._snapshot.gangs
            for group in gang.groups
            for pod_set in group.pod_sets
            for pod in pod_set.bound_pods
            if pod.held is not None and pod.node in self._snapshot.columns.row_of
        )


def _amount(name: str, of: Resources) -> int:
    return of.get(name, 0)


def _asked(gang: PodGang, resource: str) -> int:
    """What all that runs of a gang asks for."""
    sets = (pod_set for group in gang.groups for pod_set in group.pod_sets)
    return sum(s.template.requests.get(resource, 0) * len(s.bound_pods) for s in sets)
