"""Nodes that list their devices, pods that want parts of them, and ComputeDomains."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from hypothesis import strategies as st

from placement_service.entities.devices import (
    Device,
    DevicePartition,
    DeviceShare,
    PartitionPolicy,
    RequiredPartition,
)
from placement_service.entities.request import Node, PodSet, Snapshot
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


class _RunningPod(NamedTuple):
    """Whole GPUs, or a share of some."""

    name: str
    gpus: int
    share: DeviceShare | None


class _Gpus:
    """The GPUs of a node while they are given out, the first `free` ones first."""

    def __init__(self, free: list[int]) -> None:
        self.free = free
        #: Compute and memory in use, in thousandths.
        self.used = {i: (0, 0) for i in sorted(free)}

    def take(self, count: int) -> tuple[int, ...]:
        """So many whole ones."""
        taken, self.free = self.free[:count], self.free[count:]
        self.used |= dict.fromkeys(taken, (1000, 1000))
        return tuple(sorted(taken))

    def share(self, share: DeviceShare, *, together: bool) -> tuple[int, ...]:
        """One for a share, `together` with others where there is room. There is a GPU for each
        share at least.
        """
        amounts = share.compute_milli, share.memory_milli
        room = [
            i
            for i, used in self.used.items()
            if i not in self.free
            and 0 < max(used) < 1000
            and all(u + a <= 1000 for u, a in zip(used, amounts, strict=True))
        ]
        where = room[0] if room and together else self.free.pop(0)
        compute, memory = self.used[where]
        self.used[where] = compute + share.compute_milli, memory + share.memory_milli
        return (where,)


@st.composite
def with_devices(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """Some nodes list their GPUs one by one, and some pods want or have parts of them."""
    listable = {n.name for n in snapshot.nodes if 0 < n.allocatable.get(GPU, 0) <= _MOST_DEVICES}
    running: defaultdict[str, list[_RunningPod]] = defaultdict(list)
    for gang in snapshot.gangs:
        for group in gang.groups:
            for s in group.pod_sets:
                share = _running_share(draw, s, listable)
                gpus = s.template.requests.get(GPU, 0)
                for pod in s.bound_pods:
                    running[pod.node].append(_RunningPod(pod.name, gpus, share))
    given: dict[str, tuple[int, ...]] = {}
    nodes = []
    for node in snapshot.nodes:
        here = running[node.name]
        shares = any(pod.share for pod in here)
        if node.name in listable and (shares or not draw(rarely)):
            node = _listing(draw, node, here, given)
        nodes.append(node)
    share_of = {pod.name: pod.share for here in running.values() for pod in here}

    def wanting(s: PodSet) -> PodSet:
        pods = tuple(replace(pod, devices=given.get(pod.name, ())) for pod in s.bound_pods)
        template = s.template
        share = share_of[pods[0].name] if pods else None
        if template.requests.get(GPU, 0) and not pods and draw(st.booleans()):
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

    return replace(snapshot, nodes=tuple(nodes), gangs=with_sets(snapshot, wanting))


def _running_share(draw: st.DrawFn, s: PodSet, listable: Collection[str]) -> DeviceShare | None:
    """What running pods have of a GPU that can be listed, None for whole ones."""
    listed = all(pod.node in listable for pod in s.bound_pods)
    if not (s.bound_pods and not s.pods and listed and s.template.requests.get(GPU, 0) == 1):
        return None
    return draw(st.sampled_from(_RUNNING_SHARES)) if draw(st.booleans()) else None


def _listing(
    draw: st.DrawFn, node: Node, here: Sequence[_RunningPod], given: dict[str, tuple[int, ...]]
) -> Node:
    """The node with its GPUs, of which its pods are `given` some; what others request is in use."""
    count = node.allocatable[GPU]
    gpus = _Gpus(draw(st.permutations(list(range(count)))))
    whole = 0
    for pod in here:
        if pod.share is None:
            given[pod.name] = gpus.take(pod.gpus)
            whole += len(given[pod.name])
        else:
            given[pod.name] = gpus.share(pod.share, together=draw(st.booleans()))
    shares = sum(pod.share is not None for pod in here)
    requested = {**node.requested, GPU: node.requested.get(GPU, 0) - shares}
    gpus.take(max(0, requested[GPU] - whole))
    if gpus.free and draw(st.integers(0, 3)) == 3:
        gpus.used[gpus.free[0]] = 500, 300
    nics = draw(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1)))
    # Mostly alike, as the GPUs of a node are.
    memories = draw(st.sampled_from([(0,), (40 << 30,), (40 << 30,), (0, 40 << 30)]))
    devices = tuple(
        Device(
            index=i,
            healthy=i not in gpus.free or draw(st.integers(0, 7)) < 7,
            used_milli=compute,
            used_memory_milli=memory,
            memory_bytes=draw(st.sampled_from(memories)),
            pcie_switch=f"s{i // 2}" if i < 4 else "",
            nics=nics[i // 2],
        )
        for i, (compute, memory) in gpus.used.items()
    )
    table = [p for p in draw(st.sampled_from(_TABLES)) if max(p) < count]
    scores = st.integers(0, draw(st.integers(0, 1)))
    return replace(
        node,
        requested=requested,
        devices=devices,
        partitions=tuple(DevicePartition(p, draw(scores), draw(scores)) for p in table)
        if draw(st.booleans())
        else (),
        partition_policy=draw(st.sampled_from(PartitionPolicy)),
    )


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
