"""KAI: BindRequests of a whole gang, which KAI's binder carries out.

Two modes:

- **hold** (nodes shared with a KAI scheduler): a PodGroup is labelled
  `kai.scheduler/node-pool: placement-service-hold`, which no KAI scheduler serves. When its
  BindRequests are there the label goes, and KAI accounts the gang as usual. Without advice in
  time the label goes, and KAI decides alone.
- **pool**: a node pool that no KAI scheduler serves. PodGroups and nodes carry its label; we
  decide there alone, and nothing is released.

A BindRequest has the name of its pod and is owned by it, as KAI's own: of two writers the
first one wins. It has no back-off limit, so that one that fails is failed at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from controller.advice.adapter import Progress
from controller.advice.advice import Advice
from controller.advice.objects import Objects
from controller.gang_state import Body, Key, node_of
from placement.advice_marks import KAI_HOLD, KAI_NODE_POOL, MADE_FOR
from placement.cluster import MERGE_PATCH, ApiError, Cluster
from placement.kubernetes.quantities import QuantityError, amount
from placement.resources import BIND_REQUESTS, KAI_POD_GROUPS, NODES

SCHEDULER: Final = "kai-scheduler"
_POD_GROUP: Final = "pod-group-name"
_GPU: Final = "nvidia.com/gpu"
#: What needs more than a node in its BindRequest: KAI decides about such pods.
_SHARES: Final = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices")


class Kai:
    """See `adapter.Adapter`. With `pool` we own that node pool; without, gangs are held."""

    def __init__(self, cluster: Cluster, *, pool: str = "") -> None:
        self._cluster = cluster
        self._pool = pool

    @property
    def name(self) -> str:
        return "kai-pool" if self._pool else "kai"

    def waits(self, pod: Body, objects: Objects) -> bool:
        spec, metadata = pod["spec"], pod["metadata"]
        annotations = metadata.get("annotations") or {}
        if (
            spec.get("schedulerName") != SCHEDULER
            or spec.get("nodeName")
            # The API server binds no gated pod.
            or spec.get("schedulingGates")
            or metadata.get("deletionTimestamp")
            or spec.get("resourceClaims")
            or any(share in annotations for share in _SHARES)
            or self.is_decided(pod, objects)
        ):
            return False
        group = objects.of(KAI_POD_GROUPS).get((metadata["namespace"], _group_of(pod)))
        return group is not None and _pool_of(group) == (self._pool or KAI_HOLD)

    def is_decided(self, pod: Body, objects: Objects) -> bool:
        return _key(pod) in objects.of(BIND_REQUESTS)

    def opened(self, pod: Body) -> Body:
        return pod

    def may_use(self, node: Body) -> bool:
        """In a pool of ours its nodes; else those of every pool but it."""
        return not self._pool or _pool_of(node) == self._pool

    def act(self, advice: Advice, objects: Objects) -> Progress:
        """Writes the requests between two looks at those of others: KAI may decide about the
        same nodes at the same moment, and there is no lock between two writers."""
        requests = objects.of(BIND_REQUESTS)
        writes = any(
            one.pod not in requests and not node_of(objects.pods.get(one.pod, {"spec": {}}))
            for one in advice.bindings
        )
        if writes and self._overtaken(advice, objects):
            return Progress.FAILED
        progress = self._write(advice, objects)
        if progress is Progress.DONE and writes and self._overtaken(advice, objects):
            return Progress.FAILED
        if progress is Progress.DONE and not self._pool:
            self._drop_hold(_groups(advice, objects), objects)
        return progress

    def _overtaken(self, advice: Advice, objects: Objects) -> bool:
        """Whether a request of another, which nobody knew of, is for a node of the advice."""
        known = objects.of(BIND_REQUESTS)
        nodes = set(advice.nodes.values())
        found = self._cluster.request("GET", BIND_REQUESTS.path).get("items") or ()
        return any(
            one["spec"].get("selectedNode") in nodes
            and _key(one) not in known
            and MADE_FOR not in (one["metadata"].get("labels") or {})
            for one in found
        )

    def _write(self, advice: Advice, objects: Objects) -> Progress:
        requests = objects.of(BIND_REQUESTS)
        for binding in advice.bindings:
            found = requests.get(binding.pod)
            if found is None:
                pod = objects.pods.get(binding.pod)
                if pod is None:
                    return Progress.FAILED
                if node_of(pod):
                    # KAI deletes the request of a pod that is bound.
                    continue
                found = self._create(advice, pod, binding.node, objects)
            if not _is_ours(found, advice) or _phase(found) == "Failed":
                return Progress.FAILED
        return Progress.DONE

    def undo(self, advice: Advice, objects: Objects) -> None:
        """Deletes the requests that were not carried out; one that was is bound for good. A
        gang that is still held waits for advice again."""
        for binding in advice.bindings:
            namespace, name = binding.pod
            try:
                found = self._cluster.request("GET", BIND_REQUESTS.path_of(name, namespace))
                if _is_ours(found, advice) and _phase(found) != "Succeeded":
                    self._cluster.request(
                        "DELETE",
                        BIND_REQUESTS.path_of(name, namespace),
                        body={"preconditions": {"uid": found["metadata"]["uid"]}},
                    )
            except ApiError as error:
                if error.status not in (404, 409):
                    raise

    def release(self, pods: Collection[Key], objects: Objects) -> None:
        """Takes the hold away. In a pool of ours there is nobody to hand a gang to."""
        if self._pool:
            return
        found = (objects.pods[key] for key in pods if key in objects.pods)
        self._drop_hold({(pod["metadata"]["namespace"], _group_of(pod)) for pod in found}, objects)

    def _create(self, advice: Advice, pod: Body, node: str, objects: Objects) -> Body:
        namespace, name = _key(pod)
        body = bind_request(pod, node, pool=_pool_of(objects.of(NODES).get(("", node), {})))
        body["metadata"]["labels"][MADE_FOR] = advice.id
        try:
            return self._cluster.request("POST", BIND_REQUESTS.path_in(namespace), body=body)
        except ApiError as error:
            if error.status != 409:
                raise
        # There is one already: ours of before a crash, or another writer was first.
        return self._cluster.request("GET", BIND_REQUESTS.path_of(name, namespace))

    def _drop_hold(self, groups: Iterable[Key], objects: Objects) -> None:
        for namespace, name in groups:
            group = objects.of(KAI_POD_GROUPS).get((namespace, name))
            if group is None or _pool_of(group) != KAI_HOLD:
                continue
            patch = {"metadata": {"uid": group["metadata"]["uid"], "labels": {KAI_NODE_POOL: None}}}
            try:
                self._cluster.request(
                    "PATCH",
                    KAI_POD_GROUPS.path_of(name, namespace),
                    body=patch,
                    content_type=MERGE_PATCH,
                )
            except ApiError as error:
                if error.status not in (404, 409):
                    raise


def bind_request(pod: Body, node: str, *, pool: str) -> dict[str, Any]:
    """The BindRequest of a pod of whole GPUs, named, owned and labelled like KAI's own."""
    metadata = pod["metadata"]
    labels = {"pod-name": metadata["name"], "selected-node": node}
    if pool:
        # A scheduler deletes requests whose node it does not know, and which name no pool.
        labels[KAI_NODE_POOL] = pool
    return {
        "apiVersion": BIND_REQUESTS.api_version,
        "kind": BIND_REQUESTS.kind,
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                }
            ],
        },
        "spec": {
            "podName": metadata["name"],
            "selectedNode": node,
            "receivedResourceType": "Regular",
            "receivedGPU": {"count": _gpus(pod), "portion": "1"},
        },
    }


