"""Asks the service whether gangs fit together, and keeps to one time limit for all questions."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from enum import Enum
from typing import Final

from placement.planning.changes import add, copy_of, keep
from placement.v1 import (
    BoundPod,
    ComputePlacementRequest,
    ObjectiveTier,
    Placement,
    RunningPod,
)

#: Answers a request within so many seconds, or raises `OutOfTime`.
Ask = Callable[[ComputePlacementRequest, float], Placement]

#: Two values of a tier that are this close are equal.
_SAME: Final = 1e-6
#: A question with less time than this, in seconds, is not worth asking: a service that is
#: late may have to start a process anew.
_SHORTEST: Final = 0.3


class Fit(Enum):
    """Whether gangs fit together."""

    YES = "yes"
    NO = "no, which is proven"
    UNKNOWN = "not known"


class OutOfTime(Exception):
    """The time for all questions together is used up, or a question got no answer in its."""


class Planner:
    """Puts many questions to a service until an end, in seconds on `clock`.

    `share` of the time that is left is the most that one question gets.
    """

    def __init__(
        self,
        ask: Ask,
        *,
        seconds: float,
        share: float = 0.7,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._end = clock() + seconds
        self._share = share

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return self._end - self._clock()

    def within(self, share: float) -> Planner:
        """A planner for a part of the time that is left."""
        seconds = max(0.0, share * self.left)
        return Planner(self._ask, seconds=seconds, share=self._share, clock=self._clock)

    def plan(self, request: ComputePlacementRequest) -> Placement:
        """The best plan. Raises `OutOfTime`."""
        seconds = self._share * self.left
        if seconds < _SHORTEST:
            raise OutOfTime("the time limit is too short for an answer")
        return self._ask(request, seconds)

    def places(self, request: ComputePlacementRequest, gangs: Collection[str]) -> Fit:
        """Whether the best plan places all of these gangs. Raises `OutOfTime`.

        UNKNOWN when it does not, and a better plan is not ruled out.
        """
        placement = self.plan(request)
        if placed(placement).issuperset(gangs):
            return Fit.YES
        return Fit.NO if is_admission_proven(placement) else Fit.UNKNOWN

    def fit(self, request: ComputePlacementRequest, gangs: Collection[str]) -> Fit:
        """Whether all of these gangs can have their minimum at the same time.

        Other gangs that wait are left out of the question. Raises `OutOfTime`.
        """
        return self.places(only(request, gangs), gangs)


def placed(placement: Placement) -> frozenset[str]:
    """Names of the gangs whose minimum is met after the plan."""
    return frozenset(gang.name for gang in placement.gangs if gang.placed)


def is_admission_proven(placement: Placement) -> bool:
    """Whether no plan admits more."""
    return any(tier.name == "admitted" and is_proven(tier) for tier in placement.tiers)


def is_proven(tier: ObjectiveTier) -> bool:
    """Whether nothing better exists in this tier, given the tiers before it."""
    return tier.HasField("bound") and abs(tier.bound - tier.value) < _SAME


def only(request: ComputePlacementRequest, gangs: Collection[str]) -> ComputePlacementRequest:
    """The request without what waits of other gangs; what runs of them stays."""
    new = copy_of(request)
    kept = []
    for gang in new.gangs:
        if gang.name not in gangs:
            for group in gang.groups:
                for pod_set in group.pod_sets:
                    del pod_set.pods[:]
                sets = [pod_set for pod_set in group.pod_sets if pod_set.bound_pods]
                del group.pod_sets[:]
                group.pod_sets.extend(sets)
            if not any(g.bound_pods or g.pod_sets for g in gang.groups):
                continue
        kept.append(gang)
    del new.gangs[:]
    new.gangs.extend(kept)
    names = {gang.name for gang in kept}
    for gang in new.gangs:
        if gang.base_gang and gang.base_gang not in names:
            gang.base_gang = ""
    return new


def settled(
    request: ComputePlacementRequest, placement: Placement, gangs: Collection[str]
) -> ComputePlacementRequest:
    """The request for these gangs alone when the plan has been carried out: what it binds runs.

    Good enough to look for candidates, which then are asked about in full.
    """
    new = copy_of(request)
    nodes = {node.name: node for node in new.snapshot.nodes}
    bound = {binding.pod: binding.node for binding in placement.bindings}
    for gang in new.gangs:
        for group in gang.groups:
            for pod_set in group.pod_sets:
                template = pod_set.template
                for pod in [pod for pod in pod_set.pods if pod.name in bound]:
                    node = nodes[bound[pod.name]]
                    add(node.requested, template.requests, 1)
                    node.host_ports.extend(template.host_ports)
                    pod_set.bound_pods.append(BoundPod(name=pod.name, node=node.name))
                    new.snapshot.pods.append(
                        RunningPod(
                            name=pod.name,
                            node=node.name,
                            labels=template.labels,
                            required_anti_affinity=template.required_anti_affinity,
                        )
                    )
                keep(pod_set.pods, lambda pod: pod.name not in bound)
    keep(new.gangs, lambda gang: gang.name in gangs)
    return new
