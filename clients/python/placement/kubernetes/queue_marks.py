"""How pods of a PodGang that is left out of the input count in queues: as they do in the gang."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final

from placement.kubernetes.gangs import Key
from placement.kubernetes.pods.preemption import LABELS
from placement.kubernetes.queues import QUEUE_LABELS
from placement.kubernetes.values.reading import At

_MARKS: Final = (*QUEUE_LABELS, *LABELS)


def mark_pods(gang: Mapping[str, Any], pods: MutableMapping[Key, Mapping[str, Any]]) -> None:
    """Gives the gang's pods its labels that name a queue and say whether they may give way.

    The gang may be one that cannot be read otherwise. A pod is replaced by a changed copy.
    """
    marks = {name: value for name, value in _labels(gang).items() if name in _MARKS}
    if not marks:
        return
    for key in _members(gang):
        if (pod := pods.get(key)) is not None:
            metadata = {**pod["metadata"], "labels": {**_labels(pod), **marks}}
            pods[key] = {**pod, "metadata": metadata}


def _labels(body: Mapping[str, Any]) -> Mapping[str, str]:
    return At(body, {}).get("metadata").get("labels").labels()


def _members(gang: Mapping[str, Any]) -> Iterator[Key]:
    at = At(gang, {})
    own = at.get("metadata").get("namespace").text()
    for group in at.get("spec").get("podgroups").items():
        for reference in group.get("podReferences").items():
            yield reference.get("namespace").text() or own, reference.get("name").text()
