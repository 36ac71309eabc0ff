"""Stand-ins for KAI and Volcano, as far as advice meets them, and the kinds of all schedulers.

They do what the documentation and the sources of both say, and no more: KAI's binder checks
neither who wrote a BindRequest nor whether it fits, and binds pod after pod. See also
`koord_scheduler`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import ClassVar, Final, Self

from urllib3.exceptions import HTTPError

from tests.cluster.api import NODES, PODS, Api, ApiError, Body, Resource
from tests.cluster.build import pod_spec
from tests.cluster.informer import Informer

BIND_REQUESTS: Final = Resource("scheduling.run.ai/v1alpha2", "bindrequests")
KAI_POD_GROUPS: Final = Resource("scheduling.run.ai/v2alpha2", "podgroups")
RESERVATIONS: Final = Resource(
    "scheduling.koordinator.sh/v1alpha1", "reservations", namespaced=False
)
VOLCANO_POD_GROUPS: Final = Resource("scheduling.volcano.sh/v1beta1", "podgroups")
HYPER_NODES: Final = Resource("topology.volcano.sh/v1alpha1", "hypernodes", namespaced=False)
KOORDINATOR_POD_GROUPS: Final = Resource("scheduling.sigs.k8s.io/v1alpha1", "podgroups")

#: Kind, group, version, plural, whether namespaced.
_KINDS: Final = (
    ("BindRequest", "scheduling.run.ai", "v1alpha2", "bindrequests", True),
    ("PodGroup", "scheduling.run.ai", "v2alpha2", "podgroups", True),
    ("Queue", "scheduling.run.ai", "v2", "queues", False),
    ("Topology", "kai.scheduler", "v1alpha1", "topologies", False),
    ("Reservation", "scheduling.koordinator.sh", "v1alpha1", "reservations", False),
    ("Device", "scheduling.koordinator.sh", "v1alpha1", "devices", False),
    (
        "ClusterNetworkTopology",
        "scheduling.koordinator.sh",
        "v1alpha1",
        "clusternetworktopologies",
        False,
    ),
    ("PodGroup", "scheduling.sigs.k8s.io", "v1alpha1", "podgroups", True),
    ("ElasticQuota", "scheduling.sigs.k8s.io", "v1alpha1", "elasticquotas", True),
    ("PodGroup", "scheduling.volcano.sh", "v1beta1", "podgroups", True),
    ("Queue", "scheduling.volcano.sh", "v1beta1", "queues", False),
    ("HyperNode", "topology.volcano.sh", "v1alpha1", "hypernodes", False),
)
#: Where KAI's binder holds GPUs that are shared, and its label of those who share one.
HOLDERS: Final = "kai-resource-reservation"
GPU_GROUP: Final = "runai-gpu-group"

#: Namespace and name.
Key = tuple[str, str]

#: Seconds between two looks of a stand-in: as a rule, and where nothing has changed since.
_PAUSE: Final = 0.05
_IDLE_PAUSE: Final = 0.5
_GPU: Final = "nvidia.com/gpu"


#: Servers that have the kinds: making each anew costs them more than most tests do.
_installed: set[str] = set()
#: Those of them in which there may be objects of the kinds.
_used: set[str] = set()


def install_kinds(api: Api) -> None:
    """The kinds of all, with any fields; waits until they are served. What a test makes of them is
    wiped before the next one (`wipe_kinds`)."""
    _used.add(api.url)
    if api.url not in _installed:
        _apply_kinds(api)
        _installed.add(api.url)
        for resource in _resources():
            api.items_once_there(resource)


def _apply_kinds(api: Api) -> None:
    for kind, group, version, plural, namespaced in _KINDS:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        api.apply(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {
                    "name": f"{plural}.{group}",
                    "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
                },
                "spec": {
                    "group": group,
                    "scope": "Namespaced" if namespaced else "Cluster",
                    "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                    "versions": [
                        {
                            "name": version,
                            "served": True,
                            "storage": True,
                            "subresources": {"status": {}},
                            "schema": {"openAPIV3Schema": schema},
                        }
                    ],
                },
            }
        )


def wipe_kinds(api: Api) -> None:
    """Deletes what tests left of these kinds, in all namespaces."""
    if api.url not in _used:
        return
    for resource in _resources():
        there = api.items_once_there(resource)
        for namespace in sorted({one["metadata"].get("namespace", "") for one in there}):
            api.delete_all(resource, namespace)
    _used.remove(api.url)


def _resources() -> list[Resource]:
    return [
        Resource(f"{group}/{version}", plural, namespaced=namespaced)
        for _, group, version, plural, namespaced in _KINDS
    ]


class StandIn:
    """Does its work in a thread, while the block runs: when something changes, and else now and
    then, for time passes too."""

    #: The kinds whose changes are seen at once.
    watched: ClassVar[tuple[Resource, ...]] = ()

    def __init__(self, api: Api) -> None:
        self._api = api
        self._stopping = threading.Event()
        self._changed = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._informers = [
            Informer(api, resource, lambda *_: self._changed.set()) for resource in self.watched
        ]

    def step(self) -> None:
        """What is due now."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        for informer in self._informers:
            informer.start()
        self._changed.set()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._changed.set()
        self._thread.join()
        for informer in self._informers:
            informer.stop()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while not self._stopping.wait(_PAUSE):
            self._changed.wait(_IDLE_PAUSE)
            self._changed.clear()
            try:
                self.step()
            except (HTTPError, OSError):
                self._changed.set()
            except ApiError as error:
                if error.status not in (404, 409) and error.status < 429:
                    self._error = error
                    return
                self._changed.set()

    def _set_status(self, resource: Resource, body: Body, status: Body) -> None:
        metadata = body["metadata"]
        self._api.merge(
            resource, metadata["name"], {"status": status}, metadata.get("namespace"), "status"
        )


