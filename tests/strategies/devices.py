"""Nodes that list their devices, pods that want parts of them, and ComputeDomains."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import strategies as st

from placement_service.entities.devices import (
    Device,
    DevicePartition,
    DeviceShare,
    PartitionPolicy,
    RequiredPartition,
)
from placement_service.entities.request import PodSet, Snapshot
from tests.strategies.words import GPU, rarely, with_sets

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
def with_devices(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
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
        if node.name not in listable or (not parts and draw(rarely)):
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

    return replace(snapshot, nodes=tuple(nodes), gangs=with_sets(snapshot, bound))


@st.composite
def with_compute_domains(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """Some nodes serve a ComputeDomain, some pods are in one."""
    names = st.sampled_from(["", "", "d", "e"])
    nodes = tuple(replace(node, compute_domain=draw(names)) for node in snapshot.nodes)

    def told(s: PodSet) -> PodSet:
        return replace(s, template=replace(s.template, compute_domain=draw(names)))

    snapshot = replace(snapshot, nodes=nodes, gangs=with_sets(snapshot, told))
    return snapshot if draw(rarely) else draw(with_served_domains(snapshot))


@st.composite
def with_served_domains(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """Nodes serve the ComputeDomains of the pods on them, and mostly say how many these are."""
    members: dict[str, Counter[str]] = {}
    for gang in snapshot.gangs:
        for group in gang.groups:
            for s in group.pod_sets:
                for pod in s.bound_pods if s.template.compute_domain else ():
                    here = members.setdefault(pod.node, Counter())
                    here[s.template.compute_domain] += 1
    nodes = []
    for node in snapshot.nodes:
        for domain, pods in members.get(node.name, Counter()).most_common(1):
            untold = draw(rarely)
            known = not draw(rarely)
            count = (pods + untold) * known
            node = replace(node, compute_domain=domain, compute_domain_pods=count)
        nodes.append(node)
    return replace(snapshot, nodes=tuple(nodes))
