"""Volcano's Queues: `capability` is the limit, and what a queue deserves is guaranteed.

It deserves no less than what is reserved for it (`guarantee`).
Weights are not read: a weight alone does not say how much a queue may have. In older clusters
no queue names the root as its parent. Gangs that name no queue are in the one called default. A
queue that is not open takes no new pods, and nothing is reclaimed from one that is not reclaimable.
Where it says on which groups of nodes its pods run, they run there (`node_groups`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Diagnostics
from placement.kubernetes.queues import Queue, with_gpus
from placement.kubernetes.values.reading import At, Findings
from placement.kubernetes.volcano.node_groups import NodeGroups, groups_of, inherited, kept_to

_ROOT: Final = "root"
_DEFAULT: Final = "default"
#: New queues have no state for a moment.
_OPEN: Final = ("", "Open")


@dataclass(frozen=True, slots=True)
class VolcanoQueues:
    """All queues in input order, the state of those that are not open, and the node groups of those
    that have any.
    """

    queues: Sequence[Queue] = ()
    shut: Mapping[str, str] = field(default_factory=dict)
    node_groups: NodeGroups = field(default_factory=dict)

    def home(self, named: str) -> tuple[str, tuple[str, ...]]:
        """The queue of a gang that names one or none, and what stands against new pods there."""
        name = named or next((q.name for q in self.queues if q.name == _DEFAULT), "")
        refused = []
        if name in self.shut:
            refused.append(f"Queue {name}: status.state {self.shut[name]}")
        if not self.node_groups.get(name, True):
            refused.append(f"Queue {name}: spec.affinity, which leaves no group of nodes")
        return name, tuple(refused)

    def template(self, queue: str, pod: Mapping[str, Any]) -> Mapping[str, Any]:
        """A pod of a queue, or its template, as it may run there."""
        groups = self.node_groups.get(queue)
        return kept_to(groups, pod) if groups else pod


def read_volcano_queues(objects: Sequence[Object], diagnostics: Diagnostics) -> VolcanoQueues:
    """What all queues say."""
    names = {one.name for one in objects}
    queues = []
    shut = {}
    groups = {}
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
            diagnostics.warnings.append(one.problem("spec.guarantee.resource", text))
        reclaimable = spec.get("reclaimable")
        if (mine := groups_of(spec)) is not None:
            groups[one.name] = mine
        parent = spec.get("parent").text()
        queues.append(
            Queue(
                object=one,
                name=one.name,
                parent="" if parent == _ROOT and _ROOT not in names else parent,
                limit=with_gpus(spec.get("capability").amounts(round_up=False, capped=True)),
                guaranteed=with_gpus(
                    {
                        r: max(deserved.get(r, 0), reserved.get(r, 0))
                        for r in {**deserved, **reserved}
                    }
                ),
                not_reclaimable=not (reclaimable.absent or reclaimable.flag()),
            )
        )
        diagnostics.problems += [one.problem(*finding) for finding in findings]
    parents = {queue.name: queue.parent for queue in queues}
    return VolcanoQueues(queues, shut, inherited(groups, parents))