class KaiBinder(StandIn):
    """Binds by BindRequest, no matter who wrote it, and asks neither for room nor for gates: the
    API server refuses what is gated. One that fails is tried again, with growing pauses, as long
    as its back-off limit allows; of the attempts only the first is ever written down. Those for
    `fails` fail. `requests` has those that were carried out, in order."""

    watched = (BIND_REQUESTS,)

    def __init__(self, api: Api, *, fails: Callable[[Body], bool] = lambda request: False) -> None:
        super().__init__(api)
        self._fails = fails
        self._not_before: dict[str, float] = {}
        self.requests: list[Body] = []

    def step(self) -> None:
        self._free_unused()
        for request in _bind_requests(self._api):
            status, uid = request.get("status", {}), request["metadata"]["uid"]
            if status.get("phase") == "Succeeded" or _has_failed(request):
                continue
            if time.monotonic() < self._not_before.get(uid, 0.0):
                continue
            if not self._fails(request) and self._bind(request):
                self.requests.append(request)
                self._set_status(BIND_REQUESTS, request, {"phase": "Succeeded"})
                continue
            attempts = status.get("failedAttempts", 0)
            self._not_before[uid] = time.monotonic() + 2**attempts
            if status.get("phase") != "Failed":
                failed = {"phase": "Failed", "reason": "test", "failedAttempts": attempts + 1}
                self._set_status(BIND_REQUESTS, request, failed)

    def _bind(self, request: Body) -> bool:
        spec = request["spec"]
        pod = self._api.find(PODS, spec["podName"], request["metadata"]["namespace"])
        if pod is None:
            return False
        if not pod["spec"].get("nodeName"):
            if spec.get("receivedResourceType") == "Fraction":
                self._share(pod, spec["selectedGPUGroups"], spec["selectedNode"])
            try:
                self._api.bind(pod, spec["selectedNode"])
            except ApiError as error:
                if error.status >= 429:
                    raise
                return False
        return True

    def _free_unused(self) -> None:
        """Lets the GPUs go that nobody shares, or is about to."""
        used = {
            group
            for request in _bind_requests(self._api)
            if not _has_failed(request)
            for group in request["spec"].get("selectedGPUGroups", ())
        }
        for holder in self._api.items(PODS, HOLDERS):
            if holder["metadata"]["labels"][GPU_GROUP] not in used:
                self._api.delete(PODS, _name(holder), HOLDERS, grace=0)

    def _share(self, pod: Body, groups: list[str], node: str) -> None:
        """Holds a GPU for each group that has none, and labels the pod with its group."""
        self._api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOLDERS}})
        there = {p["metadata"]["labels"][GPU_GROUP] for p in self._api.items(PODS, HOLDERS)}
        for group in set(groups) - there:
            labels = {GPU_GROUP: group}
            metadata = {"name": f"hold-{group}", "namespace": HOLDERS, "labels": labels}
            spec = {**pod_spec(gpus=1, cpu="1m", memory="1Mi"), "nodeName": node}
            self._api.create(PODS, {"metadata": metadata, "spec": spec})
        one = {GPU_GROUP: groups[0]}
        labels = one if len(groups) == 1 else {f"{GPU_GROUP}/{group}": group for group in groups}
        body = {"metadata": {"labels": labels}}
        self._api.merge(PODS, _name(pod), body, pod["metadata"]["namespace"])


