"""Asking the service for plan after plan, and carrying a plan out on a request."""

from __future__ import annotations

from collections.abc import Callable, Collection

from placement.planning.changes import add, copy_of, keep
from placement.v1 import BoundPod, ComputePlacementRequest, Placement, RunningPod

#: Answers a request within so many seconds, or raises `OutOfTime`.
Ask = Callable[[ComputePlacementRequest, float], Placement]


class OutOfTime(Exception):
    """There is no answer in time."""


def settled(
    request: ComputePlacementRequest, placement: Placement, gangs: Collection[str]
) -> ComputePlacementRequest:
    """The request for these gangs alone when the plan has been carried out: what it binds runs.

    Good enough to look for candidates, which are then asked about in full.
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
