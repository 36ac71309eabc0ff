"""The gang that a pod names, for every kind of gang."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from placement.advice_marks import GANG
from placement.kubernetes.kai import gangs as kai
from placement.kubernetes.koordinator import gangs as koordinator
from placement.kubernetes.volcano import gangs as volcano

_ANNOTATIONS: Final = (kai.POD_GROUP, GANG, volcano.POD_GROUP, koordinator.GANG_NAME)
#: Grove's label of a PodGang's pods, and those of a PodGroup's of coscheduling.
_LABELS: Final = (
    "grove.io/podgang",
    koordinator.POD_GROUP_LABEL,
    koordinator.COSCHEDULING_LABEL,
)


def group_of(pod: Mapping[str, Any]) -> tuple[str, str] | None:
    """Namespace and name of the gang; None where the pod names none."""
    metadata = pod["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    native = (pod.get("spec") or {}).get("schedulingGroup") or {}
    names = (
        *(annotations.get(one) for one in _ANNOTATIONS),
        *(labels.get(one) for one in _LABELS),
        native.get("podGroupName"),
    )
    name = next(filter(None, names), None)
    return (metadata["namespace"], str(name)) if name else None
