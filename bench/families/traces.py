"""Families made of published traces; the files are not part of this repository.

`PLACEMENT_DATA` names a folder that holds them, at any depth:

- ``openb_node_list_all_node.csv`` and the mixes of pods, ``openb_pod_list_default.csv``,
  ``..._multigpu20.csv``, ``..._gpushare40.csv``, ``..._gpuspec10.csv``: Alibaba
  cluster-trace-gpu-v2023 (Weng et al., "Beware of Fragmentation", USENIX ATC 2023)
- ``node_info_df.csv``: Alibaba cluster-trace-v2026-spot-gpu

The traces know no network. Racks and blocks are ours: machines of a model in file order, 16 to a
rack, eight racks to a block.
"""

from __future__ import annotations

import csv
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.families.building import BLOCK, RACK, Part, gang, node, resources
from placement_service.entities.request import Node, PodGang, PodTemplate, Snapshot

DATA_VARIABLE = "PLACEMENT_DATA"
MODEL = "nvidia.com/gpu.product"

RACK_MACHINES = 16
BLOCK_RACKS = 8


class MissingData(Exception):
    """A file of a trace is not there; the message says which and where to put it."""


@dataclass(frozen=True, slots=True)
class _Machine:
    name: str
    model: str
    cores: float
    memory_gib: float
    gpus: int


@dataclass(frozen=True, slots=True)
class _Pod:
    """`share` is in thousandths of the one GPU of a pod that shares it, else 0."""

    cores: float
    memory_gib: float
    gpus: int
    share: int = 0


class _Fleet:
    """Machines while they are filled, as arrays; GPUs are in thousandths of each."""

    def __init__(self, machines: Sequence[_Machine]) -> None:
        # Machines of one model stand together, in file order.
        self.machines = sorted(machines, key=lambda m: m.model)
        self.cores = np.array([m.cores for m in self.machines])
        self.memory = np.array([m.memory_gib for m in self.machines])
        self.total = np.array([m.gpus for m in self.machines])
        slots = np.arange(max(1, int(self.total.max())))
        self.gpus = np.where(slots < self.total[:, None], 1000, 0)
        self.pods = np.zeros(len(self.machines), dtype=np.int64)

    @property
    def whole_gpus(self) -> NDArray[np.int64]:
        """GPUs that nobody uses, by machine."""
        whole: NDArray[np.int64] = (self.gpus == 1000).sum(axis=1)
        return whole

    @property
    def share_in_use(self) -> float:
        return 1.0 - float(self.whole_gpus.sum() / self.total.sum())

    def fitting(self, pod: _Pod) -> NDArray[np.int64]:
        """Machines with room; a pod without GPUs stays off machines with them."""
        fits = (self.cores >= pod.cores) & (self.memory >= pod.memory_gib)
        if pod.share:
            fits &= (self.gpus >= pod.share).any(axis=1)
        elif pod.gpus:
            fits &= self.whole_gpus >= pod.gpus
        else:
            fits &= self.total == 0
        return np.flatnonzero(fits)

    def take(self, machine: int, pod: _Pod) -> None:
        """Shares go to the fullest GPU that has room."""
        self.cores[machine] -= pod.cores
        self.memory[machine] -= pod.memory_gib
        self.pods[machine] += 1
        gpus = self.gpus[machine]
        if pod.share:
            chosen = min(np.flatnonzero(gpus >= pod.share), key=lambda i: gpus[i])
            gpus[chosen] -= pod.share
        else:
            gpus[np.flatnonzero(gpus == 1000)[: pod.gpus]] = 0

    def fill(self, pods: Iterable[_Pod], share: float, *, best_fit: bool) -> None:
        """Places pods one after another until the share of GPUs in use is reached."""
        for pod in pods:
            if self.share_in_use >= share:
                return
            fitting = self.fitting(pod)
            if fitting.size:
                room = self.gpus[fitting].sum(axis=1) + self.cores[fitting] / 1e6
                self.take(int(fitting[room.argmin() if best_fit else room.argmax()]), pod)

    def nodes(self) -> Iterator[Node]:
        """The machines as nodes; a GPU that somebody shares is no longer free."""
        for i, (m, whole) in enumerate(zip(self.machines, self.whole_gpus, strict=True)):
            rack = i // RACK_MACHINES
            labels = {BLOCK: f"b{rack // BLOCK_RACKS:02}", RACK: f"r{rack:03}"}
            if m.model:
                labels[MODEL] = m.model
            allocatable = resources(m.cores, m.memory_gib, m.gpus, pods=110)
            requested = {}
            if self.pods[i]:
                used = m.cores - float(self.cores[i]), m.memory_gib - float(self.memory[i])
                requested = resources(*used, m.gpus - int(whole), pods=int(self.pods[i]))
            yield node(m.name, labels, allocatable, requested)


