"""Volcano's Queues: `capability` is the limit, and what a queue deserves is guaranteed.

Where `deserved` is absent, what is reserved for the queue (`guarantee`) counts instead.
Weights are not read: a weight alone does not say how much a queue may have. In older clusters
no queue names the root as its parent. Gangs that name no queue are in the one called default. A
queue that is not open takes no new pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Problem
from placement.kubernetes.queues import Queue, with_gpus
from placement.kubernetes.reading import At, Findings

_ROOT: Final = "root"
_DEFAULT: Final = "default"
#: New queues have no state for a moment.
_OPEN: Final = ("", "Open")


@dataclass(frozen=True, slots=True)
class VolcanoQueues:
    """All queues in input order, and the state of those that are not open."""

    queues: Sequence[Queue] = ()
    shut: Mapping[str, str] = field(default_factory=dict)

    def home(self, named: str) -> tuple[str, tuple[str, ...]]:
        """The queue of a gang that names one or none, and what stands against new pods there."""
        name = named or next((q.name for q in self.queues if q.name == _DEFAULT), "")
        return name, (f"Queue {name}: status.state {self.shut[name]}",) if name in self.shut else ()


def read_volcano_queues(
    objects: Sequence[Object], problems: list[Problem], warnings: list[Problem]
) -> VolcanoQueues:
    """What all queues say."""
    names = {one.name for one in objects}
    queues = []
    shut = {}
    for one in objects:
        findings: Findings = {}
        at = At(one.body, findings)
        spec = at.get("spec")
        state = at.get("status").get("state").text()
        if state not in _OPEN:
            shut[one.name] = state
        deserved = spec.get("deserved").amounts(round_up=False, capped=True)
        reserved = spec.get("guarantee").get("resource").amounts(round_up=False, capped=True)
        if any(reserved.values()):
            text = "what is reserved for it is guaranteed, but not kept free"
            warnings.append(one.problem("spec.guarantee.resource", text))
        parent = spec.get("parent").text()
        queues.append(
            Queue(
                object=one,
                name=one.name,
                parent="" if parent == _ROOT and _ROOT not in names else parent,
                limit=with_gpus(spec.get("capability").amounts(round_up=False, capped=True)),
                guaranteed=with_gpus(deserved or reserved),
            )
        )
        problems += [one.problem(*finding) for finding in findings]
    return VolcanoQueues(queues, shut)
