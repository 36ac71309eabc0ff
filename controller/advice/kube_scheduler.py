"""kube-scheduler: gated pods are pinned to a node, or get a nominated one, and let go.

A pod that waits for advice has the scheduling gate `placement-service/advice`. Two modes:

- **pin**: the pod gets required node affinity to its node by `metadata.name`, in every term
  that it has, and loses the gate in the same patch. It can run nowhere else then: a pin cannot
  be taken back, and a pinned pod may preempt others on its node.
- **nominate**: the pod's `status.nominatedNodeName` is set, then the gate goes. The scheduler
  tries that node first, once, and is free to choose another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Executor
from typing import Any, Final, Literal

from controller.advice.adapter import Progress
from controller.advice.advice import Advice
from controller.advice.objects import Objects
from controller.advice.pod_patches import gates, is_gated_by_us_alone, ungate, without_gate
from controller.apply import Binding
from controller.gang_state import Body, Key
from placement.advice_marks import GATE
from placement.cluster import (
    PODS,
    STRATEGIC_MERGE_PATCH,
    ApiError,
    Cluster,
)

_NODE_NAME: Final = "metadata.name"


class KubeScheduler:
    """See `adapter.Adapter`."""

    def __init__(
        self, cluster: Cluster, executor: Executor, *, mode: Literal["pin", "nominate"]
    ) -> None:
        self._cluster = cluster
        self._executor = executor
        self._mode = mode

    @property
    def name(self) -> str:
        return "kube-scheduler" if self._mode == "pin" else "kube-scheduler-nominate"

    def waits(self, pod: Body, objects: Objects) -> bool:
        """Gated by us alone, for any scheduler: the gate asked for this."""
        return is_gated_by_us_alone(pod)

    def is_decided(self, pod: Body, objects: Objects) -> bool:
        return False

    def opened(self, pod: Body) -> Body:
        return without_gate(pod)

    def may_use(self, node: Body) -> bool:
        return True

    def act(self, advice: Advice, objects: Objects) -> Progress:
        """Pins and lets go every pod that is still gated; gated ones are all in place, so that
        the gang is never let go in part for want of a plan."""
        list(self._executor.map(lambda one: self._let_go(one, objects), advice.bindings))
        return Progress.DONE

    def _let_go(self, binding: Binding, objects: Objects) -> None:
        pod = objects.pods.get(binding.pod)
        if pod is None or GATE not in gates(pod):
            return
        if self._mode == "pin":
            affinity = pinned(pod["spec"].get("affinity") or {}, binding.node)
            ungate(self._cluster, binding.pod, binding.uid, spec={"affinity": affinity})
        else:
            self._nominate(binding.pod, binding.uid, binding.node)
            ungate(self._cluster, binding.pod, binding.uid)

    def undo(self, advice: Advice, objects: Objects) -> None:
        """Nothing: what is still gated was not touched, and the rest is the scheduler's."""

    def release(self, pods: Collection[Key], objects: Objects) -> None:
        for key in pods:
            if (pod := objects.pods.get(key)) is not None and GATE in gates(pod):
                ungate(self._cluster, key, pod["metadata"].get("uid", ""))

    def _nominate(self, key: Key, uid: str, node: str) -> None:
        namespace, name = key
        patch = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}}
        try:
            self._cluster.request(
                "PATCH",
                PODS.path_of(name, namespace, part="status"),
                body=patch,
                content_type=STRATEGIC_MERGE_PATCH,
            )
        except ApiError as error:
            if error.status not in (404, 409):
                raise


def pinned(affinity: Mapping[str, Any], node: str) -> dict[str, Any]:
    """An affinity that allows one node only, as a strategic merge patch.

    Terms are alternatives, so each of them gets the requirement, after those that it has: the
    API server takes additions at the end, and no others. A pin that is there already stays.
    """
    pin = {"key": _NODE_NAME, "operator": "In", "values": [node]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    before = ((affinity.get("nodeAffinity") or {}).get(required) or {}).get("nodeSelectorTerms")
    terms = []
    for term in before or [{}]:
        fields = term.get("matchFields") or []
        # A term without any requirement matches nothing, and must stay so.
        is_empty = bool(before) and not fields and not term.get("matchExpressions")
        kept = fields if is_empty or pin in fields else [*fields, pin]
        terms.append({**term, **({"matchFields": kept} if kept else {})})
    return {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}}
