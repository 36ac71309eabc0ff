"""Whether the nodes of advice still have room for it, after others may have decided.

Time passes between the plan and the writing: a wait, or a crash. Then what is bound to the nodes,
or is about to be, is read once more, and counted as for a plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from hashlib import sha256
from itertools import chain

from controller.advice.adapter import Adapter
from controller.advice.advice import Advice
from controller.advice.objects import Objects
from controller.advice.request import build_request
from controller.cluster.gang_state import Body, Key, condition_of, key_of, node_of
from placement import v1
from placement.cluster import ApiError, Cluster
from placement.kubernetes.nodes.devices import KAI_HOLDERS
from placement.kubernetes.pods.pods import KAI_GROUP
from placement.kubernetes.pods.shares import GPU
from placement.resources import BIND_REQUESTS, DEVICES, NODES, PODS, UNFINISHED


def overbooked(
    cluster: Cluster,
    advice: Advice,
    objects: Objects,
    adapters: Sequence[Adapter],
    now: float,
    executor: Executor,
) -> str:
    """Why advice can no longer be carried out; empty when it can. `now` is in seconds since the
    epoch; nodes are read by the executor. Raises `ApiError`."""
    nodes = sorted(set(advice.nodes.values()))
    there: dict[Key, Body] = {}
    for name, node in zip(nodes, executor.map(partial(_node, cluster), nodes), strict=True):
        if node is None:
            return f"node {name} is gone"
        if (node.get("spec") or {}).get("unschedulable"):
            return f"node {name} is cordoned"
        if not _is_ready(node):
            return f"node {name} is not ready"
        if advice.seen.get(name, fingerprint(node)) != fingerprint(node):
            return f"node {name} has changed"
        there["", name] = node
    requests = _requests(cluster, objects)
    pods = _pods(cluster, objects, nodes, requests, executor)
    stores = {NODES: there, BIND_REQUESTS: requests, DEVICES: objects.of(DEVICES)}
    ours = advice.nodes
    others = {key: pod for key, pod in pods.items() if key not in ours}
    before, after = (
        _used(Objects(objects.revision, {**stores, PODS: some}), adapters, now)
        for some in (others, pods)
    )
    for node_name, used in after.items():
        for resource, amount in used.items():
            # Advice is not to blame where the node is overbooked without it.
            if amount > 0 and amount > before.get(node_name, {}).get(resource, 0):
                return f"{resource} on {node_name} was given away"
    return ""


def what_pods_meet(node: Body) -> tuple[object, ...]:
    """The parts of a node that decide where pods go; the rest of it changes all the time."""
    spec, metadata = node.get("spec") or {}, node["metadata"]
    allocatable = (node.get("status") or {}).get("allocatable")
    return (
        metadata.get("uid"),
        metadata.get("labels"),
        spec.get("unschedulable"),
        spec.get("taints"),
        allocatable,
        _is_ready(node),
    )


def fingerprint(node: Body) -> str:
    """What of a node lets pods in, in short, to be compared later.

    Its room is not part of it: that is counted anew, and a node with more of it may stay.
    """
    metadata = node["metadata"]
    rules = (metadata.get("uid"), metadata.get("labels"), (node.get("spec") or {}).get("taints"))
    return sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()[:16]


def _node(cluster: Cluster, name: str) -> Body | None:
    try:
        node = cluster.request("GET", NODES.path_of(name))
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    return {"kind": NODES.kind, "apiVersion": NODES.api_version, **node}


def _is_ready(node: Body) -> bool:
    """A node that does not say so counts as ready, as it does in a plan."""
    ready = condition_of(node, "Ready")
    return ready is None or ready.get("status") == "True"


def _used(
    objects: Objects, adapters: Sequence[Adapter], now: float
) -> Mapping[str, Mapping[str, int]]:
    """By node and resource, how much too much is asked for; negative where some is left."""
    built = build_request(objects, adapters, now)
    held = {
        pod["metadata"].get("labels", {}).get(KAI_GROUP)
        for (namespace, _), pod in objects.pods.items()
        if namespace == KAI_HOLDERS
    }
    result = {}
    for node in built.request.snapshot.nodes:
        name = node.name.removeprefix("nodes/")
        asked, there = _amounts(node.requested), _amounts(node.allocatable)
        there["pods"] = there.get("pods") or 110
        # A GPU that is shared counts once its holder runs.
        asked[GPU] = asked.get(GPU, 0) + sum(
            group not in held for group in built.gpu_groups.get(name, {}).values()
        )
        result[name] = {r: amount - there.get(r, 0) for r, amount in asked.items() if amount}
    return result


def _amounts(resources: v1.Resources) -> dict[str, int]:
    return {
        "cpu": resources.cpu_millis,
        "memory": resources.memory_bytes,
        "pods": resources.pod_count,
        **resources.extended,
    }


def _requests(cluster: Cluster, objects: Objects) -> dict[Key, Body]:
    """What KAI has decided by now; nothing where its kinds are not served."""
    if BIND_REQUESTS not in objects.stores:
        return {}
    try:
        pages = cluster.pages(BIND_REQUESTS)
        return {key_of(body): body for page in pages for body in page.items}
    except ApiError as error:
        if error.status == 404:
            return {}
        raise


def _pods(
    cluster: Cluster,
    objects: Objects,
    nodes: Iterable[str],
    requests: Mapping[Key, Body],
    executor: Executor,
) -> dict[Key, Body]:
    """The pods on the nodes, those that are about to be bound there, and those that wait."""
    wanted = set(nodes)
    pods = {key: pod for key, pod in objects.pods.items() if not node_of(pod)}
    for (namespace, _), request in requests.items():
        key = namespace, str(request["spec"].get("podName"))
        if request["spec"].get("selectedNode") in wanted and key not in objects.pods:
            try:
                pods[key] = cluster.request("GET", PODS.path_of(key[1], namespace))
            except ApiError as error:
                if error.status != 404:
                    raise
    listed = executor.map(
        lambda node: cluster.request(
            "GET", PODS.path, query={"fieldSelector": f"spec.nodeName={node},{UNFINISHED}"}
        ),
        wanted,
    )
    on_nodes = chain.from_iterable(answer.get("items") or () for answer in listed)
    # In a list the objects do not name their kind.
    return pods | {key_of(pod): {"apiVersion": "v1", "kind": "Pod", **pod} for pod in on_nodes}
