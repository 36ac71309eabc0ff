"""Running gangs that may be moved: every pod runs after the plan, at home or elsewhere.

A gang may also move whole and come to its old nodes again, with other devices there. A pod at home
counts as one that stays, so such a gang is in the problem once more, behind the others: all its
pods, and nothing that runs. Only a small problem lets it come so (`Problem.again`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from placement_service.entities.node import Node
from placement_service.entities.nodes import Nodes
from placement_service.entities.request import (
    BoundPod,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Resources,
    Snapshot,
)
from placement_service.entities.solution import Assignment
from placement_service.formulation.devices.blocks import could_come, gpus_differ
from placement_service.formulation.devices.question import goes_whole
from placement_service.formulation.devices.wants import requires_partition, want_of, wants_network
from placement_service.formulation.eviction.ruled_pods import binds_what_comes, divided
from placement_service.formulation.held_columns import amounts_of
from placement_service.formulation.open_gangs import (
    MUST_RUN,
    WAITING,
    Freed,
    anew_name,
    is_part,
    opened,
    others,
)
from placement_service.formulation.prepared import GroupOf, Prepared, SetOf

#: Gangs that may come again to where they are, and nodes, up to which that is looked at.
MOST_AGAIN = 20
MOST_NODES = 200


def open_for_moves(
    snapshot: Snapshot, policy: Policy, chosen: frozenset[int], scattered: frozenset[int]
) -> Prepared:
    """The snapshot with the chosen gangs open: all their pods run, wherever that is. Those that are
    `scattered` break their required levels where they run.
    """
    row = snapshot.columns.row_of
    devices = _Devices(
        snapshot.columns, policy, requires_partition(snapshot), wants_network(snapshot)
    )
    freed = Freed(snapshot.columns)
    gangs: list[PodGang] = []
    homes: list[Assignment] = []
    minimums: dict[GroupOf, int] = {}
    comes: dict[GroupOf, int] = {}
    only_stays: set[SetOf] = set()
    tied: set[SetOf] = set()
    held: dict[SetOf, Resources] = {}
    differing: set[int] = set()
    for i, gang in enumerate(snapshot.gangs):
        if i not in chosen:
            gangs.append(gang)
            continue
        apart: defaultdict[str, list[SetOf]] = defaultdict(list)
        groups: list[PodGroup] = []
        waiting: list[PodGroup] = []
        for r, group in enumerate(gang.groups):
            sets: list[PodSet] = []
            for s in devices.sets(group):
                freed.add(s, s.bound_pods)
                if i in scattered or binds_what_comes(s.template):
                    coming, staying = divided(s)
                    comes[GroupOf(i, r)] = len(sets)
                    # Those that come stand first: a gang is placed anew with these.
                    sets.append(coming)
                    for node, mine in staying.items():
                        homes.append(Assignment(i, r, len(sets), row[node], len(mine.pods)))
                        only_stays.add(SetOf(i, r, len(sets)))
                        sets.append(mine)
                    continue
                at_home = Counter(pod.node for pod in s.bound_pods)
                pod = s.bound_pods[0]
                amounts = amounts_of(pod, s.template)
                if amounts is not None:
                    held[SetOf(i, r, len(sets))] = dict(amounts)
                if devices.tell_apart(pod, s.template):
                    differing.add(i)
                    apart[pod.node].append(SetOf(i, r, len(sets)))
                    if not devices.come_again(pod, s.template):
                        only_stays.add(SetOf(i, r, len(sets)))
                for node, count in at_home.items():
                    homes.append(Assignment(i, r, len(sets), row[node], count))
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
        if goes_whole(gang):
            tied.update(one for mine in apart.values() if len(mine) > 1 for one in mine)
        gangs.append(opened(gang, (*groups, *waiting), MUST_RUN, moves=True))
    unlike = {key.gang for key in held} | set(differing)
    again = _coming_again(snapshot, unlike)
    gangs += [replace(gangs[i], name=anew_name(gangs[i].name)) for i in again]
    return Prepared(
        replace(
            snapshot,
            nodes=freed.nodes(),
            gangs=tuple(gangs),
            running_pods=others(snapshot, chosen),
        ),
        tuple(homes),
        minimums,
        comes=comes,
        scattered=scattered,
        only_stays=frozenset(only_stays),
        tied=frozenset(tied),
        held=held,
        again=frozenset(range(len(snapshot.gangs), len(gangs))),
        all_again=len(again) == len(unlike) and all(goes_whole(snapshot.gangs[i]) for i in again),
    )


def _coming_again(snapshot: Snapshot, unlike: Collection[int]) -> list[int]:
    """Of the gangs with pods that are unlike others by what they have at home, those of which
    nothing waits; none where there are many.
    """
    gangs = snapshot.gangs
    if len(unlike) > MOST_AGAIN or len(snapshot.nodes) > MOST_NODES:
        return []
    return [
        i
        for i in sorted(unlike)
        # A part is in a looser question, which lets it be anywhere.
        if not is_part(gangs[i].name) and not any(g.pending_count for g in gangs[i].groups)
    ]


@dataclass(frozen=True, slots=True)
class _Devices:
    """What the devices of running pods say; `required`: some pod insists on a partition,
    `networked`: some pod wants network devices.
    """

    nodes: Nodes
    policy: Policy
    required: bool
    networked: bool

    def tell_apart(self, pod: BoundPod, template: PodTemplate) -> bool:
        """Whether a pod is unlike others of its set by the devices that it has."""
        return bool(pod.devices) and (
            template.device_share is not None
            or gpus_differ(self._node_of(pod), required=self.required, networked=self.networked)
        )

    def come_again(self, pod: BoundPod, template: PodTemplate) -> bool:
        """Whether its node would give a pod the devices that it has, if all were free."""
        want = want_of(template, self.policy)
        return want is None or could_come(self._node_of(pod), want, pod.devices)

    def _node_of(self, pod: BoundPod) -> Node:
        return self.nodes[self.nodes.row_of[pod.node]]

    def sets(self, group: PodGroup) -> Iterator[PodSet]:
        """The running pods of a group, those alone that are unlike others."""
        for s in group.pod_sets:
            apart = [pod for pod in s.bound_pods if self.tell_apart(pod, s.template)]
            for pod in apart:
                yield replace(s, bound_pods=(pod,))
            alike = [pod for pod in s.bound_pods if pod not in apart] if apart else s.bound_pods
            for pods in _holding_alike(alike, s.template):
                yield s if pods is s.bound_pods else replace(s, bound_pods=tuple(pods))


def _holding_alike(pods: Sequence[BoundPod], template: PodTemplate) -> Iterable[Sequence[BoundPod]]:
    """The pods by what they hold: those that hold something else than they ask for by their nodes,
    too.
    """
    if all(pod.held is None for pod in pods):
        return (pods,) if pods else ()
    found: defaultdict[object, list[BoundPod]] = defaultdict(list)
    for pod in pods:
        amounts = amounts_of(pod, template)
        found[amounts, "" if amounts is None else pod.node].append(pod)
    return found.values()
