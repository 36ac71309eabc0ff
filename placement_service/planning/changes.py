"""What if: a snapshot as it would be if nodes or gangs were different."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from placement_service.entities.devices import Device
from placement_service.entities.request import (
    HOSTNAME,
    BoundPod,
    Node,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Resources,
    RunningPod,
    Snapshot,
)

#: The prefix of taints that Kubernetes puts on nodes that are closed or not healthy.
_TROUBLE = "node.kubernetes.io/"


class Place(NamedTuple):
    """Where a pod comes to run, and the devices of the node that it gets, where it lists any."""

    node: str
    devices: tuple[int, ...] = ()


def only(snapshot: Snapshot, gangs: Collection[str]) -> Snapshot:
    """The snapshot without the waiting pods of other gangs; their running pods stay."""
    kept = []
    for gang in snapshot.gangs:
        if gang.name not in gangs:
            gang = running_part(gang)
            if not any(group.running_count for group in gang.groups):
                continue
        kept.append(gang)
    names = {gang.name for gang in kept}
    return replace(
        snapshot,
        gangs=tuple(
            gang if gang.base_gang in names else replace(gang, base_gang="") for gang in kept
        ),
    )


def running_part(gang: PodGang) -> PodGang:
    """The gang without pods that wait."""
    if not any(group.pending_count for group in gang.groups):
        return gang
    groups = (
        replace(
            group,
            pod_sets=tuple(replace(s, pods=()) for s in group.pod_sets if s.bound_pods),
        )
        for group in gang.groups
    )
    return replace(gang, groups=tuple(groups))


def with_gang(snapshot: Snapshot, name: str, change: Callable[[PodGang], PodGang]) -> Snapshot:
    """The snapshot with one gang changed."""
    gangs = (change(gang) if gang.name == name else gang for gang in snapshot.gangs)
    return replace(snapshot, gangs=tuple(gangs))


def reduced(gang: PodGang, group: str, to: int) -> PodGang:
    """The gang with a group that needs so many pods; its others are extras."""
    groups = (replace(g, min_replicas=to) if g.name == group else g for g in gang.groups)
    return replace(gang, groups=tuple(groups))


def relaxed(gang: PodGang, scope: int, to: str) -> PodGang:
    """The gang with another required level of one scope, by its index; "" for none."""
    scopes = list(gang.packing_scopes)
    scopes[scope] = replace(scopes[scope], required_level=to)
    return replace(gang, packing_scopes=tuple(scopes))


def opened(snapshot: Snapshot, nodes: Collection[int]) -> Snapshot:
    """These nodes, by their place, are open again."""
    return replace(
        snapshot, nodes=snapshot.columns.updated(_open(snapshot.columns[i]) for i in nodes)
    )


def cordoned(snapshot: Snapshot, nodes: Collection[int]) -> Snapshot:
    """These nodes, by their place, get no new pods."""
    columns = snapshot.columns
    shut = columns.unschedulable.copy()
    shut[list(nodes)] = True
    return replace(snapshot, nodes=replace(columns, unschedulable=shut))


def with_nodes(snapshot: Snapshot, models: Iterable[tuple[Node, int]]) -> Snapshot:
    """For each model so many further nodes like it, empty and healthy, after all others."""
    names = set(snapshot.columns.names)
    added = [
        twin(model, _free_name(f"{model.name}-added-{number}", names))
        for model, count in models
        for number in range(count)
    ]
    return replace(snapshot, nodes=snapshot.columns.updated(added))


def with_domains(
    snapshot: Snapshot, level: str, like: str, count: int, inner: Sequence[str]
) -> Snapshot:
    """Further domains like one of a level, empty and healthy, in the same parents.

    `inner` are the levels inside it, whose domains are new ones as well.
    """
    columns = snapshot.columns
    models = [columns[i] for i, value in enumerate(columns.label(level)) if value == like]
    names = set(columns.names)
    own = [key for key in (level, *inner) if key != HOSTNAME]
    taken = {(key, value) for key in own for value in columns.label(key)}
    mine = {(key, model.labels[key]) for model in models for key in own if key in model.labels}
    suffixes = (f"-added-{number}" for number in itertools.count())
    free = (s for s in suffixes if taken.isdisjoint((key, value + s) for key, value in mine))
    added = []
    for suffix in itertools.islice(free, count):
        for model in models:
            name = _free_name(model.name + suffix, names)
            labels = {key: f"{model.labels[key]}{suffix}" for key in own if key in model.labels}
            added.append(twin(model, name, labels))
    return replace(snapshot, nodes=columns.updated(added))


def twin(model: Node, name: str, labels: dict[str, str] | None = None) -> Node:
    """An empty, healthy node like `model`, with other values of some labels."""
    return replace(
        model,
        name=name,
        labels={**model.labels, **(labels or {}), HOSTNAME: name.removeprefix("nodes/")},
        requested={},
        host_ports=(),
        unschedulable=False,
        ready=True,
        compute_domain="",
        compute_domain_pods=0,
        closed_because="",
        taints=tuple(t for t in model.taints if not t.key.startswith(_TROUBLE)),
        devices=tuple(
            replace(d, healthy=True, used_milli=0, used_memory_milli=0) for d in model.devices
        ),
    )


def without_pods(
    snapshot: Snapshot, pods: Collection[str], gangs: Collection[str] = ()
) -> Snapshot:
    """The snapshot without some running pods and some gangs; other gangs run on."""
    if not pods and not gangs:
        return snapshot
    leaving: dict[str, list[tuple[BoundPod, PodTemplate]]] = {}
    staying: set[tuple[str, str]] = set()
    kept = []
    for gang in snapshot.gangs:
        gone = False
        for _, pod_set in _sets(gang):
            for pod in pod_set.bound_pods:
                if pod.name in pods:
                    leaving.setdefault(pod.node, []).append((pod, pod_set.template))
                    gone = True
                else:
                    staying.add((pod.node, pod_set.template.compute_domain))
        if gang.name not in gangs:
            kept.append(_without(gang, pods) if gone else gang)
    columns = snapshot.columns
    nodes = columns.updated(
        _left(columns[columns.row_of[name]], pods_there, staying)
        for name, pods_there in leaving.items()
        if name in columns.row_of
    )
    return replace(
        snapshot,
        nodes=nodes,
        gangs=tuple(
            replace(gang, base_gang="") if gang.base_gang in gangs else gang for gang in kept
        ),
        running_pods=tuple(pod for pod in snapshot.running_pods if pod.name not in pods),
        reservations=tuple(
            replace(one, held=_sum([one.held, *_given(leaving, one.name)]))
            for one in snapshot.reservations
        ),
    )


def released(snapshot: Snapshot, pods: Collection[str]) -> Snapshot:
    """These running pods wait again, all of them needed, and give back what they hold."""
    return without_pods(_needed(snapshot, pods), pods) if pods else snapshot


def displaced(snapshot: Snapshot, pods: Collection[str]) -> Snapshot:
    """These running pods wait again, all of them needed, and still hold what they have."""
    waiting = _needed(snapshot, pods)
    return replace(waiting, gangs=tuple(_without(gang, pods) for gang in waiting.gangs))


def moved(snapshot: Snapshot, places: Mapping[str, Place]) -> Snapshot:
    """These running pods run elsewhere."""
    waiting = _waiting(snapshot, places)
    return assigned(without_pods(waiting, places), places)


def _waiting(snapshot: Snapshot, pods: Collection[str]) -> Snapshot:
    """The snapshot with a pod that waits beside each of these running pods."""

    def wait(pod_set: PodSet) -> PodSet:
        mine = tuple(Pod(pod.name) for pod in pod_set.bound_pods if pod.name in pods)
        return replace(pod_set, pods=(*pod_set.pods, *mine)) if mine else pod_set

    gangs = (_with_sets(gang, wait) if _has(gang, pods) else gang for gang in snapshot.gangs)
    return replace(snapshot, gangs=tuple(gangs))


def _needed(snapshot: Snapshot, pods: Collection[str]) -> Snapshot:
    """The same, where gangs of which such pods run need all that runs of them."""

    def need(before: PodGang, after: PodGang) -> PodGang:
        if before is after:
            return after
        groups = tuple(
            replace(g, min_replicas=max(g.min_replicas, old.running_count))
            for old, g in zip(before.groups, after.groups, strict=True)
        )
        return replace(after, groups=groups)

    waiting = _waiting(snapshot, pods)
    return replace(waiting, gangs=tuple(map(need, snapshot.gangs, waiting.gangs)))


def _has(gang: PodGang, pods: Collection[str]) -> bool:
    return any(pod.name in pods for _, pod_set in _sets(gang) for pod in pod_set.bound_pods)


def assigned(snapshot: Snapshot, places: Mapping[str, Place]) -> Snapshot:
    """Waiting pods of gangs, by name, run at these places: what they ask for is taken there, and
    the rules of others see them.
    """
    taken: dict[str, list[tuple[BoundPod, PodTemplate]]] = {}

    def settle(pod_set: PodSet) -> PodSet:
        mine = tuple(
            BoundPod(pod.name, places[pod.name].node, devices=places[pod.name].devices)
            for pod in pod_set.pods
            if pod.name in places
        )
        for pod in mine:
            taken.setdefault(pod.node, []).append((pod, pod_set.template))
        waiting = tuple(pod for pod in pod_set.pods if pod.name not in places)
        bound_pods = (*pod_set.bound_pods, *mine)
        return replace(pod_set, pods=waiting, bound_pods=bound_pods) if mine else pod_set

    gangs = tuple(_with_sets(gang, settle) for gang in snapshot.gangs)
    columns = snapshot.columns
    after = columns.updated(
        _with_pods(columns[columns.row_of[name]], pods) for name, pods in taken.items()
    )
    seen = (
        RunningPod(pod.name, pod.node, template.labels, template.required_anti_affinity)
        for pods in taken.values()
        for pod, template in pods
    )
    return replace(snapshot, gangs=gangs, nodes=after, running_pods=(*snapshot.running_pods, *seen))


def _with_pods(node: Node, pods: Sequence[tuple[BoundPod, PodTemplate]]) -> Node:
    ports = tuple(port for _, template in pods for port in template.host_ports)
    # Of unknown numbers nothing more is known.
    known = node.compute_domain_pods > 0
    joined = known * sum(t.compute_domain == node.compute_domain for _, t in pods)
    return replace(
        node,
        requested=_sum([node.requested, *(pod.holds(template) for pod, template in pods)]),
        host_ports=node.host_ports + ports,
        devices=_devices(node, pods, +1),
        compute_domain_pods=node.compute_domain_pods + joined,
    )


def pending_copy(model: PodGang, suffix: str) -> PodGang:
    """A gang that asks for the same under other names, with nothing running."""

    def waits(pod_set: PodSet) -> PodSet:
        waiting = (pod.name for pod in pod_set.pods)
        running = (pod.name for pod in pod_set.bound_pods)
        names = (f"{name}{suffix}" for name in (*waiting, *running))
        pods = tuple(Pod(name, "", rank) for rank, name in enumerate(names))
        return replace(pod_set, pods=pods, bound_pods=())

    return replace(
        _with_sets(model, waits), name=f"{model.name}{suffix}", previous_nodes=(), start=None
    )


def _sets(gang: PodGang) -> Iterable[tuple[PodGroup, PodSet]]:
    return ((group, pod_set) for group in gang.groups for pod_set in group.pod_sets)


def _with_sets(gang: PodGang, change: Callable[[PodSet], PodSet]) -> PodGang:
    return replace(
        gang,
        groups=tuple(
            replace(group, pod_sets=tuple(map(change, group.pod_sets))) for group in gang.groups
        ),
    )


def _without(gang: PodGang, pods: Collection[str]) -> PodGang:
    return _with_sets(
        gang,
        lambda s: replace(s, bound_pods=tuple(pod for pod in s.bound_pods if pod.name not in pods)),
    )


def _left(
    node: Node, pods: Sequence[tuple[BoundPod, PodTemplate]], staying: Collection[tuple[str, str]]
) -> Node:
    """The node without some pods that run on it."""
    requested = Counter(node.requested)
    ports = list(node.host_ports)
    for pod, template in pods:
        requested.subtract(pod.holds(template))
        for port in template.host_ports:
            if port in ports:
                ports.remove(port)
    # Where their number is known, other pods than those of gangs may be in the domain.
    known = node.compute_domain_pods > 0
    of_domain = sum(template.compute_domain == node.compute_domain for _, template in pods)
    members = max(0, node.compute_domain_pods - of_domain)
    busy = members > 0 if known else (node.name, node.compute_domain) in staying
    return replace(
        node,
        requested={name: max(0, amount) for name, amount in requested.items()},
        host_ports=tuple(ports),
        devices=_devices(node, pods, -1),
        compute_domain=node.compute_domain if busy else "",
        compute_domain_pods=members,
    )


def _devices(
    node: Node, pods: Sequence[tuple[BoundPod, PodTemplate]], sign: int
) -> tuple[Device, ...]:
    """The devices of a node once some pods have come (+1) or gone (-1)."""
    devices = {device.index: device for device in node.devices}
    for pod, template in pods:
        share = template.device_share
        for device in (devices[index] for index in pod.devices if index in devices):
            compute = 1000 if share is None else share.compute_milli
            memory = 1000 if share is None else share.memory_milli
            if share is not None and not memory and device.memory_bytes:
                memory = -(-1000 * share.memory_bytes // device.memory_bytes)
            devices[device.index] = replace(
                device,
                used_milli=max(0, device.used_milli + sign * compute),
                used_memory_milli=max(0, device.used_memory_milli + sign * memory),
            )
    return tuple(devices.values())


def _given(
    leaving: dict[str, list[tuple[BoundPod, PodTemplate]]], reservation: str
) -> list[Resources]:
    return [
        pod.holds(template)
        for pods in leaving.values()
        for pod, template in pods
        if pod.reservation == reservation
    ]


def _sum(amounts: Iterable[Resources]) -> Resources:
    total: Counter[str] = Counter()
    for one in amounts:
        total.update(one)
    return dict(total)


def _open(node: Node) -> Node:
    """The node without what keeps new pods away because it was closed by hand."""
    return replace(
        node,
        unschedulable=False,
        taints=tuple(t for t in node.taints if t.key != f"{_TROUBLE}unschedulable"),
    )


def _free_name(wanted: str, taken: set[str]) -> str:
    name = wanted
    while name in taken:
        name += "x"
    taken.add(name)
    return name
