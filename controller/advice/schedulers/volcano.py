"""Volcano: gated pods of its gangs are pinned to a node and released; Volcano binds.

Volcano's own PodGroups, HyperNodes and Queues say which pods belong together, at which tier, and in
which queue. The pin is node affinity by `metadata.name`, as for kube-scheduler: it cannot be taken
back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controller.advice.objects import Objects
from controller.advice.schedulers.gated_pods import PatchedPods, pinned
from controller.cluster.gang_state import Body

SCHEDULER: Final = "volcano"


class Volcano(PatchedPods):
    """See `adapter.Adapter`."""

    scheduler = SCHEDULER

    @property
    def name(self) -> str:
        return "volcano"

    def _changes(self, pod: Body, node: str, objects: Objects) -> Mapping[str, Any]:
        return {"affinity": pinned(pod["spec"].get("affinity") or {}, node)}
