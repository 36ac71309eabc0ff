"""Families of which it is known how many gangs fit, and one for tests."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from bench.families.building import (
    BLOCK,
    FRONTEND,
    ONE_GPU,
    RACK,
    WHOLE_TRAY,
    Part,
    free_trays,
    gang,
    node,
    nvl_cluster,
    resources,
)
from placement_service.entities.request import PodGang, PodTemplate, Snapshot


def tiny(seed: int, *, load: float = 1.2, gangs: int = 6) -> Snapshot:
    """Two blocks of two small racks, for tests."""
    rng = random.Random(f"tiny {seed}")
    nodes = nvl_cluster(rng, blocks=2, racks=2, trays=6, cpu_machines=1, free=0.8)
    room = load * free_trays(nodes)
    made: list[PodGang] = []
    for i in range(gangs):
        size = max(1, round(room / gangs) + rng.randint(-1, 1))
        parts = [Part("worker", WHOLE_TRAY, size, rack=size <= 5), Part("small", ONE_GPU, 1)]
        made.append(gang(f"g{i}", parts, preferred=BLOCK))
    return Snapshot(tuple(nodes), tuple(made))


def nvl72(seed: int, *, sizes: str = "mix", gangs: int = 64, filled: float = 0.0) -> Snapshot:
    """32 NVLink domains of 18 trays, eight blocks; every gang's workers need one domain.

    `sizes` are trays a gang, drawn evenly ("9", "9+10", ...), or "mix": by GPUs 40 % of 9 and
    10 trays, 40 % of 4 to 8, 20 % of one. `filled` is the share of trays in use. Empty, at most
    64 gangs of 9 fit, 32 of 10, 96 of 5, 128 of 4.
    """
    rng = random.Random(f"nvl72 {seed}")
    nodes = nvl_cluster(rng, blocks=8, racks=4, cpu_machines=2, free=1.0 - filled, hogs=0.0)
    made = []
    for i in range(gangs):
        if sizes == "mix":
            # Counts for 40 %, 40 % and 20 % of the GPUs.
            (size,) = rng.choices((9, 10, 4, 5, 6, 8, 1), (2.1, 2.1, 1.7, 1.7, 1.7, 1.7, 20))
        else:
            size = int(rng.choice(sizes.split("+")))
        workers = [Part("prefill", WHOLE_TRAY, 1)] if size > 1 else []
        workers.append(Part("decode", WHOLE_TRAY, size - len(workers)))
        made.append(_in_one_rack(gang(f"g{i:03}", [*workers, Part("frontend", FRONTEND, 1)])))
    return Snapshot(tuple(nodes), tuple(made))


def _in_one_rack(one: PodGang) -> PodGang:
    """The gang with its workers, which are all but its frontends, held to one rack."""
    workers = tuple(g.name for g in one.groups if g.name != "frontend")
    tied = gang("tied", [Part(w, WHOLE_TRAY, 1) for w in workers], required=RACK)
    return replace(one, packing_scopes=tied.packing_scopes)


def grove_scale(seed: int, *, gangs: int = 500, pods: int = 2, nodes: int = 100) -> Snapshot:
    """Gangs of a few small pods without GPUs, exactly as many as fit."""
    del seed  # There is nothing to draw.
    each = math.ceil(gangs * pods / nodes)
    machines = [
        node(f"n{i:03}", {RACK: f"r{i // 20}"}, resources(each, 4 * each, pods=110), {})
        for i in range(nodes)
    ]
    template = PodTemplate(resources(1, 4))
    return Snapshot(
        tuple(machines),
        tuple(gang(f"g{i:03}", [Part("worker", template, pods)]) for i in range(gangs)),
    )


def wide(seed: int, *, pods: int = 512) -> Snapshot:
    """One gang over a whole cluster: four zones' worth of two-node racks, preferring a rack."""
    del seed
    nodes = [
        node(
            f"n{i:03}",
            {BLOCK: f"b{i // 16:02}", RACK: f"r{i // 2:03}"},
            resources(64, 512, 8, pods=110),
            {},
        )
        for i in range(512)
    ]
    worker = Part("worker", PodTemplate(resources(32, 256, 8)), pods)
    return Snapshot(tuple(nodes), (gang("wide", [worker], preferred=RACK),))
