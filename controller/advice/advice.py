"""Advice for one gang, and how it is written on the gang's pods.

The annotation on each pod is the only memory: it says which gang, how many pods, where this
one should go, and until when. A reader that finds fewer pods than it says knows that the advice was
never whole.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from controller.binding.apply import Binding
from controller.cluster.gang_state import Body, Key, key_of
from placement.advice_marks import ADVICE
from placement.kubernetes.nodes.device_annotations import ALLOCATED
from placement.kubernetes.pods.pods import KAI_GROUP


class End(StrEnum):
    """How advice ended."""

    FOLLOWED = "followed"
    OVERRULED = "overruled"
    """The scheduler put a pod elsewhere."""
    EXPIRED = "expired"
    """The scheduler did nothing with it in time."""
    CONFLICT = "conflict"
    """The cluster had changed, or another one wrote first; nothing is left of it."""
    LATE = "late"
    """No advice came in time, or the scheduler was faster: it decides alone."""


_ID: Final = re.compile("[0-9a-f]{16}")


class Mark(NamedTuple):
    """What distinguishes one piece of advice from all others: another namespace may copy its id."""

    namespace: str
    id: str


@dataclass(frozen=True, slots=True)
class Advice:
    """Where the pods of a gang should go. `until` is in seconds since the epoch; `by` names
    the adapter; `seen` says what the nodes were when it was written, see `room.fingerprint`."""

    id: str
    gang: Key
    by: str
    bindings: tuple[Binding, ...]
    until: float
    size: int
    seen: Mapping[str, str] = field(default_factory=dict)

    @property
    def mark(self) -> Mark:
        return Mark(self.gang[0], self.id)

    @property
    def is_whole(self) -> bool:
        """Whether it is written on every pod that it is for."""
        return len(self.bindings) == self.size

    @property
    def nodes(self) -> Mapping[Key, str]:
        """The node of each pod."""
        return {binding.pod: binding.node for binding in self.bindings}

    def annotation(self, binding: Binding) -> str:
        """What is written on one pod."""
        return json.dumps(
            {
                "id": self.id,
                "gang": "/".join(self.gang),
                "by": self.by,
                "size": self.size,
                "node": binding.node,
                "until": round(self.until, 3),
                **({"seen": self.seen[binding.node]} if binding.node in self.seen else {}),
                **({"notes": dict(binding.notes)} if binding.notes else {}),
            }
        )


def read_advice(pods: Mapping[Key, Body]) -> dict[Mark, Advice]:
    """All advice that is written on pods. Anybody may annotate their own pods: what cannot be read
    is not advice.
    """
    found: dict[Mark, Advice] = {}
    for pod in pods.values():
        text = (pod["metadata"].get("annotations") or {}).get(ADVICE)
        if text is None:
            continue
        try:
            said = json.loads(text)
            namespace, _, name = str(said["gang"]).partition("/")
            key = key_of(pod)
            notes = dict(said.get("notes") or {})
            devices = tuple((k, str(v)) for k, v in notes.items() if k in (ALLOCATED, KAI_GROUP))
            binding = Binding(key, pod["metadata"].get("uid", ""), str(said["node"]), devices)
            one = Advice(
                str(said["id"]),
                (namespace, name),
                str(said["by"]),
                (binding,),
                float(said["until"]),
                int(said["size"]),
                {binding.node: str(said["seen"])} if "seen" in said else {},
            )
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            continue
        if namespace != key[0] or not (_ID.fullmatch(one.id) and math.isfinite(one.until)):
            # Advice is for pods of the gang's own namespace.
            continue
        if (before := found.get(one.mark)) is not None:
            one = Advice(
                one.id,
                before.gang,
                before.by,
                (*before.bindings, binding),
                before.until,
                before.size,
                {**before.seen, **one.seen},
            )
        found[one.mark] = one
    return found