def _gpus(pod: Body) -> int:
    """The whole GPUs of a pod; init containers run before, so the larger of both counts."""

    def asked(container: Body) -> int:
        resources = container.get("resources") or {}
        for kind in ("requests", "limits"):
            if (text := (resources.get(kind) or {}).get(_GPU)) is not None:
                try:
                    return amount(_GPU, str(text))
                except QuantityError:
                    return 0
        return 0

    spec = pod["spec"]
    together = sum(map(asked, spec.get("containers") or ()))
    return max([together, *map(asked, spec.get("initContainers") or ())])


def _key(pod: Body) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _group_of(pod: Body) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(_POD_GROUP, ""))


def _groups(advice: Advice, objects: Objects) -> set[Key]:
    found = (objects.pods.get(binding.pod) for binding in advice.bindings)
    return {(p["metadata"]["namespace"], _group_of(p)) for p in found if p is not None}


def _pool_of(body: Body) -> str:
    return str(((body.get("metadata") or {}).get("labels") or {}).get(KAI_NODE_POOL, ""))


def _is_ours(request: Body, advice: Advice) -> bool:
    return bool((request["metadata"].get("labels") or {}).get(MADE_FOR) == advice.id)


def _phase(request: Body) -> str:
    return str((request.get("status") or {}).get("phase", ""))
