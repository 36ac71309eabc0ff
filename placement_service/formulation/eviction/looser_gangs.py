"""A looser question where running gangs may give way that the problem cannot express (rule 15).

Such a gang stays in every plan of the problem, so bounds of that say nothing. Here what runs of it
is a gang of its own that may go, or move, under fewer rules than there are:

    what runs      stays or goes; with moves it may be wherever there is room. No rule about nodes,
                   levels or other pods
    what waits     needs no place near the pods that run, and is in no set

Where one of its pods breaks a rule about other pods, or is on a node that takes none, no such rule
is left for anybody. A pod on such a node leaves it for nothing; one that moves still counts in its
queue.
So every plan of the question is one here, with the same pods, and with no more of them gone or
moved and no more domains used. Bounds hold, and plans may break rules.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.queues import GPUS, MILLIGPUS, Queue
from placement_service.entities.request import (
    BoundPod,
    HostPort,
    Node,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Resources,
    Snapshot,
    Toleration,
)
from placement_service.formulation.eviction.beginning_anew import may_begin_anew
from placement_service.formulation.eviction.running_parts import what_waits
from placement_service.formulation.eviction.running_rules import has_many_terms, out_of_place
from placement_service.formulation.eviction.running_topology import running
from placement_service.formulation.held_columns import amounts_of
from placement_service.formulation.open_gangs import anew_name, is_anew, is_part, part_name
from placement_service.formulation.rules.queues import least_memory, pod_amount

#: On larger clusters the question is not asked.
MOST_NODES = 4_000

_EVERY_TAINT = (Toleration("", exists=True, value="", effect=None),)


def with_looser_gangs(
    snapshot: Snapshot, names: Collection[str], policy: Policy
) -> Snapshot | None:
    """The snapshot with these running gangs free to give way; None where that cannot be said."""
    if len(snapshot.nodes) > MOST_NODES:
        return None
    moves = policy.eviction is EvictionPolicy.REPACK
    if not (moves or all(_is_divisible(snapshot, name) for name in names)):
        return None
    chosen = [gang for gang in snapshot.gangs if gang.name in names]
    pods = {pod.name: pod for gang in chosen for pod in running(gang)}
    told = [s.template for gang in chosen for g in gang.groups for s in g.pod_sets if s.bound_pods]
    if any(t.ignores_reservations or t.same_pcie_nics for t in told):
        return None
    open_nodes = {n.name for n in snapshot.nodes if n.ready and not n.unschedulable}
    stuck = {name for name, pod in pods.items() if pod.node not in open_nodes}
    unruled = bool(stuck) or has_many_terms(snapshot) or not out_of_place(snapshot).isdisjoint(pods)
    gangs = [
        _waiting(gang)
        if gang.name in names
        else replace(gang, base_gang="")
        if gang.base_gang in names
        else gang
        for gang in snapshot.gangs
    ]
    queues = _Queues(snapshot, policy)
    gangs += [
        replace(part, queue=queues.known(gang))
        for gang in chosen
        if (part := _running(gang, stuck)).groups
    ]
    return replace(
        snapshot,
        nodes=tuple(_nodes(snapshot, chosen)),
        gangs=tuple(map(_without_rules, gangs) if unruled else gangs),
        queues=queues.using(chosen, stuck) if moves else snapshot.queues,
        running_pods=()
        if unruled
        else tuple(
            replace(pod, required_anti_affinity=()) if pod.name in pods else pod
            for pod in snapshot.running_pods
        ),
    )


@dataclass(frozen=True, slots=True)
class _Queues:
    snapshot: Snapshot
    policy: Policy

    def known(self, gang: PodGang) -> str:
        """The queue of a gang, or none where it is not there."""
        return gang.queue if any(q.name == gang.queue for q in self.snapshot.queues) else ""

    def using(self, gangs: Iterable[PodGang], stuck: Collection[str]) -> tuple[Queue, ...]:
        """The queues with these pods among what runs in them."""
        memory = least_memory(self.snapshot.columns) if self.snapshot.queues else 0
        used: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for gang in gangs:
            for s in (s for group in gang.groups for s in group.pod_sets):
                count = sum(pod.name in stuck for pod in s.bound_pods)
                for r in {*s.template.requests, GPUS} if count else ():
                    name = MILLIGPUS if r == GPUS else r
                    amount = pod_amount(self.policy, s.template, r, memory)
                    used[gang.queue][name] += count * amount
        return tuple(
            replace(q, used=Counter(q.used) + used[q.name]) if q.name in used else q
            for q in self.snapshot.queues
        )


def _is_divisible(snapshot: Snapshot, name: str) -> bool:
    """Whether all is said of a gang that goes once what runs of it is another one."""
    gangs = {gang.name: gang for gang in snapshot.gangs}
    begins_anew = may_begin_anew(gangs[name], gangs) and anew_name(name) not in gangs
    return not (is_part(name) or is_anew(name) or begins_anew)


def _waiting(gang: PodGang) -> PodGang:
    """What waits of a gang, as if its other pods ran nowhere."""
    return replace(what_waits(gang), packing_scopes=(), base_gang="", previous_nodes=())


def _running(gang: PodGang, stuck: Collection[str]) -> PodGang:
    """What runs of a gang, free of rules."""
    groups = []
    for group in gang.groups:
        sets = [
            one
            for s in group.pod_sets
            for one in _sets(s, [p for p in s.bound_pods if p.name not in stuck])
        ]
        count = sum(len(s.bound_pods) for s in sets)
        least = count if gang.is_pending else group.min_replicas
        if count:
            # Some of those that cannot move may be of the minimum.
            least = least if count == group.running_count else 0
            groups.append(PodGroup(group.name, least, tuple(sets)))
    return replace(
        gang,
        name=part_name(gang.name),
        groups=tuple(groups),
        packing_scopes=(),
        base_gang="",
        previous_nodes=(),
        uninitialized=False,
        unsupported=(),
        volume_claims=(),
    )


def _sets(pod_set: PodSet, pods: Iterable[BoundPod]) -> Iterator[PodSet]:
    """Some running pods of a set, each of which takes the least that it holds or asks for."""
    alike: defaultdict[frozenset[tuple[str, int]] | None, list[BoundPod]] = defaultdict(list)
    for pod in pods:
        alike[amounts_of(pod, pod_set.template)].append(_bare(pod))
    for amounts, mine in alike.items():
        least = pod_set.template.requests
        if amounts is not None:
            least = Counter(least) & Counter(dict(amounts))
        yield PodSet(_free(pod_set.template, least), (), tuple(mine))


def _bare(pod: BoundPod) -> BoundPod:
    # What a reservation would hold again is free.
    return replace(pod, reservation="", held=None)


def _free(template: PodTemplate, requests: Resources) -> PodTemplate:
    return PodTemplate(
        requests,
        template.labels,
        tolerations=_EVERY_TAINT,
        device_share=template.device_share,
    )


def _without_rules(gang: PodGang) -> PodGang:
    """The gang without rules about other pods."""
    groups = (
        replace(
            group,
            pod_sets=tuple(
                replace(
                    s,
                    template=replace(
                        s.template,
                        required_affinity=(),
                        required_anti_affinity=(),
                        spread_constraints=(),
                    ),
                )
                for s in group.pod_sets
            ),
        )
        for group in gang.groups
    )
    return replace(gang, groups=tuple(groups))


def _nodes(snapshot: Snapshot, chosen: Collection[PodGang]) -> Iterator[Node]:
    """The nodes without the ports and ComputeDomains of some gangs, and what their pods hold and
    would not ask for, none of them overbooked.
    """
    ports: defaultdict[str, list[HostPort]] = defaultdict(list)
    domains: defaultdict[str, set[str]] = defaultdict(set)
    for s in (s for gang in chosen for group in gang.groups for s in group.pod_sets):
        for pod in s.bound_pods:
            ports[pod.node] += s.template.host_ports
            domains[pod.node].add(s.template.compute_domain)
    spared: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for s in (s for gang in chosen for group in gang.groups for s in group.pod_sets):
        for pod in s.bound_pods:
            if pod.held is not None:
                spared[pod.node] += Counter(pod.held) - Counter(s.template.requests)
    held: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for reservation in snapshot.reservations:
        held[reservation.node].update(reservation.held)
    for node in snapshot.nodes:
        if node.name in spared:
            node = replace(node, requested=Counter(node.requested) - spared[node.name])
        gone = ports[node.name]
        left = tuple(p for p in node.host_ports if not any(p.conflicts(q) for q in gone))
        lacks = {
            r: -free
            for r in {*node.requested, *held[node.name]}
            if (free := node.free(r) - held[node.name][r]) < 0
        }
        room = {r: node.allocatable.get(r, 0) + n for r, n in lacks.items()}
        ends = node.compute_domain in domains[node.name]
        yield replace(
            node,
            host_ports=left,
            allocatable={**node.allocatable, **room},
            compute_domain="" if ends else node.compute_domain,
            compute_domain_pods=0 if ends else node.compute_domain_pods,
        )
