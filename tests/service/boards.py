"""Boards of GPUs, pods that ask for them, and the engine's plan for both."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from placement_service.entities.devices import (
    Device,
    DevicePartition,
    DeviceShare,
    PartitionPolicy,
    RequiredPartition,
)
from placement_service.entities.queues import Queue
from placement_service.entities.request import (
    PODS,
    Binding,
    Node,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.formulation.formulate import formulate
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.prepare import prepare
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.verify import verify
from placement_service.search.engine import search
from tests.service.questions import GPU, node
from tests.waiting import LONG

BOARD = tuple(
    DevicePartition(tuple(range(first, first + size)))
    for size in (1, 2, 4, 8)
    for first in range(0, 8, size)
)


def board(
    *busy: int, policy: PartitionPolicy = PartitionPolicy.HONOR, gpus: int = 8, name: str = "h0"
) -> Node:
    """A node that lists its GPUs, some of them in use."""
    devices = tuple(
        Device(i, used_milli=1000 * (i in busy), used_memory_milli=1000 * (i in busy))
        for i in range(gpus)
    )
    plain = node(name, gpus=gpus, used=len(busy))
    partitions = BOARD if gpus == 8 else ()
    return replace(plain, devices=devices, partitions=partitions, partition_policy=policy)


def pods_of(name: str, count: int, template: PodTemplate, minimum: int | None = None) -> PodGang:
    pods = tuple(Pod(f"namespaces/ml/pods/{name}-{i}") for i in range(count))
    least = count if minimum is None else minimum
    return PodGang(
        f"namespaces/ml/podgangs/{name}", (PodGroup("w", least, (PodSet(template, pods),)),)
    )


def wholes(name: str, *sizes: int) -> list[PodGang]:
    """A gang of one pod for each size."""
    return [
        pods_of(f"{name}{i}", 1, PodTemplate({GPU: size, PODS: 1})) for i, size in enumerate(sizes)
    ]


def share(milli: int, count: int = 1) -> PodTemplate:
    return PodTemplate({PODS: 1}, device_share=DeviceShare(milli, milli, count=count))


def placed(
    nodes: Sequence[Node], gangs: Sequence[PodGang], queues: Sequence[Queue] = ()
) -> tuple[Sequence[Binding], bool]:
    """The bindings of the engine, judged, and whether they are proven."""
    question = Snapshot(tuple(nodes), tuple(gangs), queues=tuple(queues))
    policy = Policy()
    prepared = prepare(question, policy)
    problem = formulate(question, policy, prepared)
    found = search(
        problem,
        first_answer(problem),
        deadline=time.monotonic() + LONG,
        report=lambda solution: None,
    )
    plan = name_plan(question, policy, prepared, found.assignments)
    assert not verify(question, policy, *plan)
    return plan.bindings, found.proven


def with_nics(*switches: tuple[int, int], name: str = "h0") -> Node:
    """A node of switches, each with so many GPUs and network devices."""
    devices = tuple(
        Device(i, pcie_switch=f"s{s}", nics=nics)
        for i, (s, nics) in enumerate(
            (s, nics) for s, (gpus, nics) in enumerate(switches) for _ in range(gpus)
        )
    )
    return replace(node(name, gpus=len(devices)), devices=devices)


def near(gpus: int, nics: int) -> PodTemplate:
    return PodTemplate({GPU: gpus, PODS: 1}, same_pcie_nics=nics)


BEST = RequiredPartition(best_score=True)


def picky(size: int, required: RequiredPartition | None = BEST) -> PodTemplate:
    return PodTemplate({GPU: size, PODS: 1}, required_partition=required)


def shared(*used: int, name: str = "h0") -> Node:
    devices = tuple(Device(i, used_milli=n, used_memory_milli=n) for i, n in enumerate(used))
    return replace(node(name, gpus=len(used)), devices=devices)
