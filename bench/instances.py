"""Instance families: pure functions of a seed and a few numbers.

A family is a function with keyword-only parameters, each with a default, that returns a
`Snapshot`. Those made of real traces are in `traces` and need their files.

``load`` is always the whole trays that the gangs' minimums ask for over the whole trays that are
free: above 1 somebody must wait.
"""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from bench import evictions, traces
from bench.boards import boards
from bench.building import (
    BLOCK,
    FRONTEND,
    HALF_TRAY,
    ONE_GPU,
    RACK,
    WHOLE_TRAY,
    Part,
    free_trays,
    gang,
    node,
    nvl_cluster,
    resources,
    with_templates,
)
from bench.mix import huge, mix, ragged, sets
from bench.shared import shared
from placement_service.entities.request import Node, PodGang, PodTemplate, Policy, Snapshot
from placement_service.entities.selectors import NodeSelectorTerm, Operator, Requirement

Family = Callable[..., Snapshot]
Value = int | float | str


@dataclass(frozen=True, slots=True)
class Instance:
    """One member of a family; the same values always give the same snapshot."""

    family: str
    params: Mapping[str, Value] = field(default_factory=dict)
    seed: int = 1

    def __str__(self) -> str:
        words = [self.family, *(f"{name}={value}" for name, value in self.params.items())]
        return " ".join([*words, f"#{self.seed}"])

    def policy(self) -> Policy:
        """What the family asks under."""
        return evictions.POLICIES.get(self.family, Policy())

    def snapshot(self) -> Snapshot:
        """Raises `traces.MissingData` when the family is made of files that are not there."""
        return _aged(FAMILIES[self.family](self.seed, **self.params), self.seed)


#: When snapshots are taken, and how long gangs waited then on average, in seconds.
NOW = 1_800_000_000
MEAN_AGE = 3600.0


def _aged(snapshot: Snapshot, seed: int) -> Snapshot:
    """The snapshot with gangs that waited, whatever they ask for."""
    rng = random.Random(f"ages {seed}")
    gangs = tuple(
        replace(gang, created=NOW - int(rng.expovariate(1 / MEAN_AGE))) for gang in snapshot.gangs
    )
    return replace(snapshot, gangs=gangs, as_of=NOW)


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


# --- what makes it hard ---------------------------------------------------------

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


# --- known answers and scale ----------------------------------------------------


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


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        family.__name__: family
        for family in (
            tiny,
            mix,
            sets,
            pools,
            cpu_shapes,
            rack_parts,
            shared,
            nvl72,
            grove_scale,
            wide,
            huge,
            ragged,
            evictions.preempt,
            evictions.reclaim,
            evictions.repack,
            boards,
            traces.openb,
            traces.spot,
        )
    }
)


def parameters(family: str) -> dict[str, Value]:
    """The parameters of a family and their defaults."""
    signature = inspect.signature(FAMILIES[family])
    return {
        name: p.default
        for name, p in signature.parameters.items()
        if p.kind is inspect.Parameter.KEYWORD_ONLY
    }


def instance(family: str, given: Mapping[str, str], seed: int = 1) -> Instance:
    """An instance from words; raises ValueError for what the family does not take."""
    if family not in FAMILIES:
        raise ValueError(f"no family {family}; there are {', '.join(FAMILIES)}")
    known = parameters(family)
    params: dict[str, Value] = {}
    for name, text in given.items():
        if name not in known:
            raise ValueError(f"{family} takes no {name}; it takes {', '.join(known)}")
        try:
            params[name] = type(known[name])(text)
        except ValueError:
            raise ValueError(f"{name} of {family} cannot be {text!r}") from None
    return Instance(family, params, seed)
