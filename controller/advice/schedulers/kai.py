"""KAI: BindRequests of a whole gang, which KAI's binder carries out.

Two modes:

- **hold** (nodes shared with a KAI scheduler): a gang waits with our scheduling gate on its
  pods, or with the label `kai.scheduler/node-pool: placement-service-hold` on its PodGroup, which
  no KAI scheduler serves. Once its BindRequests exist both are removed, and KAI accounts the gang
  as usual. Without advice in time they are removed as well, and KAI decides alone.
- **pool**: a node pool that no KAI scheduler serves. PodGroups and nodes carry its label; only we
  decide there, and nothing is released.

A BindRequest has the name of its pod and is owned by it, as KAI's own: of two writers the first one
wins. It has no back-off limit, so it fails for good at its first failure. Requests of gated pods
are different: they fail and are tried again until the gates are removed, and KAI counts them
meanwhile. From its next cycle on KAI plans around them, and we see what it decided in the cycle
before, both before any pod is bound. Without gates KAI may give the same room away until it sees
the requests.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from concurrent.futures import Executor
from typing import Final

from controller.advice.adapter import Progress
from controller.advice.advice import Advice, Mark
from controller.advice.gpu_groups import noted_groups
from controller.advice.objects import Objects
from controller.advice.pod_patches import (
    gates,
    is_gated_by_us_alone,
    ungate,
    ungate_all,
    without_gate,
)
from controller.advice.schedulers.kai_bind_requests import bind_request, has_failed, has_succeeded
from controller.advice.schedulers.left_objects import delete, delete_made_for, mark_of
from controller.binding.apply import Binding
from controller.cluster.gang_state import Body, Key, node_of
from placement.advice_marks import GATE, KAI_HOLD, KAI_NODE_POOL, MADE_FOR
from placement.cluster import MERGE_PATCH, ApiError, Cluster
from placement.resources import BIND_REQUESTS, KAI_POD_GROUPS, NODES

SCHEDULER: Final = "kai-scheduler"
_NO_POD: Final[Body] = {"spec": {}}
_POD_GROUP: Final = "pod-group-name"
#: Seconds for which KAI's binder still tries to bind a gated pod after the pod is released.
_MORE: Final = 30.0


class Kai:
    """See `adapter.Adapter`. With `pool` we own that node pool; without, gangs are held.

    `settle` is how long the requests of gated pods exist before the pods are released, in seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        executor: Executor,
        *,
        pool: str = "",
        settle: float = 0.0,
    ) -> None:
        self._cluster = cluster
        self._executor = executor
        self._pool = pool
        self._settle = settle
        # The binder waits 1, 2, 4, ... seconds between tries.
        self._tries = int(settle + _MORE).bit_length() + 1
        #: Since when the requests of gated pods exist, by the id of their advice.
        self._stands: dict[str, float] = {}

    @property
    def name(self) -> str:
        return "kai-pool" if self._pool else "kai"

    def waits(self, pod: Body, objects: Objects) -> bool:
        spec, metadata = pod["spec"], pod["metadata"]
        if (
            spec.get("schedulerName") != SCHEDULER
            or spec.get("nodeName")
            or metadata.get("deletionTimestamp")
            or spec.get("resourceClaims")
            or self.is_decided(pod, objects)
        ):
            return False
        group = objects.of(KAI_POD_GROUPS).get((metadata["namespace"], _group_of(pod)))
        if group is None:
            return False
        held = _pool_of(group) == (self._pool or KAI_HOLD)
        if self._pool:
            return held and not gates(pod)
        # The API server binds no gated pod, and other gates are not ours to take away.
        return is_gated_by_us_alone(pod) or (held and not gates(pod))

    def cannot_advise(self, pod: Body, objects: Objects) -> bool:
        """Pods that are held and that we leave to KAI: those with resource claims, without a
        PodGroup, or with a request of somebody else's."""
        spec, metadata = pod["spec"], pod["metadata"]
        if self._pool or spec.get("schedulerName") != SCHEDULER or self.waits(pod, objects):
            return False
        group = objects.of(KAI_POD_GROUPS).get((metadata["namespace"], _group_of(pod)), {})
        is_over = node_of(pod) or metadata.get("deletionTimestamp")
        is_held = not (is_over or gates(pod)) and _pool_of(group) == KAI_HOLD
        return is_gated_by_us_alone(pod) or is_held

    def is_decided(self, pod: Body, objects: Objects) -> bool:
        """A request that has failed counts until KAI has deleted it; in a pool of ours nobody else
        would.
        """
        found = objects.of(BIND_REQUESTS).get(_key(pod))
        return found is not None and not (self._pool and has_failed(found))

    def opened(self, pod: Body) -> Body:
        return without_gate(pod)

    def may_use(self, node: Body) -> bool:
        """In a pool of ours its nodes; else those of every pool but it."""
        return not self._pool or _pool_of(node) == self._pool

    def prepare(self, advice: Advice, objects: Objects) -> Progress:
        """Writes the requests of gated pods: KAI counts them, and its binder fails and tries again.
        What KAI decided before it saw them shows after one of its cycles.
        """
        if not any(is_gated(objects.pods.get(one.pod)) for one in advice.bindings):
            return Progress.DONE
        progress = self._write(advice, objects, tries=self._tries)
        if progress is not Progress.DONE:
            return progress
        since = self._stands.setdefault(advice.id, time.monotonic())
        return Progress.DONE if time.monotonic() - since >= self._settle else Progress.WRITING

    def is_committed(self, advice: Advice, objects: Objects) -> bool:
        """True from the first request of a pod without a gate: that one is carried out at once."""
        requests = objects.of(BIND_REQUESTS)
        pods = ((one.pod, objects.pods.get(one.pod)) for one in advice.bindings)
        return any(
            pod is not None
            and not is_gated(pod)
            and (node_of(pod) or (key in requests and _is_ours(requests[key], advice)))
            for key, pod in pods
        )

    def act(self, advice: Advice, objects: Objects) -> Progress:
        """Releases gated pods; else writes the requests, and reads those of others before and
        after, because KAI may decide about the same nodes at the same moment.
        """
        self._stands.pop(advice.id, None)
        gated = [one for one in advice.bindings if is_gated(objects.pods.get(one.pod))]
        requests = objects.of(BIND_REQUESTS)
        writes = not gated and any(
            one.pod not in requests and not node_of(objects.pods.get(one.pod, {"spec": {}}))
            for one in advice.bindings
        )
        if writes and self._overtaken(advice, objects):
            return Progress.FAILED
        progress = self._write(advice, objects)
        if progress is Progress.DONE and writes and self._overtaken(advice, objects):
            return Progress.FAILED
        if progress is Progress.DONE:
            list(self._executor.map(lambda one: ungate(self._cluster, one.pod, one.uid), gated))
            if not self._pool:
                self._drop_hold(_groups(advice, objects), objects)
        return progress

    def _overtaken(self, advice: Advice, objects: Objects) -> bool:
        """Whether another writer's request, new to us, is for a node of the advice."""
        known = objects.of(BIND_REQUESTS)
        nodes = set(advice.nodes.values())
        found = self._cluster.request("GET", BIND_REQUESTS.path).get("items") or ()
        return any(
            one["spec"].get("selectedNode") in nodes
            and _key(one) not in known
            and MADE_FOR not in (one["metadata"].get("labels") or {})
            for one in found
        )

    def _write(self, advice: Advice, objects: Objects, *, tries: int | None = None) -> Progress:
        there = self._executor.map(
            lambda one: self._ensure(one, advice, objects, tries), advice.bindings
        )
        return Progress.DONE if all(list(there)) else Progress.FAILED

    def _ensure(
        self, binding: Binding, advice: Advice, objects: Objects, tries: int | None
    ) -> bool:
        """Writes the request of one pod if there is none; whether there is one of ours."""
        found = objects.of(BIND_REQUESTS).get(binding.pod)
        if found is not None and self._pool and has_failed(found):
            if _is_ours(found, advice):
                return False
            delete(self._cluster, BIND_REQUESTS, found)
            found = None
        if found is None:
            pod = objects.pods.get(binding.pod)
            if pod is None:
                return False
            if node_of(pod):
                return True
            found = self._create(advice, pod, binding, objects, tries)
        return _is_ours(found, advice) and not has_failed(found)

    def finish(self, advice: Advice, objects: Objects) -> None:
        """Removes the hold: KAI's binder may be done before we are."""
        self._stands.pop(advice.id, None)
        if not self._pool:
            self._drop_hold(_groups(advice, objects), objects)

    def undo(self, advice: Advice, objects: Objects) -> None:
        """Deletes the requests that were not carried out; one that was is bound for good. A
        gang that is still held waits for advice again."""
        self._stands.pop(advice.id, None)
        self.sweep(advice.mark)

    def complete(self, rest: Collection[Binding], objects: Objects) -> None:
        self.release([binding.pod for binding in rest], objects)

    def left(self, objects: Objects) -> Collection[Mark]:
        """Requests that were not carried out, and whose pods are not bound."""
        found = (
            mark_of(one)
            for key, one in objects.of(BIND_REQUESTS).items()
            if not has_succeeded(one) and not node_of(objects.pods.get(key, _NO_POD))
        )
        return {mark for mark in found if mark is not None}

    def sweep(self, mark: Mark) -> None:
        delete_made_for(self._cluster, BIND_REQUESTS, mark, phases_kept=frozenset({"Succeeded"}))

    def release(self, pods: Collection[Key], objects: Objects) -> None:
        """Takes gates and the hold away. In a pool of ours there is nobody to hand a gang to."""
        if self._pool:
            return
        found = [objects.pods[key] for key in pods if key in objects.pods]
        groups = {(pod["metadata"]["namespace"], _group_of(pod)) for pod in found}
        try:
            ungate_all(self._cluster, found)
        finally:
            self._drop_hold(groups, objects)

    def _create(
        self, advice: Advice, pod: Body, binding: Binding, objects: Objects, tries: int | None
    ) -> Body:
        namespace, name = _key(pod)
        node = objects.of(NODES).get(("", binding.node), {"metadata": {"name": binding.node}})
        groups = noted_groups(binding.notes)
        body = bind_request(pod, node, advice=advice.id, gpu_groups=groups, tries=tries)
        try:
            return self._cluster.request("POST", BIND_REQUESTS.path_in(namespace), body=body)
        except ApiError as error:
            if error.status != 409:
                raise
        # There is one already: ours from before a crash, or that of a faster writer.
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
                if not error.is_gone:
                    raise


def is_gated(pod: Body | None) -> bool:
    """Whether our gate holds a pod."""
    return pod is not None and GATE in gates(pod)


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
