"""Rules that are added to a question, one function for each."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

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
    BoundPod,
    HostPort,
    Node,
    PodAffinityTerm,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    RunningPod,
    Snapshot,
    SpreadConstraint,
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
from tests.medium.gangs import APPS
from tests.medium.tastes import Has
from tests.strategies.words import GPU, NAMESPACE, NOW, with_sets

Change = Callable[[random.Random, Snapshot], Snapshot]


def _with_queues(rng: random.Random, snapshot: Snapshot) -> Snapshot:
    """Two trees of up to three levels; limits and guarantees are shares of all GPUs."""
    every = sum(n.allocatable.get(GPU, 0) for n in snapshot.nodes)
    cores = sum(n.allocatable.get(CPU, 0) for n in snapshot.nodes)

    def amounts(chance: float) -> dict[str, int]:
        some = {
            GPUS: round(every * rng.choice((0, 0.05, 0.1, 0.25, 0.5))),
            CPU: round(cores * rng.choice((0.1, 0.3, 0.6))),
        }
        return {
            r: n for r, n in some.items() if rng.random() < (chance if r == GPUS else chance / 3)
        }

    queues: list[Queue] = []
    leaves = ["", "queues/nowhere"] if rng.random() < 0.1 else [""] * (rng.random() < 0.3)
    for tree in "ab":
        shape = [(f"queues/{tree}", "")]
        for k in range(rng.randint(0, 3)):
            shape.append((f"queues/{tree}{k}", rng.choice(shape)[0]))
        queues += [Queue(n, p, limit=amounts(0.5), guaranteed=amounts(0.6)) for n, p in shape]
        leaves += [n for n, _ in shape]
    gangs = (
        replace(
            g, queue=rng.choice(leaves), not_preemptible=g.not_preemptible or rng.random() < 0.1
        )
        for g in snapshot.gangs
    )
    return replace(snapshot, queues=tuple(queues), gangs=tuple(gangs))


def _with_reservations(rng: random.Random, snapshot: Snapshot) -> Snapshot:
    """Room for pods of some gangs, mostly as much as they ask for and on nodes with room."""
    found: list[Reservation] = []
    free = {n.name: {r: n.free(r) for r in n.allocatable} for n in snapshot.nodes}
    for i in range(rng.choice((1, 3, 8, 20)) * max(1, len(snapshot.nodes) // 400)):
        gang = rng.choice(snapshot.gangs)
        template = rng.choice(rng.choice(gang.groups).pod_sets).template
        node = rng.choice(snapshot.nodes)
        times = rng.choice((1, 1, 2))
        held = {r: times * n for r, n in template.requests.items() if r != "pods"}
        left = free[node.name]
        if any(left.get(r, 0) < n for r, n in held.items()) and rng.random() < 0.95:
            continue
        for r, n in held.items():
            left[r] = left.get(r, 0) - n
        owner = rng.choice(
            (
                ReservationOwner(gang=gang.name),
                ReservationOwner(gang=gang.name),
                ReservationOwner(namespace=gang.namespace),
                ReservationOwner(selector=LabelSelector((("app", rng.choice(APPS)),))),
            )
        )
        found.append(
            Reservation(
                f"reservations/r{i}",
                node.name,
                held,
                (owner,),
                restricted=rng.random() < 0.4,
                allocate_once=rng.random() < 0.4,
                labels={"team": rng.choice(APPS)},
                closed=rng.random() < 0.05,
            )
        )
    names = [r.name for r in found]

    def told(s: PodSet) -> PodSet:
        if s.bound_pods or not names or rng.random() < 0.95:
            return s
        if rng.random() < 0.5:
            return replace(s, template=replace(s.template, ignores_reservations=True))
        wanted = ReservationSelector(rng.choice(names))
        return replace(s, template=replace(s.template, required_reservation=wanted))

    return replace(snapshot, gangs=with_sets(snapshot, told), reservations=tuple(found))


def _with_avoided_nodes(rng: random.Random, snapshot: Snapshot) -> Snapshot:
    """Some gangs avoid a few nodes by name."""
    names = [n.short_name for n in snapshot.nodes]

    def avoiding(gang: PodGang) -> PodGang:
        if rng.random() < 0.5:
            return gang
        some = tuple(rng.sample(names, rng.randint(1, min(4, len(names)))))
        term = NodeSelectorTerm((Requirement(HOSTNAME, Operator.NOT_IN, some),))
        return _with_templates(gang, lambda t: replace(t, required_node_affinity=(term,)))

    return replace(snapshot, gangs=tuple(map(avoiding, snapshot.gangs)))


def _with_rules_between_pods(rng: random.Random, snapshot: Snapshot) -> Snapshot:
    """Gangs that avoid others or their own kind, go near others, or spread."""
    levels = sorted({key for n in snapshot.nodes for key in n.labels if key != "model"})
    share = rng.choice((0.1, 0.5))

    def ruled(namespace: str, t: PodTemplate) -> PodTemplate:
        selector = LabelSelector((("app", rng.choice(APPS)),))
        key = rng.choice([HOSTNAME, *levels])
        term = PodAffinityTerm(selector, key, (NAMESPACE,))
        match rng.randrange(4):
            case 0 | 1:
                return replace(t, required_anti_affinity=(replace(term, topology_key=HOSTNAME),))
            case 2:
                return replace(t, required_affinity=(term,))
            case _:
                spread = SpreadConstraint(rng.randint(1, 2), key, selector, namespace)
                return replace(t, spread_constraints=(spread,))

    gangs = tuple(
        _with_templates(g, partial(ruled, g.namespace)) if rng.random() < share else g
        for g in snapshot.gangs
    )
    return replace(snapshot, gangs=gangs)


def _with_host_ports(rng: random.Random, snapshot: Snapshot) -> Snapshot:
    def ported(t: PodTemplate) -> PodTemplate:
        return replace(t, host_ports=(HostPort(rng.choice((80, 81))),))

    gangs = tuple(_with_templates(g, ported) if rng.random() < 0.3 else g for g in snapshot.gangs)
    return replace(snapshot, gangs=gangs)


def _with_compute_domains(rng: random.Random, snapshot: Snapshot) -> Snapshot:
    """A ComputeDomain for some gangs each, or for a few of them together."""
    own = rng.random() < 0.5

    def joined(k: int, gang: PodGang) -> PodGang:
        if rng.random() < 0.4:
            return gang
        name = f"d{k}" if own else f"d{k % 4}"
        return _with_templates(gang, lambda t: replace(t, compute_domain=name))

    gangs = tuple(joined(k, gang) for k, gang in enumerate(snapshot.gangs))
    serves: dict[str, dict[str, int]] = {}
    for gang in gangs:
        for group in gang.groups:
            for s in group.pod_sets:
                for pod in s.bound_pods if s.template.compute_domain else ():
                    here = serves.setdefault(pod.node, {})
                    here[s.template.compute_domain] = here.get(s.template.compute_domain, 0) + 1
    nodes = []
    for node in snapshot.nodes:
        here = serves.get(node.name, {})
        if len(here) > 1:
            # Two of them on one node: none of these gangs may be in any.
            return snapshot
        for domain, pods in here.items():
            node = replace(node, compute_domain=domain, compute_domain_pods=pods)
        if not here and rng.random() < 0.05:
            node = replace(node, compute_domain=rng.choice(("d0", "d1", "gone")))
        nodes.append(node)
    return replace(snapshot, nodes=tuple(nodes), gangs=gangs)


def _with_devices(rng: random.Random, snapshot: Snapshot) -> Snapshot:
    """Nodes list their GPUs; pods want partitions and shares of them."""
    tables: list[tuple[tuple[int, ...], ...]] = [()]
    halves: tuple[tuple[int, ...], ...] = (
        (0, 1),
        (2, 3),
        (4, 5),
        (6, 7),
        (0, 1, 2, 3),
        (4, 5, 6, 7),
    )
    tables.append((*((i,) for i in range(8)), *halves, tuple(range(8))))
    policy = rng.choice(tuple(PartitionPolicy))
    table = rng.choice(tables)
    running: dict[str, list[tuple[str, int]]] = {}
    for gang in snapshot.gangs:
        for group in gang.groups:
            for s in group.pod_sets:
                for pod in s.bound_pods:
                    running.setdefault(pod.node, []).append(
                        (pod.name, s.template.requests.get(GPU, 0))
                    )
    given: dict[str, tuple[int, ...]] = {}
    nodes = []
    for node in snapshot.nodes:
        count = node.allocatable.get(GPU, 0)
        if not 0 < count <= 8:
            nodes.append(node)
            continue
        free = list(range(count))
        for name, gpus in running.get(node.name, ()):
            given[name], free = tuple(free[:gpus]), free[gpus:]
        told = sum(gpus for _, gpus in running.get(node.name, ()))
        # What else is in use there.
        others = max(0, node.requested.get(GPU, 0) - told)
        left = free[others:]
        devices = tuple(
            Device(
                i,
                healthy=i not in left or rng.random() > 0.02,
                used_milli=0 if i in left else 1000,
                used_memory_milli=0 if i in left else 1000,
                memory_bytes=80 << 30,
                pcie_switch=f"s{i // 2}",
            )
            for i in range(count)
        )
        partitions = tuple(DevicePartition(p, len(p)) for p in table if max(p) < count)
        nodes.append(replace(node, devices=devices, partitions=partitions, partition_policy=policy))
    shares = rng.random() < 0.5

    def told_devices(s: PodSet) -> PodSet:
        bound = tuple(replace(pod, devices=given.get(pod.name, ())) for pod in s.bound_pods)
        template, gpus = s.template, s.template.requests.get(GPU, 0)
        if not bound and gpus and rng.random() < 0.2:
            if gpus == 1 and shares:
                milli = rng.choice((250, 500, 500, 300))
                rest = {r: n for r, n in template.requests.items() if r != GPU}
                share = DeviceShare(milli, milli)
                template = replace(template, requests=rest, device_share=share)
            elif gpus in (1, 2, 4, 8) and table:
                template = replace(template, required_partition=RequiredPartition())
        return replace(s, template=template, bound_pods=bound)

    return replace(snapshot, nodes=tuple(nodes), gangs=with_sets(snapshot, told_devices))


def _with_previous_nodes(rng: random.Random, snapshot: Snapshot) -> Snapshot:
    names = [*(n.name for n in snapshot.nodes), "nodes/gone"]
    gangs = (
        replace(g, previous_nodes=tuple(rng.choices(names, k=rng.randint(1, 4))))
        if rng.random() < 0.4
        else g
        for g in snapshot.gangs
    )
    return replace(snapshot, gangs=tuple(gangs))


def _with_fixed_pods(rng: random.Random, snapshot: Snapshot) -> Snapshot:
    """Some gangs that wait have pods that run, of which nothing is known but where."""

    def fixed(gang: PodGang, group: PodGroup, node: Node) -> PodGroup:
        name = f"namespaces/{gang.namespace}/pods/{gang.name.rsplit('/', 1)[1]}-{group.name}-fixed"
        return replace(
            group,
            min_replicas=group.min_replicas + rng.randint(0, 1),
            fixed_pods=(BoundPod(name, node.name),),
        )

    gangs = []
    for gang in snapshot.gangs:
        runs = any(group.running_count for group in gang.groups)
        if not runs and rng.random() < 0.15:
            node = rng.choice(snapshot.nodes)
            gang = replace(gang, groups=tuple(fixed(gang, g, node) for g in gang.groups))
        gangs.append(gang)
    return replace(snapshot, gangs=tuple(gangs))


def _protected(rng: random.Random, snapshot: Snapshot) -> Snapshot:
    """Some gangs that run must not be disturbed, or only so many of their pods."""

    def kept(gang: PodGang) -> PodGang:
        match rng.randrange(6):
            case 0:
                return replace(gang, not_preemptible=True)
            case 1:
                ran = rng.choice((10, 100))
                return replace(gang, start=NOW - ran, minimum_run_time=60)
            case 2:
                return replace(gang, never_preempts=True)
            case _:
                return gang

    budgets = tuple(
        DisruptionBudget(
            f"namespaces/{NAMESPACE}/poddisruptionbudgets/{app}",
            LabelSelector((("app", app),)),
            rng.choice((0, 2, 5, 20)),
        )
        for app in APPS
        if rng.random() < 0.3
    )
    gangs = tuple(map(kept, snapshot.gangs))
    return replace(snapshot, gangs=gangs, disruption_budgets=budgets)


def _hopeless(rng: random.Random, snapshot: Snapshot) -> Snapshot:
    """Some gangs ask for more than there is, or wait for what never comes."""

    def never(gang: PodGang) -> PodGang:
        if any(group.running_count for group in gang.groups) or rng.random() < 0.8:
            return gang
        match rng.randrange(4):
            case 0:
                return _with_templates(
                    gang, lambda t: replace(t, requests={**t.requests, GPU: 1000})
                )
            case 1:
                return replace(gang, uninitialized=True)
            case 2:
                groups = (replace(g, min_replicas=g.min_replicas + 1) for g in gang.groups)
                return replace(gang, groups=tuple(groups))
            case _:
                return replace(gang, unsupported=("spec.something",))

    return replace(snapshot, gangs=tuple(map(never, snapshot.gangs)))


def all_that_runs(snapshot: Snapshot) -> Snapshot:
    """What rules between pods see: the pods that run, by their names, labels and terms."""
    told = []
    for gang in snapshot.gangs:
        for group in gang.groups:
            told += [RunningPod(pod.name, pod.node) for pod in group.fixed_pods]
            for s in group.pod_sets:
                t = s.template
                told += [
                    RunningPod(pod.name, pod.node, t.labels, t.required_anti_affinity)
                    for pod in s.bound_pods
                ]
    return replace(snapshot, running_pods=tuple(told))


def _with_templates(gang: PodGang, change: Callable[[PodTemplate], PodTemplate]) -> PodGang:
    """The gang with other templates; those that are equal stay so."""
    made: dict[PodTemplate, PodTemplate] = {}

    def changed(s: PodSet) -> PodSet:
        if s.template not in made:
            made[s.template] = change(s.template)
        return replace(s, template=made[s.template])

    groups = (replace(g, pod_sets=tuple(map(changed, g.pod_sets))) for g in gang.groups)
    return replace(gang, groups=tuple(groups))


RULES: Mapping[Has, Change] = {
    Has.QUEUES: _with_queues,
    Has.AVOIDED_NODES: _with_avoided_nodes,
    Has.RULES_BETWEEN_PODS: _with_rules_between_pods,
    Has.HOST_PORTS: _with_host_ports,
    Has.COMPUTE_DOMAINS: _with_compute_domains,
    Has.DEVICES: _with_devices,
    Has.RESERVATIONS: _with_reservations,
    Has.PREVIOUS_NODES: _with_previous_nodes,
    Has.FIXED: _with_fixed_pods,
    Has.PROTECTED: _protected,
    Has.HOPELESS: _hopeless,
}