class GangScheduler(StandIn):
    """Places gangs whole, in order of name and first fit, as KAI and Volcano do at their
    simplest. It looks at no gated pod, and keeps node selectors and affinity by name."""

    watched: ClassVar[tuple[Resource, ...]] = (PODS, NODES)

    def __init__(self, api: Api, *, scheduler: str, group: str) -> None:
        """`group` is the annotation by which pods name their gang."""
        super().__init__(api)
        self._scheduler = scheduler
        self._group = group

    def decided(self) -> dict[Key, str]:
        """The nodes of pods that another object sends there."""
        return {}

    def held(self) -> set[str]:
        """The gangs that are another's to place."""
        return set()

    def place(self, pod: Body, at: str) -> None:
        self._api.bind(pod, at)

    def step(self) -> None:
        # In this order: what is decided meanwhile is seen as bound.
        decided, held = self.decided(), self.held()
        pods = self._api.items(PODS)
        nodes = self._api.items(NODES)
        free = free_gpus(nodes, pods)
        gangs: dict[str, list[Body]] = {}
        for pod in sorted(pods, key=lambda one: str(one["metadata"]["name"])):
            name = pod["metadata"].get("annotations", {}).get(self._group, "")
            if not pod["spec"].get("nodeName") and (at := decided.get(_key(pod))):
                free[at] -= gpus_of(pod["spec"])
            elif pod["spec"].get("schedulerName") == self._scheduler and name not in held:
                gangs.setdefault(name, []).append(pod)
        for gang in gangs.values():
            waiting = [pod for pod in gang if not pod["spec"].get("nodeName")]
            if any(pod["spec"].get("schedulingGates") for pod in waiting):
                continue
            chosen: list[tuple[Body, str]] = []
            for pod in waiting:
                asked = gpus_of(pod["spec"])
                fits = (n for n in nodes if free[_name(n)] >= asked and _allows(pod["spec"], n))
                if (node := next(fits, None)) is None:
                    break
                free[_name(node)] -= asked
                chosen.append((pod, _name(node)))
            if len(chosen) == len(waiting):
                for pod, at in chosen:
                    self.place(pod, at)
            else:
                for pod, at in chosen:
                    free[at] += gpus_of(pod["spec"])


class KaiScheduler(GangScheduler):
    """KAI's scheduler at its simplest: what a BindRequest sends somewhere takes its room, and
    PodGroups of other node pools are not its own.

    It decides from what it saw when its cycle began, writes BindRequests when the cycle ends,
    `cycle` seconds later, and looks at nothing in between. Requests that have failed go.
    """

    watched = (PODS, NODES, BIND_REQUESTS, KAI_POD_GROUPS)

    def __init__(self, api: Api, *, cycle: float = 0.0) -> None:
        super().__init__(api, scheduler="kai-scheduler", group="pod-group-name")
        self._cycle = cycle
        self._placed: list[tuple[Body, str]] = []

    def step(self) -> None:
        for one in filter(_has_failed, _bind_requests(self._api)):
            self._api.delete(BIND_REQUESTS, _name(one), one["metadata"]["namespace"])
        self._placed.clear()
        super().step()
        self._stopping.wait(self._cycle)
        for pod, at in self._placed:
            self._write(pod, at)

    def decided(self) -> dict[Key, str]:
        requests = _bind_requests(self._api)
        return {
            (one["metadata"]["namespace"], one["spec"]["podName"]): one["spec"]["selectedNode"]
            for one in requests
            if not _has_failed(one)
        }

    def held(self) -> set[str]:
        groups = self._api.items(KAI_POD_GROUPS)
        return {
            _name(one)
            for one in groups
            if "kai.scheduler/node-pool" in one["metadata"].get("labels", {})
        }

    def place(self, pod: Body, at: str) -> None:
        self._placed.append((pod, at))

    def _write(self, pod: Body, at: str) -> None:
        metadata = pod["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": _name(pod), "uid": metadata["uid"]}
        request = {
            "apiVersion": BIND_REQUESTS.api_version,
            "kind": "BindRequest",
            "metadata": {
                "name": _name(pod),
                "namespace": metadata["namespace"],
                "labels": {"selected-node": at},
                "ownerReferences": [owner],
            },
            "spec": {"podName": _name(pod), "selectedNode": at},
        }
        try:
            self._api.create(BIND_REQUESTS, request)
        except ApiError as error:
            # The pod has one: the first writer wins.
            if error.status != 409:
                raise


def _bind_requests(api: Api) -> list[Body]:
    """Those that name a pod; nothing makes them do so."""
    return [request for request in api.items(BIND_REQUESTS) if "podName" in request["spec"]]


def _has_failed(request: Body) -> bool:
    """Whether KAI counts a BindRequest no more: it has failed, and as often as it may."""
    status = request.get("status", {})
    limit = request["spec"].get("backoffLimit")
    failed = status.get("phase") == "Failed"
    return failed and (limit is None or status.get("failedAttempts", 0) >= limit)


def free_gpus(nodes: Iterable[Body], pods: Iterable[Body]) -> dict[str, int]:
    """By node, its GPUs less those of the pods on it."""
    free = {_name(node): int(node["status"]["allocatable"].get(_GPU, 0)) for node in nodes}
    for pod in pods:
        if node := pod["spec"].get("nodeName"):
            free[node] -= gpus_of(pod["spec"])
    return free


def _name(body: Body) -> str:
    return str(body["metadata"]["name"])


def _key(body: Body) -> Key:
    return str(body["metadata"]["namespace"]), _name(body)


def _allows(spec: Body, node: Body) -> bool:
    labels = node["metadata"].get("labels", {})
    required = (
        spec.get("affinity", {})
        .get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", {})
        .get("nodeSelectorTerms", [])
    )
    named = [field["values"] for term in required for field in term.get("matchFields", ())]
    return all(labels.get(k) == v for k, v in spec.get("nodeSelector", {}).items()) and all(
        _name(node) in values for values in named
    )


def gpus_of(spec: Body) -> int:
    return sum(
        int(container.get("resources", {}).get("requests", {}).get(_GPU, 0))
        for container in spec["containers"]
    )
