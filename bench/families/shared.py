"""Nodes of eight GPUs that pods of several sizes share."""

from __future__ import annotations

import random

from bench.families.building import BLOCK, GPU, RACK, Part, gang, node, resources
from placement_service.entities.request import PodTemplate, Snapshot

NODE = resources(128, 1024, 8, pods=110)

#: Of the nodes such a share runs pods of others.
IN_USE = 0.1


def shared(
    seed: int,
    *,
    load: float = 1.15,
    gangs: int = 400,
    blocks: int = 8,
    racks: int = 20,
    nodes: int = 32,
) -> Snapshot:
    """Gangs of pods of one, two, four or eight GPUs that prefer a rack. Each asks for cores and
    memory of its own beside a GPU, and GPUs are used up first. A tenth of the `nodes` of each rack
    has one to seven GPUs in use. `load` is GPUs asked for over GPUs free.
    """
    rng = random.Random(f"shared {seed}")
    machines = []
    for b in range(blocks):
        for r in range(racks):
            labels = {BLOCK: f"b{b:02}", RACK: f"b{b:02}r{r:02}"}
            for n in range(nodes):
                gpus = rng.randint(1, 7) if rng.random() < IN_USE else 0
                used = resources(8 * gpus, 64 * gpus, gpus, gpus) if gpus else {}
                machines.append(node(f"b{b:02}r{r:02}n{n:02}", labels, NODE, used))
    drawn = [(rng.uniform(1, 60), rng.choice((1, 2, 4, 8))) for _ in range(gangs)]
    room = sum(machine.free(GPU) for machine in machines)
    scale = load * room / sum(pods * gpus for pods, gpus in drawn)
    made = []
    for i, (pods, gpus) in enumerate(drawn):
        each = PodTemplate(resources(gpus * rng.randint(4, 16), gpus * rng.randint(16, 128), gpus))
        parts = [Part("worker", each, max(1, round(pods * scale)))]
        made.append(gang(f"g{i:03}", parts, preferred=RACK))
    return Snapshot(tuple(machines), tuple(made))
