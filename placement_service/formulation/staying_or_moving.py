"""Running gangs that may be moved: every pod runs after the plan, at home or elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from placement_service.entities.nodes import Nodes
from placement_service.entities.request import (
    BoundPod,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    Snapshot,
)
from placement_service.entities.solution import Assignment
from placement_service.formulation.device_blocks import partitions_count
from placement_service.formulation.device_wants import requires_partition
from placement_service.formulation.open_gangs import MUST_RUN, WAITING, Freed, opened, others
from placement_service.formulation.prepared import GroupOf, Prepared


def open_for_moves(snapshot: Snapshot, chosen: frozenset[int]) -> Prepared:
    """The snapshot with the chosen gangs open: all their pods run, wherever that is."""
    row = snapshot.columns.row_of
    required = requires_partition(snapshot)
    freed = Freed(snapshot.columns)
    gangs: list[PodGang] = []
    homes: list[Assignment] = []
    minimums: dict[GroupOf, int] = {}
    for i, gang in enumerate(snapshot.gangs):
        if i not in chosen:
            gangs.append(gang)
            continue
        groups: list[PodGroup] = []
        waiting: list[PodGroup] = []
        for r, group in enumerate(gang.groups):
            sets: list[PodSet] = []
            for s in _apart(group, snapshot.columns, required=required):
                at_home = Counter(pod.node for pod in s.bound_pods)
                for node, count in at_home.items():
                    homes.append(Assignment(i, r, len(sets), row[node], count))
                freed.add(s.template.requests, (row[pod.node] for pod in s.bound_pods))
                # In the order of the homes, by which the pods are told apart again.
                turn = {node: k for k, node in enumerate(at_home)}
                in_order = sorted(s.bound_pods, key=lambda pod: turn[pod.node])
                sets.append(PodSet(s.template, tuple(Pod(pod.name) for pod in in_order)))
            minimums[GroupOf(i, r)] = group.min_replicas
            groups.append(replace(group, pod_sets=tuple(sets), min_replicas=group.running_count))
            if group.pending_count:
                rest = tuple(replace(s, bound_pods=()) for s in group.pod_sets if s.pods)
                name = group.name + WAITING
                waiting.append(replace(group, name=name, pod_sets=rest, min_replicas=0))
        gangs.append(opened(gang, (*groups, *waiting), MUST_RUN, moves=True))
    return Prepared(
        replace(
            snapshot,
            nodes=freed.nodes(),
            gangs=tuple(gangs),
            running_pods=others(snapshot, chosen),
        ),
        tuple(homes),
        minimums,
    )


def _apart(group: PodGroup, nodes: Nodes, *, required: bool) -> Iterator[PodSet]:
    """The running pods of a group, those alone that are unlike others by their devices.

    `required` says that some pod insists on a partition.
    """
    for s in group.pod_sets:
        alike: list[BoundPod] = []
        for pod in s.bound_pods:
            if pod.devices and (
                s.template.device_share
                or partitions_count(nodes[nodes.row_of[pod.node]], required=required)
            ):
                yield replace(s, bound_pods=(pod,))
            else:
                alike.append(pod)
        if alike:
            yield replace(s, bound_pods=tuple(alike))
