"""A quick look at the nodes: what cannot fit by resources alone, whatever else happens."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from placement.planning.levels import label
from placement.v1 import ComputePlacementRequest, Node, PodGang, PodTemplate, Resources


class Room:
    """How many pods of each group of a gang the nodes could hold, by resources alone.

    A bound: rules between pods, shares of devices and other gangs that wait are left out.
    """

    def __init__(self, request: ComputePlacementRequest, gang: PodGang) -> None:
        self._nodes = {
            node.name: node
            for node in request.snapshot.nodes
            if not node.unschedulable and not node.not_ready
        }
        self._held = {
            pod.name: (pod.node, pod_set.template.requests)
            for other in request.gangs
            for group in other.groups
            for pod_set in group.pod_sets
            for pod in pod_set.bound_pods
        }
        # Of several templates in a group one alone says nothing about the group.
        self._templates = {
            group.name: group.pod_sets[0].template
            for group in gang.groups
            if len(group.pod_sets) == 1
        }
        self._need = {
            group.name: group.min_replicas
            - len(group.bound_pods)
            - sum(len(pod_set.bound_pods) for pod_set in group.pod_sets)
            for group in gang.groups
        }
        self._required = [
            (scope.required_level, tuple(scope.groups) or tuple(self._need))
            for scope in gang.packing_scopes
            if scope.required_level
        ]
        self._slots = {
            (group, node.name): _slots(template, node, node.requested)
            for group, template in self._templates.items()
            for node in self._nodes.values()
        }

    def may_suffice(self, leaving: Iterable[str]) -> bool:
        """False when the room is too small even without these pods, whatever else happens."""
        freed: dict[str, list[Resources]] = defaultdict(list)
        for pod in leaving:
            node, requests = self._held[pod]
            if node in self._nodes:
                freed[node].append(requests)
        gained: dict[str, dict[str, int]] = {}
        for name, template in self._templates.items():
            gained[name] = {
                node: _slots(template, self._nodes[node], self._nodes[node].requested, amounts)
                for node, amounts in freed.items()
            }
        slots = {
            name: {node: gained[name].get(node, self._slots[name, node]) for node in self._nodes}
            for name in self._templates
        }
        if any(sum(slots[name].values()) < self._need[name] for name in slots):
            return False
        return all(self._fits_one(level, groups, slots) for level, groups in self._required)

    def least_added(self, model: Node, most: int) -> int | None:
        """The least number of further nodes like `model` that counting lets suffice."""
        slots = {
            name: {node: self._slots[name, node] for node in self._nodes}
            for name in self._templates
        }
        each = {
            name: _slots(template, model, Resources()) for name, template in self._templates.items()
        }
        totals = {level: self._totals(level, groups, slots) for level, groups in self._required}
        count = 0
        for name, need in self._need.items():
            if name in slots:
                short = need - sum(slots[name].values())
                count = max(count, _steps(short, each[name]))
        for level, groups in self._required:
            there = totals[level]
            own = label(model, level)
            if any(self._is_met(total, groups) for total in there.values()):
                continue
            if own is None:
                return None
            total = there.get(own, Counter())
            for name in groups:
                if name in slots:
                    count = max(count, _steps(self._need[name] - total[name], each[name]))
        count = max(count, 1)
        return count if count <= most else None

    def _is_met(self, total: Counter[str], groups: Sequence[str]) -> bool:
        return all(total[name] >= self._need[name] for name in groups if name in self._templates)

    def _totals(
        self, level: str, groups: Sequence[str], slots: Mapping[str, Mapping[str, int]]
    ) -> dict[str, Counter[str]]:
        """Room for the pods of each group, by domain."""
        totals: dict[str, Counter[str]] = defaultdict(Counter)
        for name in groups:
            for node, count in slots.get(name, {}).items():
                value = label(self._nodes[node], level)
                if value is not None:
                    totals[value][name] += count
        return totals

    def _fits_one(
        self, level: str, groups: Sequence[str], slots: Mapping[str, Mapping[str, int]]
    ) -> bool:
        """Whether some domain of the level has room for each group by itself."""
        if not any(name in slots for name in groups):
            return True
        totals = self._totals(level, groups, slots)
        return any(self._is_met(total, groups) for total in totals.values())


def _slots(
    template: PodTemplate, node: Node, used: Resources, freed: Sequence[Resources] = ()
) -> int:
    """How many such pods the node's resources hold; shares of devices take nothing here."""
    ask, there = template.requests, node.allocatable
    result = 1_000_000
    for field in ("cpu_millis", "memory_bytes"):
        amount = getattr(ask, field)
        if amount:
            free = getattr(there, field) - getattr(used, field)
            free += sum(getattr(one, field) for one in freed)
            result = min(result, max(0, free) // amount)
    for name, amount in ask.extended.items():
        if amount:
            free = there.extended.get(name, 0) - used.extended.get(name, 0)
            free += sum(one.extended.get(name, 0) for one in freed)
            result = min(result, max(0, free) // amount)
    return result


def _steps(short: int, each: int) -> int:
    """How many nodes with room for `each` pods make up for so many."""
    if short <= 0:
        return 0
    return -(-short // each) if each else 10**9
