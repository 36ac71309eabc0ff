"""Random questions for property tests, made of named parts.

`snapshots` draws whole snapshots from a `Size` and the `Feature`s that may occur
in them. `TINY` is small enough for the oracle in `brute`. Everything is legal
input, though often hopeless: hosts may be overfull, scopes may contradict each
other, bases may wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from hypothesis import strategies as st

from placement_service.entities.devices import (
    Device,
    DevicePartition,
    DeviceShare,
    PartitionPolicy,
    RequiredPartition,
)
from placement_service.entities.eviction import DisruptionBudget
from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import (
    CPU,
    HOSTNAME,
    PODS,
    BoundPod,
    Effect,
    HostPort,
    Node,
    PackingScope,
    Pod,
    PodAffinityTerm,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    RunningPod,
    Snapshot,
    SpreadConstraint,
    Taint,
    Toleration,
)
from placement_service.entities.reservations import (
    Reservation,
    ReservationOwner,
    ReservationSelector,
)
from placement_service.entities.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
)

NAMESPACE = "ml"
GPU = "nvidia.com/gpu"
LEVELS = ("rack", "block")
APPS = ("a", "b")


#: When snapshots are taken, and how long gangs waited then, in seconds.
NOW = 1_000_000
AGES = (0, 0, 59, 120, 3_000, 3_000, 20_000)


class Feature(Enum):
    """What may occur in a snapshot beyond nodes with GPUs and gangs that want them."""

    NODE_RULES = auto()
    HOST_PORTS = auto()
    ANTI_AFFINITY = auto()
    AFFINITY = auto()
    SPREAD = auto()
    RUNNING = auto()
    PRIORITIES = auto()
    BASES = auto()
    PREVIOUS_NODES = auto()
    MIXED_SETS = auto()
    CPU_ONLY = auto()
    OVERLAPS = auto()
    QUEUES = auto()
    AGES = auto()
    TOLD = auto()
    DEVICES = auto()
    COMPUTE_DOMAINS = auto()


EVERYTHING = frozenset(Feature)
PACKING_ONLY = frozenset({Feature.RUNNING, Feature.PRIORITIES, Feature.OVERLAPS, Feature.AGES})


@dataclass(frozen=True, slots=True)
class Size:
    """The most of each; `pods` are pending pods in all."""

    nodes: int
    gangs: int
    groups: int
    pods: int


TINY = Size(nodes=4, gangs=3, groups=2, pods=6)
SMALL = Size(nodes=10, gangs=6, groups=3, pods=24)


@st.composite
def snapshots(
    draw: st.DrawFn, size: Size = TINY, features: frozenset[Feature] = EVERYTHING
) -> Snapshot:
    """Snapshots with at least one node and one gang."""
    # Each example has its own selection, so that features also occur alone and shrink away.
    chosen = frozenset(f for f in sorted(features, key=lambda f: f.value) if draw(st.booleans()))
    nodes = draw(clusters(size, chosen))
    gangs: list[PodGang] = []
    pods_left = size.pods
    for index in range(draw(st.integers(1, size.gangs))):
        gang = draw(gangs_of(index, size, chosen, nodes, pods_left))
        pods_left -= sum(group.pending_count for group in gang.groups)
        gangs.append(gang)
    if Feature.BASES in chosen:
        gangs = _with_bases(gangs, draw(st.sets(st.integers(1, size.gangs))))
    running = draw(running_pods(nodes, gangs)) if chosen & _BETWEEN_PODS else ()
    now = NOW if Feature.AGES in chosen else None
    queues: tuple[Queue, ...] = ()
    if Feature.QUEUES in chosen:
        queues = draw(queue_trees())
        gangs = [_in_a_queue(gang, *draw(_memberships)) for gang in gangs]
    snapshot = Snapshot(nodes, tuple(gangs), running, as_of=now, queues=queues)
    if Feature.TOLD in chosen:
        snapshot = draw(_with_told_pods(snapshot))
    if Feature.COMPUTE_DOMAINS in chosen:
        snapshot = draw(_with_compute_domains(snapshot))
    return draw(_with_devices(snapshot)) if Feature.DEVICES in chosen else snapshot


#: Whom evictions spare, and why: a gang's fields.
_protections: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.just({}),
    st.just({}),
    st.just({"not_preemptible": True}),
    st.just({"never_preempts": True}),
    st.just({"start": NOW - 100, "minimum_run_time": 60}),
    st.just({"start": NOW - 10, "minimum_run_time_before_reclaim": 20}),
)


@st.composite
def _with_told_pods(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """The pods that run in pod sets are on their nodes, which have room for them."""
    requested = {node.name: dict(node.requested) for node in snapshot.nodes}
    for gang in snapshot.gangs:
        for group in gang.groups:
            for pod_set in group.pod_sets:
                for pod in pod_set.bound_pods:
                    for resource, amount in pod_set.template.requests.items():
                        here = requested[pod.node]
                        here[resource] = here.get(resource, 0) + amount
    nodes = []
    for node in snapshot.nodes:
        here = requested[node.name]
        grown = {r: max(node.allocatable.get(r, 0), n) for r, n in here.items()}
        nodes.append(replace(node, requested=here, allocatable={**node.allocatable, **grown}))
    selector = LabelSelector((("app", draw(st.sampled_from(APPS))),))
    budget = DisruptionBudget(
        f"namespaces/{NAMESPACE}/poddisruptionbudgets/b", selector, draw(st.integers(0, 2))
    )
    return replace(
        snapshot,
        nodes=tuple(nodes),
        gangs=tuple(replace(gang, **draw(_protections)) for gang in snapshot.gangs),
        as_of=NOW,
        disruption_budgets=(budget,) if draw(_rarely) else (),
    )


_owners = st.one_of(
    st.builds(
        ReservationOwner,
        selector=st.builds(lambda app: LabelSelector((("app", app),)), st.sampled_from(APPS)),
    ),
    st.builds(
        ReservationOwner,
        gang=st.sampled_from([f"namespaces/{NAMESPACE}/podgangs/{g}" for g in ("g0", "new0")]),
    ),
    st.builds(
        ReservationOwner,
        pod=st.sampled_from([f"namespaces/{NAMESPACE}/pods/{p}" for p in ("g0-0-0", "new0-0")]),
    ),
    st.just(ReservationOwner(namespace=NAMESPACE)),
    st.just(ReservationOwner(namespace="other")),
)


@st.composite
def with_reservations(draw: st.DrawFn, questions: st.SearchStrategy[Snapshot]) -> Snapshot:
    """Questions in which up to two nodes hold room, mostly room that is free."""
    snapshot = draw(questions)
    reservations = []
    for k in range(draw(st.integers(1, 2))):
        node = draw(st.sampled_from(snapshot.nodes))
        held = {GPU: draw(st.integers(1, 4))}
        if draw(_rarely):
            held[CPU] = 1
        free = {r: max(0, node.free(r)) for r in held}
        reservations.append(
            Reservation(
                f"reservations/r{k}",
                node.name,
                held if draw(_rarely) else {r: min(held[r], free[r]) for r in held},
                tuple(draw(st.lists(_owners, min_size=1, max_size=2, unique=True))),
                restricted=draw(st.booleans()),
                allocate_once=draw(st.booleans()),
                labels={"team": draw(st.sampled_from(APPS))},
                closed=draw(_rarely),
            )
        )

    def template(old: PodTemplate) -> PodTemplate:
        if draw(_rarely):
            return replace(old, ignores_reservations=True)
        if draw(_rarely):
            return replace(old, required_reservation=ReservationSelector("reservations/r0"))
        return old

    gangs = [
        replace(
            gang,
            groups=tuple(
                replace(
                    group,
                    pod_sets=tuple(
                        replace(s, template=template(s.template)) if s.pods else s
                        for s in group.pod_sets
                    ),
                )
                for group in gang.groups
            ),
        )
        for gang in snapshot.gangs
    ]
    return replace(snapshot, gangs=tuple(gangs), reservations=tuple(reservations))


@st.composite
def with_more_room(draw: st.DrawFn, questions: st.SearchStrategy[Snapshot]) -> Snapshot:
    """Questions with more room, and with gangs that nothing but room and rules keeps out."""
    snapshot = draw(questions)
    queues = {queue.name for queue in snapshot.queues}
    nodes = []
    for node in snapshot.nodes:
        there = {**node.allocatable, CPU: 4 * node.allocatable.get(CPU, 0)}
        if not node.devices:
            there[GPU] = max(there.get(GPU, 0), draw(st.sampled_from([0, 2, 4, 8])))
        nodes.append(replace(node, allocatable=there))
    gangs = []
    for gang in snapshot.gangs:
        groups = (
            replace(g, min_replicas=min(g.min_replicas, g.running_count + g.pending_count))
            for g in gang.groups
        )
        queue = gang.queue if gang.queue in queues else ""
        gangs.append(
            replace(gang, groups=tuple(groups), queue=queue, uninitialized=False, unsupported=())
        )
    return replace(snapshot, nodes=tuple(nodes), gangs=tuple(gangs))


#: Partitions of four devices: pairs that nest in four, pairs that overlap, single ones only.
_TABLES = (
    ((0,), (1,), (2,), (3,), (0, 1), (2, 3), (0, 1, 2, 3)),
    ((0,), (1,), (2,), (3,), (0, 1), (1, 2), (2, 3), (0, 1, 2, 3)),
    ((0,), (1,), (2,), (3,)),
)
_SHARES = (
    DeviceShare(500, 500),
    DeviceShare(300, 300),
    DeviceShare(400, 400),
    DeviceShare(600, 600),
    DeviceShare(700, 200),
    DeviceShare(0, 600),
    DeviceShare(500, 500, count=2),
    DeviceShare(0, 0, 30 << 30),
)
_RUNNING_SHARES = (
    DeviceShare(500, 500),
    DeviceShare(250, 250),
    DeviceShare(300, 300),
    DeviceShare(700, 200),
    DeviceShare(1000, 1000),
)
#: More devices of one node than the oracle can try.
_MOST_DEVICES = 5


@st.composite
def _with_devices(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """Some nodes list their GPUs one by one, and some pods want or have parts of them."""
    listable = {n.name for n in snapshot.nodes if 0 < n.allocatable.get(GPU, 0) <= _MOST_DEVICES}
    running: dict[str, list[tuple[str, int, DeviceShare | None]]] = {}
    shared: dict[str, DeviceShare] = {}
    for gang in snapshot.gangs:
        for group in gang.groups:
            for s in group.pod_sets:
                gpus = s.template.requests.get(GPU, 0)
                share = None
                alone = s.bound_pods and not s.pods
                listed = alone and all(pod.node in listable for pod in s.bound_pods)
                if gpus == 1 and listed and draw(st.booleans()):
                    share = draw(st.sampled_from(_RUNNING_SHARES))
                    shared.update((pod.name, share) for pod in s.bound_pods)
                for pod in s.bound_pods:
                    running.setdefault(pod.node, []).append((pod.name, gpus, share))
    given: dict[str, tuple[int, ...]] = {}
    nodes = []
    for node in snapshot.nodes:
        count = node.allocatable.get(GPU, 0)
        here = running.get(node.name, ())
        parts = [share for _, _, share in here if share is not None]
        if node.name not in listable or (not parts and draw(_rarely)):
            nodes.append(node)
            continue
        order: list[int] = list(range(count))
        free: list[int] = draw(st.permutations(order))
        used = {i: [0, 0] for i in order}
        told = 0
        for name, gpus, share in here:
            if share is None:
                given[name], free = tuple(sorted(free[:gpus])), free[gpus:]
                told += len(given[name])
                for i in given[name]:
                    used[i] = [1000, 1000]
            else:
                amounts = share.compute_milli, share.memory_milli
                sharing = [i for i in order if i not in free and 0 < max(used[i]) < 1000]
                room = [
                    i
                    for i in sharing
                    if all(u + a <= 1000 for u, a in zip(used[i], amounts, strict=True))
                ]
                # There is a GPU for each of them at least.
                together: bool = draw(st.booleans())
                where = room[0] if room and together else free.pop(0)
                given[name] = (where,)
                used[where] = [u + a for u, a in zip(used[where], amounts, strict=True)]
        requested = {**node.requested, GPU: node.requested.get(GPU, 0) - len(parts)}
        for i in free[: max(0, requested[GPU] - told)]:
            used[i] = [1000, 1000]
        free = free[max(0, requested[GPU] - told) :]
        if free and draw(st.integers(0, 3)) == 3:
            used[free[0]] = [500, 300]
        nics = draw(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1)))
        # Mostly alike, as the GPUs of a node are.
        memories = draw(st.sampled_from([(0,), (40 << 30,), (40 << 30,), (0, 40 << 30)]))
        devices = tuple(
            Device(
                index=i,
                healthy=i not in free or draw(st.integers(0, 7)) < 7,
                used_milli=used[i][0],
                used_memory_milli=used[i][1],
                memory_bytes=draw(st.sampled_from(memories)),
                pcie_switch=f"s{i // 2}" if i < 4 else "",
                nics=nics[i // 2],
            )
            for i in range(count)
        )
        table = [p for p in draw(st.sampled_from(_TABLES)) if max(p) < count]
        scores = st.integers(0, draw(st.integers(0, 1)))
        nodes.append(
            replace(
                node,
                requested=requested,
                devices=devices,
                partitions=tuple(DevicePartition(p, draw(scores), draw(scores)) for p in table)
                if draw(st.booleans())
                else (),
                partition_policy=draw(st.sampled_from(PartitionPolicy)),
            )
        )

    def bound(s: PodSet) -> PodSet:
        pods = tuple(replace(pod, devices=given.get(pod.name, ())) for pod in s.bound_pods)
        template = s.template
        gpus = template.requests.get(GPU, 0)
        share = shared.get(pods[0].name) if pods else None
        if gpus and not pods and draw(st.booleans()):
            if draw(st.integers(0, 2)) == 2:
                required = RequiredPartition(draw(st.booleans()), draw(st.integers(0, 1)))
                template = replace(template, required_partition=required)
            elif draw(st.booleans()):
                template = replace(template, same_pcie_nics=draw(st.integers(1, 2)))
            else:
                share = draw(st.sampled_from(_SHARES))
        if share is not None:
            rest = {r: n for r, n in template.requests.items() if r != GPU}
            template = replace(template, requests=rest, device_share=share)
        return replace(s, template=template, bound_pods=pods)

    return replace(snapshot, nodes=tuple(nodes), gangs=_with_sets(snapshot, bound))


@st.composite
def _with_compute_domains(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """Some nodes serve a ComputeDomain, some pods are in one."""
    names = st.sampled_from(["", "", "d", "e"])
    nodes = tuple(replace(node, compute_domain=draw(names)) for node in snapshot.nodes)

    def told(s: PodSet) -> PodSet:
        return replace(s, template=replace(s.template, compute_domain=draw(names)))

    return replace(snapshot, nodes=nodes, gangs=_with_sets(snapshot, told))


def _with_sets(snapshot: Snapshot, change: Callable[[PodSet], PodSet]) -> tuple[PodGang, ...]:
    return tuple(
        replace(
            gang,
            groups=tuple(
                replace(group, pod_sets=tuple(map(change, group.pod_sets))) for group in gang.groups
            ),
        )
        for gang in snapshot.gangs
    )


_memberships = st.tuples(
    st.sampled_from(["", "queues/a", "queues/b", "queues/c", "queues/c"]), st.booleans()
)


def _in_a_queue(gang: PodGang, queue: str, fixed: bool) -> PodGang:
    return replace(gang, queue=queue, not_preemptible=fixed)


@st.composite
def queue_trees(draw: st.DrawFn) -> tuple[Queue, ...]:
    """Queues a and b, with c in one of them; gangs may also name one that is not there."""
    limits = st.dictionaries(st.sampled_from([GPUS, CPU]), st.integers(0, 8), max_size=2)
    amounts: st.SearchStrategy[dict[str, int]] = st.one_of(st.just({}), limits)
    queues = [
        Queue(
            f"queues/{name}",
            parent,
            limit=draw(amounts),
            guaranteed=draw(amounts),
            used=draw(st.sampled_from([{}, {}, {GPUS: 2}])),
        )
        for name, parent in (("a", ""), ("b", ""), ("c", draw(st.sampled_from(["queues/a", ""]))))
    ]
    return tuple(queues[: draw(st.sampled_from([3, 3, 2]))])


@st.composite
def full_clusters(
    draw: st.DrawFn, size: Size = Size(nodes=3, gangs=2, groups=1, pods=3)
) -> Snapshot:
    """Nodes of four GPUs, mostly full of gangs that may give way, and gangs that want in."""
    nodes = [
        Node(
            f"nodes/n{i}",
            {HOSTNAME: f"n{i}", "rack": f"r{i // 2}"},
            {GPU: 4, PODS: 110},
        )
        for i in range(draw(st.integers(1, size.nodes)))
    ]
    running: dict[tuple[int, int], list[BoundPod]] = {}
    for node in nodes:
        left = draw(st.sampled_from([4, 4, 4, 3, 2, 2]))
        while left:
            gang = draw(st.integers(0, 1))
            gpus = draw(st.sampled_from([g for g in (1, 2, 4) if g <= left]))
            pods = running.setdefault((gang, gpus), [])
            name = f"namespaces/{NAMESPACE}/pods/old{gang}-{gpus}-{len(pods)}"
            pods.append(BoundPod(name, node.name))
            left -= gpus
    gangs = []
    for gang in sorted({gang for gang, _ in running}):
        sets = tuple(
            PodSet(_asks(gpus), (), tuple(pods))
            for (mine, gpus), pods in sorted(running.items())
            if mine == gang
        )
        count = sum(len(s.bound_pods) for s in sets)
        minimum = draw(st.one_of(st.just(count), st.integers(0, count)))
        gangs.append(_one_group(f"old{gang}", minimum, sets, draw(st.integers(0, 1))))
    pods_left = size.pods
    for index in range(draw(st.integers(1, size.gangs))):
        count = draw(st.integers(1, max(1, pods_left)))
        pods_left -= count
        names = (f"namespaces/{NAMESPACE}/pods/new{index}-{i}" for i in range(count))
        waiting = (PodSet(_asks(draw(st.sampled_from([1, 2, 4]))), tuple(map(Pod, names))),)
        minimum = draw(st.one_of(st.just(count), st.integers(1, count)))
        gangs.append(_one_group(f"new{index}", minimum, waiting, draw(st.integers(0, 2))))
        if pods_left <= 0:
            break
    queues: tuple[Queue, ...] = ()
    if draw(st.booleans()):
        queues = draw(queue_trees())
        gangs = [_in_a_queue(gang, *draw(_memberships)) for gang in gangs]
    snapshot = draw(_with_told_pods(Snapshot(tuple(nodes), tuple(gangs), queues=queues)))
    return draw(_with_devices(snapshot)) if draw(st.booleans()) else snapshot


def _asks(gpus: int) -> PodTemplate:
    return PodTemplate({GPU: gpus, PODS: 1}, {"app": "a" if gpus == 1 else "b"})


def _one_group(name: str, minimum: int, sets: tuple[PodSet, ...], priority: int) -> PodGang:
    return PodGang(
        f"namespaces/{NAMESPACE}/podgangs/{name}", (PodGroup("w", minimum, sets),), priority
    )


_BETWEEN_PODS = {Feature.ANTI_AFFINITY, Feature.AFFINITY, Feature.SPREAD}


@st.composite
def clusters(draw: st.DrawFn, size: Size, features: frozenset[Feature]) -> tuple[Node, ...]:
    """Nodes of a few kinds, in racks and blocks that mostly nest, some labels missing."""
    count = draw(st.integers(1, size.nodes))
    per_rack = draw(st.integers(1, 3))
    nested = draw(st.integers(0, 3)) > 0
    gpus = draw(st.lists(st.sampled_from([0, 1, 2, 4, 8]), min_size=1, max_size=2))
    nodes = []
    for index in range(count):
        rack = index // per_rack
        block = rack // 2 if nested else draw(st.integers(0, 2))
        labels = {HOSTNAME: f"n{index}", "rack": f"r{rack}", "block": f"b{block}"}
        for level in LEVELS:
            if draw(_rarely):
                del labels[level]
        node = draw(nodes_of(f"nodes/n{index}", gpus, features))
        nodes.append(replace(node, labels={**node.labels, **labels}))
    return tuple(nodes)


_rarely = st.integers(0, 7).map(lambda n: n == 7)


@st.composite
def nodes_of(draw: st.DrawFn, name: str, gpus: list[int], features: frozenset[Feature]) -> Node:
    """A node without topology labels, often empty, sometimes used or even overfull."""
    size = draw(st.sampled_from(gpus))
    used = draw(st.sampled_from([0, 0, 0, 1, 2]))
    node = Node(
        name=name,
        allocatable={CPU: 4, PODS: draw(st.sampled_from([110, 110, 110, 2])), GPU: size},
        requested={GPU: used, PODS: used, CPU: draw(st.sampled_from([0, 0, 1, 3]))},
    )
    if Feature.NODE_RULES in features:
        node = replace(
            node,
            labels={"model": draw(st.sampled_from(["old", "new"]))},
            taints=(Taint("gpu", "", Effect.NO_SCHEDULE),) if draw(_rarely) else (),
            unschedulable=draw(_rarely),
            ready=not draw(_rarely),
        )
    if Feature.HOST_PORTS in features and draw(_rarely):
        node = replace(node, host_ports=(draw(host_ports),))
    return node


host_ports = st.builds(
    HostPort, st.sampled_from([80, 81]), st.just("TCP"), st.sampled_from(["", "", "10.0.0.1"])
)


@st.composite
def gangs_of(
    draw: st.DrawFn,
    index: int,
    size: Size,
    features: frozenset[Feature],
    nodes: tuple[Node, ...],
    pods_left: int,
) -> PodGang:
    """A gang with up to `pods_left` pending pods."""
    name = f"g{index}"
    groups: list[PodGroup] = []
    for k in range(draw(st.integers(1, size.groups))):
        group = draw(groups_of(f"{name}-{k}", pods_left, features, nodes))
        pods_left -= group.pending_count
        groups.append(group)
    previous: tuple[str, ...] = ()
    if Feature.PREVIOUS_NODES in features:
        homes = [node.name for node in nodes] + ["nodes/gone"]
        previous = tuple(draw(st.lists(st.sampled_from(homes), max_size=2)))
    return PodGang(
        name=f"namespaces/{NAMESPACE}/podgangs/{name}",
        groups=tuple(groups),
        priority=draw(st.integers(0, 2)) if Feature.PRIORITIES in features else 0,
        packing_scopes=draw(scopes_of([g.name for g in groups], features)),
        uninitialized=Feature.NODE_RULES in features and draw(_rarely),
        previous_nodes=previous,
        created=NOW - draw(st.sampled_from(AGES)) if Feature.AGES in features else None,
        unsupported=("pod: spec.magic",)
        if Feature.NODE_RULES in features and draw(_rarely)
        else (),
    )


@st.composite
def groups_of(
    draw: st.DrawFn, prefix: str, most: int, features: frozenset[Feature], nodes: tuple[Node, ...]
) -> PodGroup:
    """A group whose minimum may be above, below or at what there is."""
    count = draw(st.integers(0, min(most, 4)))
    pods = tuple(Pod(f"namespaces/{NAMESPACE}/pods/{prefix}-{i}") for i in range(count))
    split = draw(st.integers(0, count)) if Feature.MIXED_SETS in features else count
    pod_sets = tuple(
        PodSet(draw(templates(features)), part) for part in (pods[:split], pods[split:]) if part
    )
    if Feature.TOLD in features and draw(st.booleans()):
        pod_sets = draw(_told(prefix, pod_sets, features, nodes))
    bound: tuple[BoundPod, ...] = ()
    if Feature.RUNNING in features:
        homes = [node.name for node in nodes] + ["nodes/gone"]
        where = draw(st.lists(st.sampled_from(homes), max_size=2)) if draw(st.booleans()) else []
        bound = tuple(
            BoundPod(f"namespaces/{NAMESPACE}/pods/{prefix}-bound-{i}", node)
            for i, node in enumerate(where)
        )
    total = count + len(bound) + sum(len(s.bound_pods) for s in pod_sets)
    minimum = draw(st.one_of(st.just(total), st.integers(0, total), st.integers(0, total + 1)))
    return PodGroup(prefix, minimum, pod_sets, bound)


@st.composite
def _told(
    draw: st.DrawFn,
    prefix: str,
    pod_sets: tuple[PodSet, ...],
    features: frozenset[Feature],
    nodes: tuple[Node, ...],
) -> tuple[PodSet, ...]:
    """Pods that run and whose template is told: of a set that waits, or of their own."""
    homes = draw(st.lists(st.sampled_from([n.name for n in nodes]), min_size=1, max_size=3))
    told = tuple(
        BoundPod(f"namespaces/{NAMESPACE}/pods/{prefix}-told-{i}", node)
        for i, node in enumerate(homes)
    )
    joined = draw(st.booleans())
    if pod_sets and joined:
        return (replace(pod_sets[0], bound_pods=told), *pod_sets[1:])
    return (*pod_sets, PodSet(draw(templates(features)), (), told))


@st.composite
def templates(draw: st.DrawFn, features: frozenset[Feature]) -> PodTemplate:
    """What one pod asks for; most ask for GPUs and nothing else."""
    gpus = draw(st.sampled_from([1, 2, 4, 8]))
    if Feature.CPU_ONLY in features and draw(st.booleans()):
        gpus = 0
    requests = {PODS: 1, CPU: draw(st.sampled_from([0, 1, 2])), GPU: gpus}
    template = PodTemplate(
        requests={name: amount for name, amount in requests.items() if amount},
        labels={"app": draw(st.sampled_from(APPS))},
    )
    if Feature.NODE_RULES in features:
        template = replace(
            template,
            node_selector=(("model", "new"),) if draw(_rarely) else (),
            required_node_affinity=draw(st.one_of(st.none(), st.none(), _node_affinity)),
            tolerations=(Toleration("gpu", True, "", None),) if draw(st.booleans()) else (),
        )
    if Feature.HOST_PORTS in features and draw(st.booleans()):
        template = replace(template, host_ports=(draw(host_ports),))
    if Feature.ANTI_AFFINITY in features and draw(st.booleans()):
        terms = draw(st.lists(affinity_terms, min_size=1, max_size=2))
        template = replace(template, required_anti_affinity=tuple(terms))
    if Feature.AFFINITY in features and draw(st.booleans()):
        template = replace(template, required_affinity=(draw(affinity_terms),))
    if Feature.SPREAD in features and draw(st.booleans()):
        template = replace(template, spread_constraints=(draw(spread_constraints),))
    return template


_node_affinity = st.tuples(
    st.builds(
        lambda operator, value: NodeSelectorTerm((Requirement("model", operator, (value,)),)),
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.sampled_from(["old", "new"]),
    )
)

selectors = st.one_of(
    st.builds(lambda app: LabelSelector((("app", app),)), st.sampled_from(APPS)),
    st.just(LabelSelector()),
    st.just(LabelSelector(match_expressions=(Requirement("app", Operator.NOT_IN, ("a",)),))),
)

#: Levels of rules between pods: a node, a rack, or a key that no node has.
_keys = st.sampled_from([HOSTNAME, HOSTNAME, "rack", "rack", "block", "nowhere"])

affinity_terms = st.builds(
    PodAffinityTerm,
    selector=st.one_of(selectors, selectors, selectors, st.none()),
    topology_key=_keys,
    namespaces=st.sampled_from([(NAMESPACE,), (NAMESPACE,), ("other",)]),
    all_namespaces=_rarely,
)

spread_constraints = st.builds(
    SpreadConstraint,
    max_skew=st.integers(1, 2),
    topology_key=_keys,
    selector=selectors,
    namespace=st.just(NAMESPACE),
    min_domains=st.integers(1, 3),
    ignore_node_affinity=st.booleans(),
    honor_taints=st.booleans(),
)


@st.composite
def scopes_of(
    draw: st.DrawFn, groups: list[str], features: frozenset[Feature]
) -> tuple[PackingScope, ...]:
    """Scopes over the gang, over single groups and, with OVERLAPS, over any groups."""
    levels = st.sampled_from(["", "rack", "block", HOSTNAME])
    covered = [tuple(groups), *((group,) for group in groups)]
    if Feature.OVERLAPS in features:
        covered.append(tuple(draw(st.lists(st.sampled_from(groups), min_size=1, unique=True))))
    scopes = []
    for index, cover in enumerate(covered):
        required, preferred = draw(levels), draw(levels)
        # Half of the scopes ask for nothing, or contradictions would be the rule.
        if (required or preferred) and draw(st.booleans()):
            scopes.append(PackingScope(f"s{index}", cover, required, preferred))
    return tuple(scopes)


@st.composite
def running_pods(
    draw: st.DrawFn, nodes: tuple[Node, ...], gangs: list[PodGang]
) -> tuple[RunningPod, ...]:
    """Pods that rules between pods can see: all bound pods of gangs, and some others."""
    homes = [node.name for node in nodes] + ["nodes/gone"]
    where = [
        (pod.name, pod.node) for gang in gangs for group in gang.groups for pod in group.fixed_pods
    ]
    for index, node in enumerate(draw(st.lists(st.sampled_from(homes), max_size=2))):
        where.append((f"namespaces/{NAMESPACE}/pods/other-{index}", node))
    told = tuple(
        RunningPod(pod.name, pod.node, s.template.labels, s.template.required_anti_affinity)
        for gang in gangs
        for group in gang.groups
        for s in group.pod_sets
        for pod in s.bound_pods
    )
    return told + tuple(
        RunningPod(
            name=name,
            node=node,
            labels={"app": draw(st.sampled_from(APPS))},
            required_anti_affinity=(draw(affinity_terms),) if draw(_rarely) else (),
        )
        for name, node in where
    )


def _with_bases(gangs: list[PodGang], scaled: set[int]) -> list[PodGang]:
    """Let some gangs be based on the first one."""
    return [
        replace(gang, base_gang=gangs[0].name) if index in scaled else gang
        for index, gang in enumerate(gangs)
    ]


@st.composite
def permuted(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """The same question with nodes, gangs, groups, scopes and running pods in another order."""
    gangs = draw(st.permutations(snapshot.gangs))
    return replace(
        snapshot,
        nodes=tuple(draw(st.permutations(snapshot.nodes))),
        gangs=tuple(
            replace(gang, groups=tuple(draw(st.permutations(gang.groups)))) for gang in gangs
        ),
        running_pods=tuple(draw(st.permutations(snapshot.running_pods))),
        queues=tuple(draw(st.permutations(snapshot.queues))),
        as_of=snapshot.as_of,
    )


def renamed(snapshot: Snapshot) -> Snapshot:
    """The same question with other names for nodes, gangs and pods, in reverse sort order."""

    def new(name: str) -> str:
        head, _, tail = name.rpartition("/")
        return f"{head}/{''.join(chr(219 - ord(c)) if c.isalpha() else c for c in tail)}-renamed"

    def group(old: PodGroup) -> PodGroup:
        return replace(
            old,
            pod_sets=tuple(
                replace(
                    s,
                    pods=tuple(pod._replace(name=new(pod.name)) for pod in s.pods),
                    bound_pods=tuple(
                        replace(pod, name=new(pod.name), node=new(pod.node)) for pod in s.bound_pods
                    ),
                )
                for s in old.pod_sets
            ),
            fixed_pods=tuple(BoundPod(new(pod.name), new(pod.node)) for pod in old.fixed_pods),
        )

    return replace(
        snapshot,
        nodes=tuple(
            replace(
                node,
                name=new(node.name),
                labels={**node.labels, HOSTNAME: new(node.labels[HOSTNAME]).lstrip("/")},
            )
            for node in snapshot.nodes
        ),
        gangs=tuple(
            replace(
                gang,
                name=new(gang.name),
                groups=tuple(group(g) for g in gang.groups),
                base_gang=new(gang.base_gang) if gang.base_gang else "",
                previous_nodes=tuple(new(node) for node in gang.previous_nodes),
            )
            for gang in snapshot.gangs
        ),
        running_pods=tuple(
            replace(pod, name=new(pod.name), node=new(pod.node)) for pod in snapshot.running_pods
        ),
        as_of=snapshot.as_of,
    )
