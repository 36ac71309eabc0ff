"""Whether a gang still runs with the pods of its advice: its minimum may have been raised since."""

from __future__ import annotations

from collections.abc import Sequence

from controller.advice.adapter import Adapter
from controller.advice.advice import Advice
from controller.advice.objects import Objects
from controller.advice.request import bound_pods, build_request
from controller.cluster.gang_state import key_of_resource, node_of
from placement.kubernetes.memberships import group_of
from placement.resources import KAI_POD_GROUPS, NODES, PODS


def shortage(advice: Advice, objects: Objects, adapters: Sequence[Adapter], now: float) -> str:
    """Which group of the gang would have too few pods; empty when none would, or when the gang
    can no longer be read. `now` is in seconds since the epoch. Raises `InputError`."""
    request = build_request(_around(advice, objects), adapters, now).request
    for gang in request.gangs:
        if key_of_resource(gang.name) != advice.gang:
            continue
        for group in gang.groups:
            if (there := len(bound_pods(group))) < group.min_replicas:
                return f"{there} of {group.min_replicas} pods of {group.name}"
    return ""


def _around(advice: Advice, objects: Objects) -> Objects:
    """The gang's PodGroup and pods, with their nodes, and what else is in its namespace, or in
    none."""
    stores = {
        resource: {
            key: body
            for key, body in store.items()
            if key[0] in ("", advice.gang[0])
            if key == advice.gang or resource.kind != KAI_POD_GROUPS.kind
        }
        for resource, store in objects.stores.items()
    }
    stores[PODS] = {
        key: pod
        for key, pod in objects.pods.items()
        if key in advice.nodes or group_of(pod) == advice.gang
    }
    nodes = {*advice.nodes.values(), *map(node_of, stores[PODS].values())}
    stores[NODES] = {key: body for key, body in objects.of(NODES).items() if key[1] in nodes}
    return Objects(objects.revision, stores)
