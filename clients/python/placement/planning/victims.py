"""Who may be evicted for a gang: lower priority, preemptible, not protected; whole or extras.

Also a quick look at the nodes, which tells of most sets of victims that they cannot be
enough, before the service is asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from placement.planning.changes import bound_pods
from placement.v1 import (
    ComputePlacementRequest,
    DisruptionBudget,
    LabelSelector,
    PodGang,
    SelectorOperator,
)


@dataclass(frozen=True, slots=True)
class Victim:
    """A gang that may go whole, with all that is based on it, or one of its extras.

    `pods` leave. `extra_of` is the gang and group that an extra is of; None for a whole gang.
    Victims of equal `likeness` are alike.
    """

    gangs: tuple[str, ...]
    pods: frozenset[str]
    likeness: tuple[object, ...]
    extra_of: tuple[str, str] | None = None


def victims(request: ComputePlacementRequest, gang: PodGang) -> list[Victim]:
    """All of them, fewest pods first."""
    followers: dict[str, list[PodGang]] = defaultdict(list)
    for other in request.gangs:
        if other.base_gang and bound_pods(other):
            followers[other.base_gang].append(other)
    found: list[Victim] = []
    for other in request.gangs:
        if other.name == gang.name or not _may_go(other, gang):
            continue
        together = [other, *followers[other.name]]
        if all(_may_go(one, gang) and not is_protected(one, request) for one in together):
            pods = frozenset(pod.name for one in together for pod in bound_pods(one))
            found.append(Victim(tuple(one.name for one in together), pods, (other.name,)))
        found += _extras(other)
    return sorted(found, key=lambda victim: (len(victim.pods), victim.gangs, sorted(victim.pods)))


def _may_go(gang: PodGang, winner: PodGang) -> bool:
    return (
        bool(bound_pods(gang))
        and gang.priority < winner.priority
        and not gang.not_preemptible
        and not any(group.bound_pods for group in gang.groups)
    )


def is_protected(gang: PodGang, request: ComputePlacementRequest) -> bool:
    """Whether its minimum run time is not over yet."""
    least = gang.minimum_run_time.ToNanoseconds()
    if not least:
        return False
    if not (gang.HasField("start_time") and request.snapshot.HasField("as_of")):
        return True
    ran = request.snapshot.as_of.ToNanoseconds() - gang.start_time.ToNanoseconds()
    return ran < least


def _extras(gang: PodGang) -> Iterator[Victim]:
    for group in gang.groups:
        running = sum(len(pod_set.bound_pods) for pod_set in group.pod_sets)
        if running <= group.min_replicas:
            continue
        for index, pod_set in enumerate(group.pod_sets):
            for pod in pod_set.bound_pods:
                likeness = (gang.name, group.name, index, pod.node)
                pods = frozenset([pod.name])
                yield Victim((gang.name,), pods, likeness, (gang.name, group.name))


class Budgets:
    """Disruption budgets: how many of which pods may go."""

    def __init__(self, request: ComputePlacementRequest) -> None:
        self._budgets = [
            (budget.allowed, self._covered(request, budget))
            for budget in request.snapshot.disruption_budgets
        ]

    def allow(self, pods: Collection[str]) -> bool:
        """Whether all of these pods may go together."""
        return all(len(covered.intersection(pods)) <= most for most, covered in self._budgets)

    @staticmethod
    def _covered(request: ComputePlacementRequest, budget: DisruptionBudget) -> frozenset[str]:
        namespace = budget.name.split("/")[1]
        return frozenset(
            pod.name
            for gang in request.gangs
            if gang.name.split("/")[1] == namespace
            for group in gang.groups
            for pod_set in group.pod_sets
            if matches(budget.selector, pod_set.template.labels)
            for pod in pod_set.bound_pods
        )


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether a label selector of the API matches; an empty one matches everything."""
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    for part in selector.match_expressions:
        value = labels.get(part.key)
        ok = {
            SelectorOperator.SELECTOR_OPERATOR_IN: value in part.values,
            SelectorOperator.SELECTOR_OPERATOR_NOT_IN: value not in part.values,
            SelectorOperator.SELECTOR_OPERATOR_EXISTS: value is not None,
            SelectorOperator.SELECTOR_OPERATOR_DOES_NOT_EXIST: value is None,
        }[part.operator]
        if not ok:
            return False
    return True
