"""Running gangs that may give way become gangs to decide about.

Where the policy allows evictions, a running gang that may be disturbed enters the
problem as if it waited, with its pods at home: the node that each runs on. Its room is
free, and the plan in which nothing moves takes all of it again. So every model and every
bound decides about evictions without a word of its own:

    PREEMPT, RECLAIM   a pod stays at home or goes: one pod set for each node
    REPACK             every pod runs after the plan, at home or elsewhere

Which gang may use the room of which victim is a matter of `eviction_rights`; it becomes
columns of room here, one for each group of gangs that may not use all of it.

A gang stays as it is, and cannot give way, when it must not be disturbed (not preemptible,
a disruption budget that allows nothing), when it lacks a pod of its minimum or has no
minimum at all, when not every pod of it is told with its node, when it is the base of a gang
that stays, when where it runs counts in `topology` for pods that wait, when its queue is not
there, when nothing says which of the listed devices of its nodes it has, when its nodes hold
more for owners than they have, and when its pods have rules about other pods, ports or
reservations, or want shares of devices or network devices.

Where a gang that may be disturbed stays all the same, no bound is claimed (`exact`).

Preferred levels of open gangs are left out: what runs already costs nothing. So
are required ones where none of their pods can get another node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import (
    Node,
    PackingScope,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    RunningPod,
    Snapshot,
    Toleration,
)
from placement_service.entities.selectors import NodeSelectorTerm, Operator, Requirement
from placement_service.entities.solution import Assignment
from placement_service.formulation.eviction_rights import EvictionRights
from placement_service.formulation.prepared import Prepared

#: The priority of gangs that have to run after the plan: above all others.
MUST_RUN = 2**31

#: Ends the name of the group that holds the waiting pods of a group that may be moved.
WAITING = " (waiting)"


def open_running_gangs(snapshot: Snapshot, policy: Policy, *, on_devices: bool = True) -> Prepared:
    """The snapshot with all gangs open that the policy allows to disturb.

    `on_devices` is whether those are that run on nodes which list their devices.
    """
    if policy.eviction is EvictionPolicy.NONE:
        return Prepared(snapshot)
    rights = EvictionRights(snapshot, policy)
    moves = policy.eviction is EvictionPolicy.REPACK
    able = frozenset(_able(snapshot, policy, rights, moves=moves, on_devices=on_devices))
    chosen = able if moves else _without_bases_of_others(snapshot, able)
    if not chosen:
        opened = Prepared(snapshot)
    elif moves:
        opened = _open_for_moves(snapshot, chosen)
    else:
        opened = _open_for_evictions(snapshot, chosen, rights)
    exact = not any(
        i not in able and _could_give_way(gang, snapshot, rights)
        for i, gang in enumerate(snapshot.gangs)
    )
    return replace(opened, exact=exact)


# --- who may be disturbed --------------------------------------------------------


def _could_give_way(gang: PodGang, snapshot: Snapshot, rights: EvictionRights) -> bool:
    """Whether the rules let some pod of a gang go, whatever the problem can say."""
    told = (s for group in gang.groups for s in group.pod_sets if s.bound_pods)
    return rights.may_be_disturbed(gang) and any(
        not _in_closed_budget(gang, s.template, snapshot) for s in told
    )


def _able(
    snapshot: Snapshot, policy: Policy, rights: EvictionRights, *, moves: bool, on_devices: bool
) -> Iterator[int]:
    usable = {n.name: n for n in snapshot.nodes if n.ready and not n.unschedulable}
    overbooked = _overbooked(snapshot)
    queues = {"", *(queue.name for queue in snapshot.queues)}
    growing = {g.base_gang or g.name for g in snapshot.gangs if any(_pending(g))}
    for index, gang in enumerate(snapshot.gangs):
        if (
            gang.queue in queues
            and not _adds_topology(gang, growing)
            and rights.may_be_disturbed(gang)
            and _is_told(gang, usable)
            and _tells_devices(gang, usable, policy, on_devices=on_devices)
            and not any(p.node in overbooked for g in gang.groups for p in g.running_pods)
            and (_stays_in_place(gang, moves) or _keeps_its_levels(gang, usable))
            and not any(
                _in_closed_budget(gang, s.template, snapshot)
                for group in gang.groups
                for s in group.pod_sets
                if s.bound_pods
            )
        ):
            yield index


def _pending(gang: PodGang) -> Iterator[int]:
    return (group.pending_count for group in gang.groups)


def _adds_topology(gang: PodGang, growing: Collection[str]) -> bool:
    """Whether where a gang runs counts for new pods: its own, or those of its set."""
    wishes = gang.previous_nodes or any(s.preferred_level for s in gang.packing_scopes)
    return bool(wishes and any(_pending(gang))) or bool(
        (gang.base_gang and gang.base_gang in growing)
        or (gang.name in growing and not any(_pending(gang)))
    )


def _without_bases_of_others(snapshot: Snapshot, able: frozenset[int]) -> frozenset[int]:
    """A base goes only with all that is based on it, so it stays while any of them must."""
    staying = {
        gang.base_gang
        for i, gang in enumerate(snapshot.gangs)
        if i not in able and any(group.running_count for group in gang.groups)
    }
    return frozenset(i for i in able if snapshot.gangs[i].name not in staying)


def _overbooked(snapshot: Snapshot) -> frozenset[str]:
    """Nodes that hold more for owners than they have: what runs there is no room for all."""
    free = {node.name: node for node in snapshot.nodes} if snapshot.reservations else {}
    held: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for reservation in snapshot.reservations:
        held[reservation.node].update(reservation.held)
    return frozenset(
        name
        for name, amounts in held.items()
        if name in free and any(free[name].free(r) < a for r, a in amounts.items())
    )


def _is_told(gang: PodGang, usable: Mapping[str, Node]) -> bool:
    """Whether the problem can say all about the running pods of a gang."""
    running = [pod for group in gang.groups for pod in group.running_pods]
    return (
        bool(running)
        and not gang.is_pending
        # A gang without any minimum is never decided about: all its pods are extras.
        and any(group.min_replicas for group in gang.groups)
        and not gang.unsupported
        and not any(group.fixed_pods for group in gang.groups)
        and all(p.node in usable and not p.reservation for p in running)
        and all(_is_plain(s.template) for g in gang.groups for s in g.pod_sets if s.bound_pods)
    )


def _tells_devices(
    gang: PodGang, nodes: Mapping[str, Node], policy: Policy, *, on_devices: bool
) -> bool:
    """Whether the devices of all running pods are known where their nodes list them."""
    return all(
        not nodes[pod.node].devices
        or (on_devices and len(pod.devices) == policy.whole_gpus(s.template.requests))
        for group in gang.groups
        for s in group.pod_sets
        for pod in s.bound_pods
    )


def _stays_in_place(gang: PodGang, moves: bool) -> bool:
    """Whether no pod of a gang can get a node that it is not on."""
    return not moves and not any(group.pending_count for group in gang.groups)


def _keeps_its_levels(gang: PodGang, nodes: Mapping[str, Node]) -> bool:
    return all(_holds(scope, gang, nodes) for scope in gang.packing_scopes)


def _holds(scope: PackingScope, gang: PodGang, nodes: Mapping[str, Node]) -> bool:
    """Whether the running pods of a scope are in one domain of its required level."""
    level = scope.required_level
    domains = {
        nodes[pod.node].labels.get(level)
        for group in gang.groups
        if group.name in scope.groups
        for pod in group.running_pods
    }
    return not level or (len(domains) <= 1 and None not in domains)


def _is_plain(template: PodTemplate) -> bool:
    return not (
        template.required_affinity
        or template.required_anti_affinity
        or template.spread_constraints
        or template.host_ports
        or template.device_share
        or template.same_pcie_nics
        or template.compute_domain
        or template.required_reservation
    )


def _in_closed_budget(gang: PodGang, template: PodTemplate, snapshot: Snapshot) -> bool:
    return any(
        budget.allowed <= 0 and budget.matches(gang.namespace, template.labels)
        for budget in snapshot.disruption_budgets
    )


def _open(gang: PodGang, groups: Sequence[PodGroup], priority: int, *, moves: bool) -> PodGang:
    """The gang with other groups, open to decision."""
    renamed: defaultdict[str, list[str]] = defaultdict(list)
    for group in groups:
        renamed[group.name.removesuffix(WAITING)].append(group.name)
    scopes = tuple(
        PackingScope(
            scope.name, tuple(n for g in scope.groups for n in renamed[g]), scope.required_level
        )
        for scope in (() if _stays_in_place(gang, moves) else gang.packing_scopes)
    )
    return replace(
        gang,
        groups=tuple(groups),
        packing_scopes=scopes,
        priority=priority,
        base_gang="",
        previous_nodes=(),
    )


# --- evictions: pods stay at home or go ---------------------------------------------


def _open_for_evictions(
    snapshot: Snapshot, chosen: frozenset[int], rights: EvictionRights
) -> Prepared:
    room = _Room(snapshot, chosen, rights)
    names = {snapshot.gangs[i].name for i in chosen}
    number = {node.name: n for n, node in enumerate(snapshot.nodes)}
    gangs: list[PodGang] = []
    homes: list[Assignment] = []
    for i, gang in enumerate(snapshot.gangs):
        opens = i in chosen
        groups = []
        for r, group in enumerate(gang.groups):
            sets = [
                replace(s, template=room.charged(gang, s.template, opens=opens), bound_pods=())
                if opens
                else replace(s, template=room.charged(gang, s.template, opens=opens))
                for s in group.pod_sets
                if s.pods or not opens
            ]
            for s in group.pod_sets if opens else ():
                at_home: defaultdict[tuple[str, tuple[int, ...]], list[Pod]] = defaultdict(list)
                for pod in s.bound_pods:
                    # Pods with devices of their own are not alike.
                    at_home[pod.node, pod.devices].append(Pod(pod.name))
                for (node, _), pods in at_home.items():
                    template = room.charged(gang, _at_home(s.template, node), opens=True)
                    homes.append(Assignment(i, r, len(sets), number[node], len(pods)))
                    sets.append(PodSet(template, tuple(pods)))
            groups.append(replace(group, pod_sets=tuple(sets)))
        if opens:
            priority = MUST_RUN if rights.keeps_its_minimum(gang) else gang.priority
            base = gang.base_gang if gang.base_gang in names else ""
            gangs.append(replace(_open(gang, groups, priority, moves=False), base_gang=base))
        else:
            gangs.append(replace(gang, groups=tuple(groups)))
    return Prepared(
        replace(
            snapshot,
            nodes=tuple(room.nodes()),
            gangs=tuple(gangs),
            running_pods=_others(snapshot, chosen),
        ),
        tuple(homes),
    )


def _at_home(template: PodTemplate, node: str) -> PodTemplate:
    """The template of a pod that stays on its node, whatever the node asks of new pods."""
    by_name = Requirement("metadata.name", Operator.IN, (node.removeprefix("nodes/"),))
    return replace(
        template,
        node_selector=(),
        required_node_affinity=(NodeSelectorTerm(match_fields=(by_name,)),),
        tolerations=(Toleration(key="", exists=True, value="", effect=None),),
    )


class _Room:
    """What nodes have when all open gangs are gone, and who may use it.

    For each `Sharing` of the rights there is a column a resource: it holds the room that
    the gangs of the sharing may use, and is charged with them and with the victims whose
    room it is. What others use does not count.
    """

    def __init__(self, snapshot: Snapshot, chosen: frozenset[int], rights: EvictionRights) -> None:
        self._snapshot = snapshot
        victims = [snapshot.gangs[i] for i in sorted(chosen)]
        self._sharings = rights.sharings(victims)
        self._freed: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._shared: list[defaultdict[str, Counter[str]]] = [
            defaultdict(Counter) for _ in self._sharings
        ]
        resources: set[str] = set()
        for gang in victims:
            for s in (s for group in gang.groups for s in group.pod_sets):
                for pod in s.bound_pods:
                    resources.update(s.template.requests)
                    self._freed[pod.node].update(s.template.requests)
                    for shared, sharing in zip(self._shared, self._sharings, strict=True):
                        if sharing.gives(gang):
                            shared[pod.node].update(s.template.requests)
        self._resources = sorted(resources)

    def charged(self, gang: PodGang, template: PodTemplate, *, opens: bool) -> PodTemplate:
        """The template with what it takes of each column."""
        counts = tuple(s.gives(gang) if opens else s.takes(gang) for s in self._sharings)
        if not any(counts):
            return template
        requests = dict(template.requests)
        for k, counted in enumerate(counts):
            if counted:
                for resource in self._resources:
                    if resource in template.requests:
                        requests[_column(resource, k)] = template.requests[resource]
        return replace(template, requests=requests)

    def nodes(self) -> Iterator[Node]:
        for node in self._snapshot.nodes:
            freed = self._freed.get(node.name, Counter())
            requested = _less(node, freed)
            allocatable = {r: max(amount, freed[r]) for r, amount in node.allocatable.items()} | {
                r: freed[r] for r in freed.keys() - node.allocatable.keys()
            }
            for k, shared in enumerate(self._shared):
                here = shared.get(node.name, Counter())
                for r in self._resources:
                    left = allocatable.get(r, 0) - requested.get(r, 0) - freed[r] + here[r]
                    allocatable[_column(r, k)] = max(0, left)
            yield replace(node, allocatable=allocatable, requested=requested)


def _column(resource: str, sharing: int) -> str:
    return f"{resource} for sharing {sharing}"


# --- moves: every pod runs, at home or elsewhere ------------------------------------


def _open_for_moves(snapshot: Snapshot, chosen: frozenset[int]) -> Prepared:
    number = {node.name: n for n, node in enumerate(snapshot.nodes)}
    freed: defaultdict[str, Counter[str]] = defaultdict(Counter)
    gangs: list[PodGang] = []
    homes: list[Assignment] = []
    minimums: dict[tuple[int, int], int] = {}
    for i, gang in enumerate(snapshot.gangs):
        if i not in chosen:
            gangs.append(gang)
            continue
        groups: list[PodGroup] = []
        waiting: list[PodGroup] = []
        for r, group in enumerate(gang.groups):
            sets: list[PodSet] = []
            for s in (s for s in group.pod_sets if s.bound_pods):
                at_home = Counter(pod.node for pod in s.bound_pods)
                for node, count in at_home.items():
                    homes.append(Assignment(i, r, len(sets), number[node], count))
                    freed[node].update({k: v * count for k, v in s.template.requests.items()})
                # In the order of the homes, by which the pods are told apart again.
                turn = {node: k for k, node in enumerate(at_home)}
                in_order = sorted(s.bound_pods, key=lambda pod: turn[pod.node])
                sets.append(PodSet(s.template, tuple(Pod(pod.name) for pod in in_order)))
            minimums[i, r] = group.min_replicas
            groups.append(replace(group, pod_sets=tuple(sets), min_replicas=group.running_count))
            if group.pending_count:
                rest = tuple(replace(s, bound_pods=()) for s in group.pod_sets if s.pods)
                name = group.name + WAITING
                waiting.append(replace(group, name=name, pod_sets=rest, min_replicas=0))
        gangs.append(_open(gang, (*groups, *waiting), MUST_RUN, moves=True))
    nodes = tuple(
        replace(node, requested=_less(node, freed[node.name])) if node.name in freed else node
        for node in snapshot.nodes
    )
    return Prepared(
        replace(snapshot, nodes=nodes, gangs=tuple(gangs), running_pods=_others(snapshot, chosen)),
        tuple(homes),
        minimums,
    )


def _less(node: Node, freed: Counter[str]) -> dict[str, int]:
    # A node that holds more than it has can take all of it back, and nothing else.
    return {
        r: min(amount, max(node.allocatable.get(r, 0), freed[r])) - freed[r]
        for r, amount in node.requested.items()
    }


def _others(snapshot: Snapshot, chosen: frozenset[int]) -> tuple[RunningPod, ...]:
    """The running pods besides those of open gangs, which are pods to place now."""
    opened = {
        pod.name for i in chosen for group in snapshot.gangs[i].groups for pod in group.running_pods
    }
    return tuple(pod for pod in snapshot.running_pods if pod.name not in opened)
