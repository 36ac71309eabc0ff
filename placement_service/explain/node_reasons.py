"""Which rule closes which node to a pod, in words, the first that does.

The engine folds these rules into one mask; people want to know which it was.
Only rules that look at one node and one pod: readiness, what nobody can count, cordon, taints, node
selector and node affinity. Room and other pods are not looked at.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from placement_service.entities.request import HOSTNAME, Effect, Node, PodTemplate, Snapshot
from placement_service.formulation.arrays import Bools, Ints


class NodeRules:
    """Judges nodes that no template can tell apart only once."""

    def __init__(self, snapshot: Snapshot) -> None:
        keys: set[str] = set()
        by_name = False
        for t in (s.template for gang in snapshot.gangs for g in gang.groups for s in g.pod_sets):
            keys.update(k for k, _ in t.node_selector)
            for term in t.required_node_affinity or ():
                keys.update(e.key for e in term.match_expressions)
                by_name = by_name or bool(term.match_fields)
        nodes = snapshot.columns
        ordered = sorted(keys)
        # Nodes that differ in nothing that is asked for are of one kind.
        numbers: dict[object, int] = {}
        seen = [
            numbers.setdefault(tuple(labels.get(k) for k in ordered), len(numbers))
            for labels in nodes.labels.kinds
        ]
        kind = np.array(seen, dtype=np.int64)[nodes.labels.number]
        kind = kind * max(1, len(nodes.taints.kinds)) + nodes.taints.number
        kind = (kind * 2 + nodes.ready) * 2 + nodes.unschedulable
        unknown = nodes.parts.numbers(lambda parts: bool(parts.closed_because))
        if unknown.any():
            # Hardly two of them are closed for the same reason.
            kind = np.where(unknown > 0, kind.max() + 1 + np.arange(len(nodes)), kind)
        if by_name or HOSTNAME in keys:
            kind = np.arange(len(nodes), dtype=np.int64)
        _, first, inverse = np.unique(kind, return_index=True, return_inverse=True)
        self._kind: Ints = inverse
        self._samples = [nodes[i] for i in first.tolist()]
        self._verdicts: dict[PodTemplate, tuple[str, ...]] = {}

    def open(self, template: PodTemplate) -> Bools:
        """Nodes that no rule closes to the template [N]."""
        verdicts = self._of(template)
        return np.array([not v for v in verdicts], dtype=bool)[self._kind]

    def counts(self, template: PodTemplate, nodes: Bools) -> tuple[tuple[str, int], ...]:
        """How many of some nodes each rule closes, most first; each node counts once."""
        verdicts = self._of(template)
        per_kind = np.bincount(self._kind[nodes], minlength=len(self._samples))
        found: Counter[str] = Counter()
        unknown: Counter[str] = Counter()
        for node, verdict, count in zip(self._samples, verdicts, per_kind.tolist(), strict=True):
            if verdict and count:
                (unknown if node.ready and node.closed_because else found)[verdict] += count
        if unknown:
            # One of them says what it is about; all of them would be too long.
            more = ", and others likewise" if len(unknown) > 1 else ""
            found[min(unknown) + more] += sum(unknown.values())
        return tuple(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def _of(self, template: PodTemplate) -> tuple[str, ...]:
        if template not in self._verdicts:
            self._verdicts[template] = tuple(closed_by(n, template) for n in self._samples)
        return self._verdicts[template]


def closed_by(node: Node, template: PodTemplate) -> str:
    """The first rule that closes a node to a pod, in words; empty for none."""
    if not node.ready:
        return "not ready"
    if node.closed_because:
        return f"closed, because {node.closed_because}"
    if node.unschedulable:
        return "cordoned"
    for taint in node.taints:
        tolerated = any(t.tolerates(taint) for t in template.tolerations)
        if taint.effect is not Effect.PREFER_NO_SCHEDULE and not tolerated:
            return f"taint {taint.key}={taint.value}" if taint.value else f"taint {taint.key}"
    for key, value in template.node_selector:
        if node.labels.get(key) != value:
            return f"node selector {key}={value}"
    return "" if template.selects(node) else "node affinity"
