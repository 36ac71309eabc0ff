"""Families that are hard to pack: pools, shapes of cores and memory, nothing but parts of racks."""

from __future__ import annotations

import random
from dataclasses import replace

from bench.families.building import (
    BLOCK,
    FRONTEND,
    HALF_TRAY,
    ONE_GPU,
    RACK,
    WHOLE_TRAY,
    Part,
    free_trays,
    gang,
    nvl_cluster,
    resources,
    with_templates,
)
from bench.families.mix import mix
from placement_service.entities.request import Node, PodGang, PodTemplate, Snapshot
from placement_service.entities.selectors import NodeSelectorTerm, Operator, Requirement

POOL = "example.com/pool"


def pools(
    seed: int, *, load: float = 1.2, scattered: int = 0, gangs: int = 200, blocks: int = 14
) -> Snapshot:
    """The standard mix on three pools of nodes, of whole blocks or `scattered` by rack.

    Of the gangs three fifths name one pool, a fifth accept either of two, a fifth any.
    """
    plain = mix(seed, load=load, gangs=gangs, blocks=blocks)
    rng = random.Random(f"pools {seed}")
    level = RACK if scattered else BLOCK
    pool_of: dict[str, str] = {}
    nodes = []
    for n in plain.nodes:
        domain = n.labels.get(level, n.labels[BLOCK])
        pool = pool_of.setdefault(domain, f"p{rng.randrange(3) if scattered else len(pool_of) % 3}")
        nodes.append(replace(n, labels={**n.labels, POOL: pool}))
    return Snapshot(tuple(nodes), tuple(_into_pools(rng, g) for g in plain.gangs))


def _into_pools(rng: random.Random, one: PodGang) -> PodGang:
    accepted = tuple(sorted(rng.sample(("p0", "p1", "p2"), rng.choice((1, 1, 1, 2, 3)))))
    if len(accepted) == 3:
        return one

    def confined(template: PodTemplate) -> PodTemplate:
        if template == FRONTEND:
            return template
        if len(accepted) == 1:
            return replace(template, node_selector=((POOL, accepted[0]),))
        term = NodeSelectorTerm((Requirement(POOL, Operator.IN, accepted),))
        return replace(template, required_node_affinity=(term,))

    return with_templates(one, confined)


def cpu_shapes(seed: int, *, load: float = 1.0, gangs: int = 200, blocks: int = 14) -> Snapshot:
    """Twelve shapes of cores and memory, parts of unlike pods, a quarter of the trays short of
    cores: GPUs alone do not tell what fits.
    """
    rng = random.Random(f"cpu_shapes {seed}")
    nodes = [
        _starved(rng, n) if rng.random() < 0.25 else n
        for n in nvl_cluster(rng, blocks=blocks, racks=20, hogs=0.0)
    ]
    shapes = [
        PodTemplate(resources(cores, memory, 4))
        for cores in (48, 72, 96, 128)
        for memory in (200, 450, 800)
    ]
    made = []
    asked, room = 0, load * free_trays(nodes)
    for i in range(gangs):
        # Sizes aim at using up the room with the last gang.
        mean = max(2.0, (room - asked) / (gangs - i))
        parts = []
        for r in range(rng.randint(1, 3)):
            size = max(1, min(12, round(rng.uniform(0.3, 0.7) * mean)))
            parts.append(Part(f"worker-{r}", rng.choice(shapes), size, rack=True))
            asked += size
        parts.append(Part("small", rng.choice((ONE_GPU, HALF_TRAY, FRONTEND)), rng.randint(1, 4)))
        made.append(gang(f"g{i:03}", parts, preferred=BLOCK))
    return Snapshot(tuple(nodes), tuple(made))


def _starved(rng: random.Random, n: Node) -> Node:
    """A tray with other people's pods on its cores, and on its memory now and then."""
    if n.requested or RACK not in n.labels:
        return n
    return replace(n, requested=resources(rng.choice((24, 60, 84)), rng.choice((50, 300, 600))))


def rack_parts(
    seed: int,
    *,
    load: float = 1.3,
    gangs: int = 200,
    blocks: int = 14,
    least: int = 4,
    most: int = 12,
) -> Snapshot:
    """Nothing but parts of `least` to `most` trays, each in one rack: hard to pack, no filler."""
    rng = random.Random(f"rack_parts {seed}")
    nodes = nvl_cluster(rng, blocks=blocks, racks=20)
    room = load * free_trays(nodes)
    sizes: list[list[int]] = [[] for _ in range(gangs)]
    asked = 0
    while asked < room or not all(sizes):
        short = min(range(gangs), key=lambda i: (len(sizes[i]), rng.random()))
        size = rng.randint(least, most)
        sizes[short].append(size)
        asked += size
    made = [
        gang(
            f"g{i:03}",
            [Part(f"part-{k}", WHOLE_TRAY, size, rack=True) for k, size in enumerate(own)],
            preferred=BLOCK,
        )
        for i, own in enumerate(sizes)
    ]
    return Snapshot(tuple(nodes), tuple(made))
