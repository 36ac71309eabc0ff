"""The standard mix of serving, training and small jobs, and the families that are made of it."""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bench.families.building import (
    BLOCK,
    FRONTEND,
    GPU,
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
from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import (
    HOSTNAME,
    Node,
    PodGang,
    PodSet,
    PodTemplate,
    Snapshot,
)
from placement_service.entities.selectors import NodeSelectorTerm, Operator, Requirement


def mix(
    seed: int,
    *,
    load: float = 1.0,
    gangs: int = 200,
    blocks: int = 14,
    racks: int = 20,
    extras: float = 0.0,
    scaled: float = 0.0,
    priorities: int = 1,
    domains: int = 0,
    queues: int = 0,
    unlike: float = 0.0,
    avoid: int = 0,
) -> Snapshot:
    """Serving in rack-bound replicas, training in blocks, small jobs; on a 62 % free cluster.

    5,152 nodes by default. What may be added:

    - `extras`: the share of the training gangs that have a quarter of their pods beyond the
      minimum.
    - `scaled`: the share of the serving gangs whose decode replicas beyond the first are gangs of
      their own.
    - `priorities`: how many different ones gangs have.
    - `domains`: not 0, pods of whole trays are in a ComputeDomain of their gang.
    - `queues`: how many; each gang is in one. Two thirds of the free GPUs are guaranteed to them
      in equal parts, and twice that is the limit of each.
    - `unlike`: the pods of whole trays ask for 64 to 128 cores, another number in each gang, and
      such a share more of the free trays runs pods that leave all GPUs, and cores for some of these
      pods only.
    - `avoid`: so many nodes are avoided by name by the pods of each gang.

    Raises ValueError when so few gangs are too small, or so many too large, for the load.
    """
    rng = random.Random(f"mix {seed}")
    nodes = nvl_cluster(rng, blocks=blocks, racks=racks)
    jobs = _jobs(rng, gangs, load * free_trays(nodes))
    made = tuple(g for job in jobs for g in _gangs(rng, job, extras, scaled, priorities))
    if domains:
        made = tuple(map(_in_a_domain, made))
    if unlike:
        nodes, made = _unlike(random.Random(f"unlike {seed}"), nodes, made, unlike)
    if avoid:
        made = tuple(_avoiding(random.Random(f"avoid {seed}"), nodes, made, avoid))
    return _in_queues(Snapshot(tuple(nodes), made), queues)


def _in_queues(snapshot: Snapshot, count: int) -> Snapshot:
    if not count:
        return snapshot
    share = 2 * int(snapshot.columns.free(GPU).sum()) // (3 * count)
    return replace(
        snapshot,
        queues=tuple(
            Queue(f"queues/q{i}", limit={GPUS: 2 * share}, guaranteed={GPUS: share})
            for i in range(count)
        ),
        gangs=tuple(
            replace(one, queue=f"queues/q{hash_of(one.base_gang or one.name, count) % count}")
            for one in snapshot.gangs
        ),
    )


def _in_a_domain(one: PodGang) -> PodGang:
    """The gang with its pods of whole trays in a ComputeDomain of its own."""
    template = replace(WHOLE_TRAY, compute_domain=f"{one.namespace}/{one.name}")

    def of(pods: PodSet) -> PodSet:
        return replace(pods, template=template) if pods.template == WHOLE_TRAY else pods

    return replace(
        one,
        groups=tuple(
            replace(group, pod_sets=tuple(map(of, group.pod_sets))) for group in one.groups
        ),
    )


def _avoiding(
    rng: random.Random, nodes: Sequence[Node], gangs: Sequence[PodGang], count: int
) -> Iterator[PodGang]:
    """Gangs whose pods avoid some nodes; those of a set are gangs of their own."""
    hosts = [node.labels[HOSTNAME] for node in nodes]
    for one in gangs:
        avoided = Requirement(HOSTNAME, Operator.NOT_IN, tuple(rng.sample(hosts, count)))
        affinity = (NodeSelectorTerm((avoided,)),)
        yield with_templates(one, partial(replace, required_node_affinity=affinity))


#: Cores that a pod for a whole tray asks for, and those that other pods of a tray take.
_ASKED = (64, 80, 96, 112, 128)
_TAKEN = (24, 40, 56, 72)


def _unlike(
    rng: random.Random, nodes: Sequence[Node], gangs: Sequence[PodGang], share: float
) -> tuple[list[Node], tuple[PodGang, ...]]:
    """A share of the free trays with cores taken, and gangs whose pods ask for unlike cores."""

    def taken(one: Node) -> Node:
        if one.requested or one.allocatable.get(GPU, 0) == 0 or rng.random() >= share:
            return one
        return replace(one, requested=resources(rng.choice(_TAKEN), 64))

    def unlike(one: PodGang) -> PodGang:
        template = replace(WHOLE_TRAY, requests=resources(rng.choice(_ASKED), 800, 4))
        return with_templates(one, lambda t: template if t == WHOLE_TRAY else t)

    return [taken(one) for one in nodes], tuple(map(unlike, gangs))


@dataclass(frozen=True, slots=True)
class _Job:
    """`replicas` are trays by role; each replica needs one rack when `bound`."""

    name: str
    replicas: Mapping[str, tuple[int, ...]]
    bound: bool = False
    small: PodTemplate | None = None
    small_count: int = 0
    required: str = ""
    preferred: str = ""

    @property
    def trays(self) -> int:
        return sum(sum(sizes) for sizes in self.replicas.values())


def _jobs(rng: random.Random, count: int, trays: float) -> list[_Job]:
    """Jobs that ask for about so many trays: sizes grow with a common factor.

    Raises ValueError when so few jobs are too small, or so many too large, for that.
    """
    seeds = [rng.getrandbits(32) for _ in range(count)]

    def draw(factor: float) -> list[_Job]:
        return [_job(random.Random(s), f"g{i:03}", factor) for i, s in enumerate(seeds)]

    low, high = 0.01, 8.0
    for _ in range(12):
        middle = math.sqrt(low * high)
        if sum(job.trays for job in draw(middle)) < trays:
            low = middle
        else:
            high = middle
    jobs = draw(high)
    asked = sum(job.trays for job in jobs)
    if not 0.75 * trays <= asked <= 1.25 * trays:
        raise ValueError(f"{count} gangs ask for {asked} trays, which is far from {trays:.0f}")
    return jobs


def _job(rng: random.Random, name: str, factor: float) -> _Job:
    kind = rng.random()

    def times(number: int, most: int) -> int:
        return max(1, min(most, round(number * factor)))

    if kind < 0.55:
        prefill, decode = rng.choice((1, 2, 4, 8)), rng.choice((2, 4, 8, 9, 10))
        one_block = rng.random() < 0.5
        return _Job(
            f"{name}-serve",
            {
                "prefill": (prefill,) * times(rng.randint(1, 4), 4),
                "decode": (decode,) * times(rng.randint(1, 3), 3),
            },
            bound=True,
            small=rng.choice((ONE_GPU, FRONTEND)),
            small_count=rng.randint(1, 4),
            required=BLOCK if one_block else "",
            preferred="" if one_block else BLOCK,
        )
    if kind < 0.73:
        wanted = times(rng.choice((8, 16, 24, 32, 64, 96, 128, 256)), 256)
        if rng.random() < 0.4:
            size = rng.choice((4, 8, 12, 16))
            parts = (size,) * max(1, round(wanted / size))
            return _Job(f"{name}-train", {"segment": parts}, bound=True, preferred=BLOCK)
        return _Job(f"{name}-train", {"worker": (max(8, wanted),)}, preferred=BLOCK)
    if rng.random() < 0.3:
        return _Job(f"{name}-job", {"main": (1,)})
    return _Job(f"{name}-job", {}, small=rng.choice((ONE_GPU, HALF_TRAY)), small_count=1)


def _gangs(
    rng: random.Random, job: _Job, extras: float, scaled: float, priorities: int
) -> list[PodGang]:
    spare = extras > 0 and not job.bound and rng.random() < extras
    split = scaled > 0 and len(job.replicas.get("decode", ())) > 1 and rng.random() < scaled
    priority = 100 * rng.randrange(priorities)
    parts = [
        Part(
            f"{role}-{i}",
            WHOLE_TRAY,
            size,
            rack=job.bound,
            minimum=math.ceil(0.75 * size) if spare else None,
        )
        for role, sizes in job.replicas.items()
        for i, size in enumerate(sizes)
    ]
    if job.small is not None:
        parts.append(Part("small", job.small, job.small_count))
    own = [p for p in parts if not (split and p.name.startswith("decode-") and p.name[-1] != "0")]
    base = gang(job.name, own, required=job.required, preferred=job.preferred, priority=priority)
    return [
        base,
        *(
            gang(f"{job.name}-{p.name}", [p], priority=priority, base=job.name)
            for p in parts
            if p not in own
        ),
    ]


def huge(seed: int, *, load: float = 1.1, gangs: int = 1000) -> Snapshot:
    """The standard mix at 25,760 nodes and 1,000 gangs."""
    return mix(seed, load=load, gangs=gangs, blocks=70)


#: Labels of a node of `ragged` that say nothing of where it is.
_FACTS = 22


def ragged(
    seed: int,
    *,
    load: float = 1.1,
    gangs: int = 1000,
    blocks: int = 70,
    serials: int = 0,
) -> Snapshot:
    """The standard mix as real clusters look: no two nodes have the same requested, and each has
    25 labels. With `serials` one of them differs on every node too.

    What runs besides takes no more than a pod for a whole tray leaves.
    """
    plain = mix(seed, load=load, gangs=gangs, blocks=blocks)
    rng = random.Random(f"ragged {seed}")
    nodes = []
    for i, n in enumerate(plain.nodes):
        kind = n.labels.get(RACK, "")
        facts = {
            f"feature.example.com/fact-{k:02}": f"value-{hash_of(kind, k) % 3}"
            for k in range(_FACTS)
        }
        if serials:
            facts["feature.example.com/serial"] = f"{seed}-{i:06}"
        daemons = resources(rng.uniform(0.1, 12), rng.uniform(0.1, 100), pods=rng.randint(3, 12))
        together = {name: n.requested.get(name, 0) + amount for name, amount in daemons.items()}
        nodes.append(
            replace(n, labels={**n.labels, **facts}, requested={**n.requested, **together})
        )
    return Snapshot(tuple(nodes), plain.gangs)


def hash_of(text: str, k: int) -> int:
    """A number that is the same in every process."""
    return zlib.crc32(f"{text} {k}".encode())


def sets(seed: int, *, load: float = 1.1, gangs: int = 150) -> Snapshot:
    """The standard mix with three priorities, extras and scaled gangs."""
    return mix(seed, load=load, gangs=gangs, extras=0.5, scaled=0.6, priorities=3)
