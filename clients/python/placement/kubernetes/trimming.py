"""What a program that holds a whole cluster in memory keeps of each object.

A Pod as the API server writes it takes some 30 KB as Python dictionaries, of which
translation reads a fiftieth, and most pods are alike. `Trimmer` keeps what `translate`
reads and the status that a controller needs, and stores equal parts once.
Translating trimmed objects gives what translating whole ones gives.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Mapping
from typing import Any, Final

from placement import advice_marks
from placement.kubernetes import gang_messages, objects
from placement.kubernetes.kai.gangs import POD_GROUP as KAI_POD_GROUP
from placement.kubernetes.koordinator import gangs as koordinator
from placement.kubernetes.koordinator import reservations
from placement.kubernetes.kueue import quota_use
from placement.kubernetes.nodes import device_annotations
from placement.kubernetes.pods import needs
from placement.kubernetes.pods.podspec import relevant
from placement.kubernetes.volcano import gangs as volcano

Body = dict[str, Any]

#: So many parts are remembered. Then sharing starts anew, so that old parts are freed.
_MOST_PARTS: Final = 20_000

_POD_METADATA: Final = ("namespace", "name", "uid", "creationTimestamp", "deletionTimestamp")
_POD_SPEC: Final = (
    "schedulingGates", "schedulerName", "priority", "priorityClassName", "preemptionPolicy",
    "schedulingGroup", "workloadRef",
)  # fmt: skip
#: Annotations that translation reads, of pods and of gangs.
_POD_ANNOTATIONS: Final = (
    *needs.ANNOTATIONS,
    *koordinator.ANNOTATIONS,
    *volcano.ANNOTATIONS,
    KAI_POD_GROUP,
    device_annotations.ALLOCATED,
    reservations.USED,
    quota_use.WORKLOAD,
    *advice_marks.PLAIN_GANG,
)
_GANG_ANNOTATIONS: Final = (gang_messages.LAST_START,)
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_POD_CONDITIONS: Final = ("PodScheduled", "Ready")


class Trimmer:
    """Trims objects of the kinds that are read; shares what is equal among them.

    `annotations` of pods are kept besides those that translation reads.
    """

    def __init__(self, *, annotations: tuple[str, ...] = ()) -> None:
        self._parts: dict[bytes, Any] = {}
        self._pod_annotations = (*_POD_ANNOTATIONS, *annotations)

    def trim(self, body: Mapping[str, Any]) -> Body:
        """The object without what nobody reads. An object of another kind stays as it is, but for
        who wrote which field."""
        match body.get("kind"):
            case objects.POD:
                return self._pod(body)
            case objects.NODE:
                return self._node(body)
            case objects.POD_GANG:
                return self._gang(body)
            case objects.PRIORITY_CLASS:
                return self._priority_class(body)
            case objects.CLUSTER_TOPOLOGY_BINDING:
                return self._topology_binding(body)
        copy: Body = self._with_shared_leaves({**body, "metadata": without_marks(body)})
        return copy

    def _pod(self, body: Mapping[str, Any]) -> Body:
        metadata, spec = _mapping(body, "metadata"), _mapping(body, "spec")
        status = _mapping(body, "status")
        kept = self._some(metadata, _POD_METADATA)
        if metadata.get("labels"):
            kept["labels"] = self._shared(metadata["labels"])
        if read := _annotations(metadata, self._pod_annotations):
            kept["annotations"] = self._shared(read)
        if owners := _controllers(metadata):
            kept["ownerReferences"] = self._shared(owners)
        facts = {**relevant(spec), **{f: spec[f] for f in _POD_SPEC if f in spec}}
        wanted: Body = self._shared(facts)
        if spec.get("nodeName"):
            # The only part that differs between the pods of a group.
            wanted = {**wanted, "nodeName": _interned(spec["nodeName"])}
        return {
            "kind": objects.POD,
            "apiVersion": _interned(body.get("apiVersion")),
            "metadata": kept,
            "spec": wanted,
            "status": self._status(status),
        }

    def _status(self, status: Mapping[str, Any]) -> Body:
        kept: Body = self._shared(
            {
                "phase": status.get("phase"),
                "conditions": _conditions(status, _POD_CONDITIONS),
            }
        )
        own = {f: status[f] for f in ("startTime", "resourceClaimStatuses") if status.get(f)}
        return {**kept, **own} if own else kept

    def _node(self, body: Mapping[str, Any]) -> Body:
        metadata, spec = _mapping(body, "metadata"), _mapping(body, "spec")
        status = _mapping(body, "status")
        amounts = "allocatable" if status.get("allocatable") is not None else "capacity"
        return {
            "kind": objects.NODE,
            "apiVersion": _interned(body.get("apiVersion")),
            "metadata": {
                **self._some(metadata, ("name", "uid")),
                "labels": _strings(metadata.get("labels")),
            },
            "spec": self._shared({f: spec[f] for f in ("taints", "unschedulable") if f in spec}),
            "status": {
                amounts: self._shared(status.get(amounts)),
                "conditions": self._shared(_conditions(status, ("Ready",))),
            },
        }

    def _gang(self, body: Mapping[str, Any]) -> Body:
        whole = _mapping(body, "metadata")
        metadata = self._some(whole, (*_POD_METADATA, "resourceVersion", "generation", "labels"))
        if "labels" in metadata:
            metadata["labels"] = _strings(metadata["labels"])
        if read := _annotations(whole, _GANG_ANNOTATIONS):
            metadata["annotations"] = read
        return {**_without_metadata(body), "metadata": metadata}

    def _priority_class(self, body: Mapping[str, Any]) -> Body:
        kept = {
            f: body[f]
            for f in ("kind", "apiVersion", "value", "globalDefault", "preemptionPolicy")
            if f in body
        }
        return {**kept, "metadata": self._some(_mapping(body, "metadata"), ("name", "uid"))}

    def _topology_binding(self, body: Mapping[str, Any]) -> Body:
        metadata = self._some(_mapping(body, "metadata"), ("name", "uid"))
        return {**_without_metadata(body), "metadata": metadata}

    def _some(self, metadata: Mapping[str, Any], fields: tuple[str, ...]) -> Body:
        kept = {field: metadata[field] for field in fields if field in metadata}
        if "namespace" in kept:
            kept["namespace"] = _interned(kept["namespace"])
        return kept

    def _with_shared_leaves(self, value: Any) -> Any:
        """A copy in which equal texts, and equal parts without parts, are stored once."""
        if isinstance(value, list):
            return [self._with_shared_leaves(one) for one in value]
        if not isinstance(value, dict):
            return _interned(value)
        copy = {_interned(key): self._with_shared_leaves(one) for key, one in value.items()}
        is_leaf = not any(isinstance(one, dict | list) for one in copy.values())
        return self._shared(copy) if is_leaf else copy

    def _shared(self, part: Any) -> Any:
        """The part itself, or the first one that was equal to it."""
        try:
            # Version 2 has no references to equal objects, so that equal parts give
            # equal bytes.
            key = marshal.dumps(part, 2)
        except ValueError:
            return part
        if len(self._parts) >= _MOST_PARTS:
            self._parts.clear()
        return self._parts.setdefault(key, part)


def without_marks(body: Mapping[str, Any]) -> Body:
    """The metadata of an object without what was written there by whom, which is most of it."""
    metadata = {k: v for k, v in _mapping(body, "metadata").items() if k != "managedFields"}
    if _LAST_APPLIED in (told := _mapping(metadata, "annotations")):
        metadata["annotations"] = {k: v for k, v in told.items() if k != _LAST_APPLIED}
    return metadata


def _mapping(body: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = body.get(field)
    return value if isinstance(value, dict) else {}


def _annotations(metadata: Mapping[str, Any], names: tuple[str, ...]) -> Body:
    """Those that are read, where an object has them."""
    told = _mapping(metadata, "annotations")
    return {name: told[name] for name in names if name in told}


def _controllers(metadata: Mapping[str, Any]) -> list[Body]:
    """The controllers of an object: owners of reservations may name them."""
    owners = metadata.get("ownerReferences")
    return [
        {f: owner[f] for f in ("kind", "name", "uid", "controller") if f in owner}
        for owner in (owners if isinstance(owners, list) else ())
        if isinstance(owner, dict) and owner.get("controller")
    ]


def _without_metadata(body: Mapping[str, Any]) -> Body:
    return {key: value for key, value in body.items() if key != "metadata"}


def _conditions(status: Mapping[str, Any], types: tuple[str, ...]) -> list[Body]:
    conditions = status.get("conditions")
    return [
        {f: c[f] for f in ("type", "status", "reason", "message") if f in c and c[f] is not None}
        for c in (conditions if isinstance(conditions, list) else ())
        if isinstance(c, dict) and c.get("type") in types
    ]


def _strings(labels: Any) -> Any:
    if not isinstance(labels, dict):
        return labels
    return {_interned(key): _interned(value) for key, value in labels.items()}


def _interned(text: Any) -> Any:
    return sys.intern(text) if isinstance(text, str) else text
