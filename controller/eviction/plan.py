"""What an answer wants evicted, and for whom."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.binding.apply import Binding, GangPlan
from controller.cluster.gang_state import Key, key_of_resource, node_of
from controller.cluster.view import ClusterView
from placement import v1


@dataclass(frozen=True, slots=True)
class Victim:
    """A running pod that gives way; `uid` distinguishes it from a later one of its name."""

    pod: Key
    uid: str
    node: str

    def __str__(self) -> str:
        return f"{self.pod[1]} on {self.node}"


@dataclass(frozen=True, slots=True)
class EvictionPlan:
    """The pods that give way to a gang, and where the gang's pods go afterwards.

    `until` is when it is given up, in seconds since the epoch: another controller may have to
    continue it.
    """

    gang: Key
    uid: str
    victims: tuple[Victim, ...]
    bindings: tuple[Binding, ...]
    until: float

    def to_text(self) -> str:
        """The plan as it is kept in the journal."""
        return json.dumps(
            {
                "gang": self.gang,
                "uid": self.uid,
                "until": self.until,
                "victims": [[*victim.pod, victim.uid, victim.node] for victim in self.victims],
                "bindings": [[*one.pod, one.uid, one.node] for one in self.bindings],
            },
            separators=(",", ":"),
        )

    @classmethod
    def of_text(cls, text: str) -> EvictionPlan:
        """The plan that `to_text` wrote. Raises ValueError for anything else."""
        try:
            found: Mapping[str, Any] = json.loads(text)
            namespace, name = found["gang"]
            return cls(
                (namespace, name),
                found["uid"],
                tuple(Victim((a, b), uid, node) for a, b, uid, node in found["victims"]),
                tuple(Binding((a, b), uid, node) for a, b, uid, node in found["bindings"]),
                float(found["until"]),
            )
        except (TypeError, KeyError) as error:
            raise ValueError(f"not an eviction plan: {error}") from error


def eviction_plans(
    placement: v1.Placement, plans: Iterable[GangPlan], view: ClusterView, *, until: float
) -> tuple[EvictionPlan, ...]:
    """The plans of an answer that need evictions, in the order of `plans`."""
    victims: dict[Key, list[Victim]] = {}
    for eviction in placement.evictions:
        key = key_of_resource(eviction.pod)
        if (pod := view.pods.get(key)) is not None:
            victims.setdefault(key_of_resource(eviction.for_gang), []).append(
                Victim(key, pod["metadata"].get("uid", ""), node_of(pod))
            )
    return tuple(
        EvictionPlan(
            plan.gang,
            view.states[plan.gang].uid,
            tuple(victims[plan.gang]),
            plan.bindings,
            until,
        )
        for plan in plans
        if plan.gang in victims
    )
