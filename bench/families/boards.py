"""HGX machines whose NVSwitch gives GPUs as partitions only, worn by jobs that came and went."""

from __future__ import annotations

import random
from dataclasses import replace

from bench.families.building import Part, gang, node, resources
from placement_service.entities.devices import Device, DevicePartition, PartitionPolicy
from placement_service.entities.node import Node
from placement_service.entities.request import PodTemplate, Snapshot

GPUS = 8
SIZES = (1, 2, 4, 8)
#: How often pods of each size come.
WEIGHTS = (4, 3, 2, 1)
TABLE = tuple(
    DevicePartition(tuple(range(first, first + size)))
    for size in SIZES
    for first in range(0, GPUS, size)
)
HGX = resources(192, 2048, GPUS, pods=110)


def boards(
    seed: int,
    *,
    nodes: int = 1000,
    filled: float = 0.7,
    gangs: int = 400,
    load: float = 1.1,
    nics: int = 0,
) -> Snapshot:
    """Gangs of pods of 1, 2, 4 and 8 GPUs on boards that are so full of them already.

    `load` is the GPUs that the gangs ask for over those that are free. With `nics` every switch
    of two GPUs has so many network devices, and pods of 2, 4 and 8 want one for each switch.
    """
    rng = random.Random(f"boards {seed}")
    machines = [_machine(rng, i, filled, nics) for i in range(nodes)]
    free = sum(device.whole for machine in machines for device in machine.devices)
    jobs = []
    left = load * free
    for i in range(gangs):
        size = rng.choices(SIZES, WEIGHTS)[0]
        share = left / (gangs - i)
        count = max(1, round(rng.expovariate(size / max(share, 1.0))))
        template = PodTemplate(resources(8 * size, 64 * size, size))
        if nics and size > 1:
            template = replace(template, same_pcie_nics=size // 2)
        left -= count * size
        jobs.append(gang(f"job{i:03}", [Part("worker", template, count)]))
        if left <= 0:
            break
    return Snapshot(tuple(machines), tuple(jobs))


def _machine(rng: random.Random, number: int, filled: float, nics: int) -> Node:
    """A machine on which pods took partitions at random, as fills and departures leave them."""
    free = set(range(GPUS))
    target = min(GPUS, max(0, round(rng.gauss(filled * GPUS, 1.5))))
    while GPUS - len(free) < target:
        size = rng.choices(SIZES, WEIGHTS)[0]
        able = [p.devices for p in TABLE if len(p.devices) == size and free.issuperset(p.devices)]
        if able and size <= target - (GPUS - len(free)):
            free -= set(rng.choice(able))
    used = GPUS - len(free)
    plain = node(f"h{number:04}", {}, HGX, resources(8 * used, 64 * used, used) if used else {})
    busy = {
        switch: sum(d not in free for d in (2 * switch, 2 * switch + 1))
        for switch in range(GPUS // 2)
    }
    return replace(
        plain,
        devices=tuple(
            Device(
                i,
                used_milli=0 if i in free else 1000,
                used_memory_milli=0 if i in free else 1000,
                memory_bytes=80 << 30,
                pcie_switch=f"s{i // 2}",
                nics=max(0, nics - busy[i // 2]) if nics else 0,
            )
            for i in range(GPUS)
        ),
        partitions=TABLE,
        partition_policy=PartitionPolicy.HONOR,
    )