def openb(
    seed: int,
    *,
    filled: float = 0.8,
    spread: int = 0,
    gangs: int = 64,
    pods: str = "default",
) -> Snapshot:
    """Alibaba's 1,523 unlike machines, filled with real pods, and gangs of multi-GPU pods.

    `filled` is the share of GPUs in use, by best fit or `spread`, by `pods` of one of the
    published mixes: default, multigpu20, gpushare40, gpuspec10. Gangs hold 1 to 8 pods of one
    of the real shapes and prefer one rack.
    """
    rng = random.Random(f"openb {seed}")
    fleet = _Fleet(_openb_machines())
    running = list(_openb_pods(pods))
    rng.shuffle(running)
    fleet.fill(running, filled, best_fit=not spread)
    shapes = [pod for pod in _openb_pods("multigpu20") if pod.gpus > 1]
    made: list[PodGang] = []
    for i in range(gangs):
        # As pods of one shape come together in the trace.
        low, high = rng.choices(((1, 1), (2, 3), (4, 7), (8, 8)), (81.7, 15.3, 2.6, 0.4))[0]
        pod = rng.choice(shapes)
        template = PodTemplate(resources(pod.cores, pod.memory_gib, pod.gpus))
        worker = Part("worker", template, rng.randint(low, high))
        made.append(gang(f"g{i:03}", [worker], preferred=RACK if worker.count > 1 else ""))
    return Snapshot(tuple(fleet.nodes()), tuple(made))


def _openb_machines() -> list[_Machine]:
    return [
        _Machine(
            row["sn"],
            row["model"],
            int(row["cpu_milli"]) / 1000,
            int(row["memory_mib"]) / 1024,
            int(row["gpu"]),
        )
        for row in _rows("openb_node_list_all_node.csv")
    ]


def _openb_pods(which: str) -> Iterator[_Pod]:
    for row in _rows(f"openb_pod_list_{which}.csv"):
        gpus, share = int(row["num_gpu"]), int(row["gpu_milli"])
        yield _Pod(
            int(row["cpu_milli"]) / 1000,
            int(row["memory_mib"]) / 1024,
            gpus,
            share if gpus == 1 and share < 1000 else 0,
        )


#: GPUs that a training job asks for, and how often; after two large training clusters.
_JOB_GPUS = ((1, 40), (2, 10), (4, 10), (8, 25), (16, 5), (32, 4), (64, 3), (128, 2), (256, 1))


def spot(seed: int, *, gangs: int = 400, filled: float = 0.5) -> Snapshot:
    """Alibaba's list of 4,278 machines of seven GPU models; training jobs of 1 to 256 GPUs.

    Memory is ours (the list has none): 8 GiB a core. Jobs of eight GPUs and more take whole
    machines of one model, in one block if they can.
    """
    rng = random.Random(f"spot {seed}")
    fleet = _Fleet(
        [
            _Machine(
                f"m{row['node_name']}",
                row["gpu_model"],
                float(row["cpu_num"]),
                8 * float(row["cpu_num"]),
                int(float(row["gpu_capacity_num"])),
            )
            for row in _rows("node_info_df.csv")
        ]
    )
    for i, m in enumerate(fleet.machines):
        if rng.random() < filled:
            gpus = rng.randint(1, m.gpus)
            part = 0.9 * gpus / m.gpus
            fleet.take(i, _Pod(part * m.cores, part * m.memory_gib, gpus))
    cores: dict[str, float] = {}
    for m in fleet.machines:
        if m.gpus == 8:
            cores[m.model] = min(m.cores, cores.get(m.model, m.cores))
    made: list[PodGang] = []
    sizes, weights = zip(*_JOB_GPUS, strict=True)
    for i in range(gangs):
        (gpus,) = rng.choices(sizes, weights)
        if gpus < 8:
            alone = Part("main", PodTemplate(resources(8 * gpus, 32 * gpus, gpus)), 1)
            made.append(gang(f"g{i:03}", [alone]))
            continue
        model = rng.choice(sorted(cores))
        template = PodTemplate(
            resources(0.9 * cores[model], 7 * cores[model], 8), node_selector=((MODEL, model),)
        )
        made.append(gang(f"g{i:03}", [Part("worker", template, gpus // 8)], preferred=BLOCK))
    return Snapshot(tuple(fleet.nodes()), tuple(made))


def _rows(name: str) -> list[dict[str, str]]:
    with _file(os.environ.get(DATA_VARIABLE, ""), name).open(newline="") as lines:
        return list(csv.DictReader(lines))


@cache
def _file(folder: str, name: str) -> Path:
    if not folder:
        raise MissingData(f"{name}: set {DATA_VARIABLE} or --data to the folder that holds it")
    found = sorted(Path(folder).rglob(name))
    if not found:
        raise MissingData(f"there is no {name} in {folder}")
    return found[0]
