"""Building blocks of instances: machines that are partly in use, and gangs of parts.

A part is a group whose pods are alike. Levels are the label keys below; the rack of an NVL72
cluster is its NVLink domain.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from placement_service.entities.request import (
    CPU,
    HOSTNAME,
    MEMORY,
    PODS,
    Node,
    PackingScope,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Resources,
)
from placement_service.entities.selectors import Labels

BLOCK = "topology.example.com/block"
RACK = "topology.example.com/rack"
GPU = "nvidia.com/gpu"
GIB = 1 << 30

NAMESPACE = "bench"


def resources(cores: float, memory_gib: float, gpus: int = 0, pods: int = 1) -> dict[str, int]:
    """Amounts in cores, GiB and units, as the service counts them; none that is zero."""
    amounts = {CPU: round(cores * 1000), MEMORY: round(memory_gib * GIB), GPU: gpus, PODS: pods}
    return {name: amount for name, amount in amounts.items() if amount}


#: A GB200 compute tray, and a machine without GPUs.
TRAY = resources(144, 960, 4, pods=110)
CPU_MACHINE = resources(96, 384, pods=110)

WHOLE_TRAY = PodTemplate(resources(128, 800, 4))
HALF_TRAY = PodTemplate(resources(16, 64, 2))
ONE_GPU = PodTemplate(resources(8, 32, 1))
FRONTEND = PodTemplate(resources(4, 16))


def in_use(gpus: int, pods: int = 1) -> dict[str, int]:
    """What running pods with so many GPUs take of a tray; nothing for none."""
    return resources(32 * gpus, 200 * gpus, gpus, pods) if gpus else {}


#: Runs on a tray and leaves all GPUs, but too few cores for a pod that wants the whole tray.
CPU_HOG = resources(60, 64)


def node(name: str, labels: Labels, allocatable: Resources, requested: Resources) -> Node:
    return Node(f"nodes/{name}", {HOSTNAME: name, **labels}, allocatable, requested)


def nvl_cluster(
    rng: random.Random,
    *,
    blocks: int,
    racks: int,
    trays: int = 18,
    cpu_machines: int = 8,
    free: float | None = None,
    hogs: float = 0.04,
) -> list[Node]:
    """Blocks of racks of trays, each rack filled to another degree, and machines without GPUs.

    `free` is the share of free trays of every rack; None draws it for each, 62 % on average. Of
    the trays in use a tenth has free GPUs left. `hogs` is the share of free trays short of cores.
    """
    nodes = []
    for b in range(blocks):
        for r in range(racks):
            labels = {BLOCK: f"b{b:02}", RACK: f"b{b:02}r{r:02}"}
            share = rng.triangular(0.0, 1.0, 0.8) if free is None else free
            for t in range(trays):
                if rng.random() < share:
                    used = CPU_HOG if rng.random() < hogs else {}
                else:
                    gpus = 4 if rng.random() < 0.9 else rng.randint(1, 3)
                    used = in_use(gpus, pods=gpus)
                nodes.append(node(f"b{b:02}r{r:02}t{t:02}", labels, TRAY, used))
        for c in range(cpu_machines):
            nodes.append(node(f"b{b:02}cpu{c}", {BLOCK: f"b{b:02}"}, CPU_MACHINE, {}))
    return nodes


def free_trays(nodes: Iterable[Node]) -> int:
    """Trays that still hold a pod that wants a whole one."""
    return sum(
        all(n.free(name) >= amount for name, amount in WHOLE_TRAY.requests.items()) for n in nodes
    )


@dataclass(frozen=True, slots=True)
class Part:
    """`count` pods alike, `minimum` of which must run (None: all); `rack`: all in one."""

    name: str
    template: PodTemplate
    count: int
    rack: bool = False
    minimum: int | None = None


def gang(
    name: str,
    parts: Sequence[Part],
    *,
    required: str = "",
    preferred: str = "",
    priority: int = 0,
    base: str = "",
) -> PodGang:
    """A gang of parts; the levels hold for all of them together."""
    groups = tuple(
        PodGroup(
            part.name,
            part.count if part.minimum is None else part.minimum,
            (
                PodSet(
                    part.template,
                    tuple(
                        Pod(f"namespaces/{NAMESPACE}/pods/{name}-{part.name}-{i}")
                        for i in range(part.count)
                    ),
                ),
            ),
        )
        for part in parts
    )
    scopes = [PackingScope(p.name, (p.name,), RACK) for p in parts if p.rack]
    if required or preferred:
        scopes.insert(0, PackingScope(name, tuple(g.name for g in groups), required, preferred))
    return PodGang(
        gang_name(name), groups, priority, tuple(scopes), base_gang=gang_name(base) if base else ""
    )


def gang_name(name: str) -> str:
    return f"namespaces/{NAMESPACE}/podgangs/{name}"


def with_templates(one: PodGang, change: Callable[[PodTemplate], PodTemplate]) -> PodGang:
    """The gang with other templates."""
    return replace(
        one,
        groups=tuple(
            replace(g, pod_sets=tuple(replace(s, template=change(s.template)) for s in g.pod_sets))
            for g in one.groups
        ),
    )
