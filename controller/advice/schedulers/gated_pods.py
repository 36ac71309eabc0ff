"""Pods behind our scheduling gate, `placement-service/advice`: the gate is the request for advice.

How their scheduler is told where they should go differs: see the adapters that build on this.
`PatchedPods` are told by one patch, which also releases them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from concurrent.futures import Executor
from typing import Any, Final

from controller.advice.adapter import Progress
from controller.advice.advice import Advice, Mark
from controller.advice.objects import Objects
from controller.advice.pod_patches import (
    gates,
    is_any_let_go,
    is_gated_by_us_alone,
    ungate,
    ungate_all,
    without_gate,
)
from controller.binding.apply import Binding
from controller.cluster.gang_state import Body, Key
from placement.advice_marks import GATE
from placement.cluster import ApiError, Cluster

#: Statuses of an API server that may take the same request later; 0: no answer came.
_NOT_NOW: Final = (0, 408, 429)
_NODE_NAME: Final = "metadata.name"


class GatedPods(ABC):
    """What is alike for all of them, see `adapter.Adapter`. `scheduler` is whose pods these are;
    empty means any scheduler's. Nothing holds their room, and no objects are made for them, unless
    an adapter says so.
    """

    scheduler = ""

    def __init__(self, cluster: Cluster, executor: Executor) -> None:
        self._cluster = cluster
        self._executor = executor

    @property
    @abstractmethod
    def name(self) -> str:
        """As the settings call it."""

    def waits(self, pod: Body, objects: Objects) -> bool:
        """Pods that only our gate holds."""
        mine = not self.scheduler or pod["spec"].get("schedulerName") == self.scheduler
        return mine and is_gated_by_us_alone(pod)

    def cannot_advise(self, pod: Body, objects: Objects) -> bool:
        """Never: what our gate alone holds can be advised."""
        return False

    def is_decided(self, pod: Body, objects: Objects) -> bool:
        return False

    def opened(self, pod: Body) -> Body:
        return without_gate(pod)

    def may_use(self, node: Body) -> bool:
        return True

    def prepare(self, advice: Advice, objects: Objects) -> Progress:
        return Progress.DONE

    def finish(self, advice: Advice, objects: Objects) -> None:
        """Does nothing: a pod that is bound has no gates."""
        return

    def left(self, objects: Objects) -> Collection[Mark]:
        return ()

    def sweep(self, mark: Mark) -> None:
        return

    def release(self, pods: Collection[Key], objects: Objects) -> None:
        ungate_all(self._cluster, (objects.pods[key] for key in pods if key in objects.pods))


class PatchedPods(GatedPods):
    """One patch says where a pod should go, and releases it."""

    @abstractmethod
    def _changes(self, pod: Body, node: str, objects: Objects) -> Mapping[str, Any]:
        """The part of a pod's spec that says where to go, as a strategic merge patch."""

    def is_committed(self, advice: Advice, objects: Objects) -> bool:
        return is_any_let_go(advice, objects)

    def act(self, advice: Advice, objects: Objects) -> Progress:
        """Releases every pod that is still gated. All have their advice, so no gang is released in
        part because a plan is missing.
        """
        list(self._executor.map(lambda one: self._let_go(one, objects), advice.bindings))
        return Progress.DONE

    def _let_go(self, binding: Binding, objects: Objects) -> None:
        pod = objects.pods.get(binding.pod)
        if pod is not None and GATE in gates(pod):
            changes = self._changes(pod, binding.node, objects)
            ungate(self._cluster, binding.pod, binding.uid, spec=changes)

    def undo(self, advice: Advice, objects: Objects) -> None:
        """Does nothing: what is still gated was not touched, and the rest is the scheduler's."""
        return

    def complete(self, rest: Collection[Binding], objects: Objects) -> None:
        """The other pods cannot be called back, so these follow them, where that is allowed."""
        refused = []
        for binding in rest:
            try:
                self._let_go(binding, objects)
            except ApiError as error:
                if error.status in _NOT_NOW or error.status >= 500:
                    raise
                refused.append(objects.pods[binding.pod])
        ungate_all(self._cluster, refused)


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
