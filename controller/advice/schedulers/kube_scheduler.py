"""kube-scheduler: gated pods are pinned to a node, or get a nominated one, and are released.

Two modes:

- **pin**: the pod gets required node affinity to its node by `metadata.name`, in every term
  that it has, and loses the gate in the same patch. It can then run nowhere else: a pin cannot be
  taken back, and a pinned pod may preempt others on its node.
- **nominate**: the pod's `status.nominatedNodeName` is set, then the gate goes. The scheduler
  tries that node first, once, and is free to choose another.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any, Literal

from controller.advice.objects import Objects
from controller.advice.schedulers.gated_pods import PatchedPods, pinned
from controller.cluster.gang_state import Body
from placement.cluster import STRATEGIC_MERGE_PATCH, ApiError, Cluster
from placement.resources import PODS


class KubeScheduler(PatchedPods):
    """For pods of any scheduler that understands node affinity: the gate asked for it."""

    def __init__(
        self, cluster: Cluster, executor: Executor, *, mode: Literal["pin", "nominate"]
    ) -> None:
        super().__init__(cluster, executor)
        self._mode = mode

    @property
    def name(self) -> str:
        return "kube-scheduler" if self._mode == "pin" else "kube-scheduler-nominate"

    def _changes(self, pod: Body, node: str, objects: Objects) -> Mapping[str, Any]:
        if self._mode == "pin":
            return {"affinity": pinned(pod["spec"].get("affinity") or {}, node)}
        self._nominate(pod, node)
        return {}

    def _nominate(self, pod: Body, node: str) -> None:
        metadata = pod["metadata"]
        patch = {
            "metadata": {"uid": metadata.get("uid", "")},
            "status": {"nominatedNodeName": node},
        }
        try:
            self._cluster.request(
                "PATCH",
                PODS.path_of(metadata["name"], metadata["namespace"], part="status"),
                body=patch,
                content_type=STRATEGIC_MERGE_PATCH,
            )
        except ApiError as error:
            if not error.is_gone:
                raise
