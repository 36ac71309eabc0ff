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
from placement_service.formulation.devices.device_blocks import could_come, gpus_differ
from placement_service.formulation.devices.question import goes_whole
from placement_service.formulation.devices.wants import requires_partition, want_of, wants_network
from placement_service.formulation.eviction.ruled_pods import binds_what_comes, divided
from placement_service.formulation.held_columns import amounts_of
from placement_service.formulation.open_gangs import (
    MUST_RUN,
    Freed,
    anew_name,
    is_part,
    opened,
    others,
    waiting_group,
)
from placement_service.formulation.prepared import GroupOf, Prepared, SetOf

#: Gangs that may come again to where they are, and nodes, up to which that is looked at.
MOST_AGAIN = 20
MOST_NODES = 200


def open_for_moves(
    snapshot: Snapshot,
    policy: Policy,
    chosen: frozenset[int],
    scattered: frozenset[int],
    refused: frozenset[str],
) -> Prepared:
    """The snapshot with the chosen gangs open: all their pods run, wherever that is. Those that are
    `scattered` break their required levels where they run, and `refused` pods are those that their
    nodes would not take again.
    """
    opening = _Opening(snapshot, policy, scattered, refused)
    gangs = [
        opening.running(i, gang) if i in chosen else gang for i, gang in enumerate(snapshot.gangs)
    ]
    again = _coming_again(snapshot, opening.unlike)
    gangs += [replace(gangs[i], name=anew_name(gangs[i].name)) for i in again]
    whole = all(goes_whole(snapshot.gangs[i]) for i in again)
    return Prepared(
        replace(
            snapshot,
            nodes=opening.freed.nodes(),
            gangs=tuple(gangs),
            running_pods=others(snapshot, chosen),
        ),
        tuple(opening.homes),
        opening.minimums,
        comes=opening.comes,
        scattered=scattered,
        only_stays=frozenset(opening.only_stays),
        tied=frozenset(opening.tied),
        held=opening.held,
        again=frozenset(range(len(snapshot.gangs), len(gangs))),
        all_again=len(again) == len(opening.unlike) and whole,
    )


class _Opening:
    """Gangs whose pods may run elsewhere, one after another, and what is told beside them: as in
    `Prepared`.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        scattered: frozenset[int],
        refused: frozenset[str],
    ) -> None:
        self.freed = Freed(snapshot.columns)
        self.homes: list[Assignment] = []
        self.minimums: dict[GroupOf, int] = {}
        self.comes: dict[GroupOf, int] = {}
        self.only_stays: set[SetOf] = set()
        self.tied: set[SetOf] = set()
        self.held: dict[SetOf, Resources] = {}
        #: Gangs with pods that are unlike others by what they have at home.
        self.unlike: set[int] = set()
        self._row = snapshot.columns.row_of
        self._scattered = scattered
        self._refused = refused
        self._devices = _Devices(
            snapshot.columns, policy, requires_partition(snapshot), wants_network(snapshot)
        )
        #: Of the gang that is told: sets of pods that are unlike others by their devices, by node.
        self._apart: defaultdict[str, list[SetOf]] = defaultdict(list)

    def running(self, i: int, gang: PodGang) -> PodGang:
        """A gang of which all running pods run, wherever that is; behind them what waits of it."""
        self._apart.clear()
        groups = [self._running(i, r, group) for r, group in enumerate(gang.groups)]
        groups += [waiting_group(group) for group in gang.groups if group.pending_count]
        if goes_whole(gang):
            on_one_node = (sets for sets in self._apart.values() if len(sets) > 1)
            self.tied.update(one for sets in on_one_node for one in sets)
        return opened(gang, groups, MUST_RUN, moves=True)

    def _running(self, i: int, r: int, group: PodGroup) -> PodGroup:
        sets: list[PodSet] = []
        for s in self._devices.sets(group):
            self.freed.add(s, s.bound_pods)
            if i in self._scattered or binds_what_comes(s, self._refused):
                sets += self._divided(GroupOf(i, r), len(sets), s)
            else:
                sets.append(self._anywhere(SetOf(i, r, len(sets)), s))
        self.minimums[GroupOf(i, r)] = group.min_replicas
        return replace(group, pod_sets=tuple(sets), min_replicas=group.running_count)

    def _divided(self, group: GroupOf, first: int, s: PodSet) -> Iterator[PodSet]:
        """The pods where they come, and for each of their nodes those that stay there."""
        coming, staying = divided(s)
        # Those that come stand first: a gang is placed anew with these.
        self.comes[group] = first
        yield coming
        for k, (node, mine) in enumerate(staying.items(), first + 1):
            self._home(SetOf(*group, k), node, len(mine.pods))
            self.only_stays.add(SetOf(*group, k))
            yield mine

    def _anywhere(self, key: SetOf, s: PodSet) -> PodSet:
        """Pods that are the same at home and elsewhere."""
        pod = s.bound_pods[0]
        amounts = amounts_of(pod, s.template)
        if amounts is not None:
            self.held[key] = dict(amounts)
            self.unlike.add(key.gang)
        if self._devices.tell_apart(pod, s.template):
            self.unlike.add(key.gang)
            self._apart[pod.node].append(key)
            if not self._devices.come_again(pod, s.template):
                self.only_stays.add(key)
        at_home = Counter(pod.node for pod in s.bound_pods)
        for node, count in at_home.items():
            self._home(key, node, count)
        # In the order of the homes, by which the pods are told apart again.
        turn = {node: k for k, node in enumerate(at_home)}
        in_order = sorted(s.bound_pods, key=lambda pod: turn[pod.node])
        return PodSet(s.template, tuple(Pod(pod.name) for pod in in_order))

    def _home(self, key: SetOf, node: str, count: int) -> None:
        self.homes.append(Assignment(*key, self._row[node], count))


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
