"""Koordinator: hints on the pods of a gang.

An annotation names the node of each pod, then the gate goes. Nothing is held.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Final

from controller.advice.adapter import Progress
from controller.advice.advice import Advice
from controller.advice.objects import Objects
from controller.advice.pod_patches import annotate, gates, ungate
from controller.advice.schedulers.gated_pods import GatedPods
from controller.advice.schedulers.koordinator import SCHEDULER
from controller.binding.apply import Binding
from controller.cluster.gang_state import node_of
from placement.advice_marks import GATE
from placement.kubernetes.nodes.device_annotations import ALLOCATED

_HINT: Final = "internal.scheduling.koordinator.sh/scheduling-hint"
_DEVICES: Final = "DeviceShare"


class KoordinatorHints(GatedPods):
    """See `adapter.Adapter`."""

    scheduler = SCHEDULER

    @property
    def name(self) -> str:
        return "koordinator-hints"

    def is_committed(self, advice: Advice, objects: Objects) -> bool:
        """koord-scheduler looks at each pod itself."""
        return True

    def act(self, advice: Advice, objects: Objects) -> Progress:
        for binding in advice.bindings:
            pod = objects.pods.get(binding.pod)
            if pod is not None and GATE in gates(pod):
                # Named devices count only if the hint names the plugin that assigns them.
                extensions: dict[str, Any] = {_DEVICES: {}} if binding.notes else {}
                hint = json.dumps({"preferredNodeNames": [binding.node], "extensions": extensions})
                # A waiting pod gets the devices that are noted on it.
                notes = {_HINT: hint, **dict(binding.notes)}
                ungate(self._cluster, binding.pod, binding.uid, annotations=notes)
        return Progress.DONE

    def undo(self, advice: Advice, objects: Objects) -> None:
        """Takes devices away from pods that still wait: they would be asked of another node. Hints
        stay, for they bind no pod.
        """
        for binding in advice.bindings:
            pod = objects.pods.get(binding.pod)
            if pod is None or node_of(pod):
                continue
            if ALLOCATED in (pod["metadata"].get("annotations") or {}):
                annotate(self._cluster, binding.pod, binding.uid, {ALLOCATED: None})

    def complete(self, rest: Collection[Binding], objects: Objects) -> None:
        self.release([binding.pod for binding in rest], objects)
