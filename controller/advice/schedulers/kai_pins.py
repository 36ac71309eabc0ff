"""KAI alone binds: gated pods get a node selector and are released.

KAI keeps quotas, fairness and gangs to itself, and commits a gang whole. The pin lasts for the
pod's life. KAI looks for a domain of a required level before it looks at pins: it may choose a
domain that is too small, and reject a gang that would fit at its pins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.advice.objects import Objects
from controller.advice.schedulers.gated_pods import PatchedPods
from controller.advice.schedulers.kai import SCHEDULER
from controller.cluster.gang_state import Body
from placement.kubernetes.nodes.label_paths import HOSTNAME
from placement.resources import NODES


class KaiPins(PatchedPods):
    """See `adapter.Adapter`."""

    scheduler = SCHEDULER

    @property
    def name(self) -> str:
        return "kai-pins"

    def _changes(self, pod: Body, node: str, objects: Objects) -> Mapping[str, Any]:
        labels = objects.of(NODES).get(("", node), {}).get("metadata", {}).get("labels") or {}
        return {"nodeSelector": {HOSTNAME: labels.get(HOSTNAME, node)}}
