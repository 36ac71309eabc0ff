"""Asking the service for plan after plan, and carrying a plan out on a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from placement.planning.changes import keep, occupy, released
from placement.v1 import BoundPod, ComputePlacementRequest, Placement, RunningPod

#: Answers a request within so many seconds, or raises `OutOfTime`.
Ask = Callable[[ComputePlacementRequest, float], Placement]


class OutOfTime(Exception):
    """There is no answer in time."""


class _Place(NamedTuple):
    node: str
    devices: Iterable[int]
    reservation: str


def carried_out(request: ComputePlacementRequest, placement: Placement) -> ComputePlacementRequest:
    """The request when the plan has been carried out: what it binds or moves runs, and the other
    pods that it evicts wait."""
    places = {b.pod: _Place(b.node, b.devices, b.reservation) for b in placement.bindings}
    places |= {e.pod: _Place(e.to_node, e.to_devices, "") for e in placement.evictions if e.to_node}
    new = released(request, {eviction.pod for eviction in placement.evictions})
    nodes = {node.name: node for node in new.snapshot.nodes}
    for gang in new.gangs:
        for group in gang.groups:
            for pod_set in group.pod_sets:
                for pod in [pod for pod in pod_set.pods if pod.name in places]:
                    to = places[pod.name]
                    runs = BoundPod(name=pod.name, node=to.node, devices=to.devices)
                    runs.reservation = to.reservation
                    occupy(new, nodes[to.node], runs, pod_set.template)
                    pod_set.bound_pods.append(runs)
                    new.snapshot.pods.append(
                        RunningPod(
                            name=pod.name,
                            node=to.node,
                            labels=pod_set.template.labels,
                            required_anti_affinity=pod_set.template.required_anti_affinity,
                        )
                    )
                keep(pod_set.pods, lambda pod: pod.name not in places)
    return new
