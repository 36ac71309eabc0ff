"""Instances of eviction: a cluster full of running gangs, and gangs that want in.

Gangs come and go until the cluster is full, so that free room is scattered as it is after months.
Then a few gangs wait that only fit where others give way.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from bench.families.building import BLOCK, RACK, gang_name, node, resources
from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import (
    BoundPod,
    Node,
    PackingScope,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Snapshot,
)

#: GPUs of a node; pods ask for shares of a node in proportion.
NODE_GPUS = 8
MACHINE = resources(192, 2048, NODE_GPUS, pods=110)

PRIORITIES = (10, 50, 100, 200)
#: How often gangs have them.
SHARES = (40, 30, 20, 10)
PENDING_PRIORITIES = (60, 110, 150)

#: How often the cluster was filled and partly emptied again.
GENERATIONS = 4


def asks(gpus: int) -> PodTemplate:
    """A pod with so many GPUs and its share of the rest of a node."""
    return PodTemplate(resources(20 * gpus, 200 * gpus, gpus))


class Where(NamedTuple):
    """A node by its place in blocks and racks."""

    block: int
    rack: int
    node: int


@dataclass(slots=True)
class _Running:
    """A gang that runs: pods of so many GPUs, the nodes they run on, and its scope."""

    gpus: int
    nodes: list[int]
    level: str


class _Cluster:
    """Nodes with what is free on each, and who runs."""

    def __init__(self, rng: random.Random, where: Sequence[Where]) -> None:
        self.rng = rng
        self.where = where
        self.free = [NODE_GPUS] * len(where)
        self.gangs: list[_Running] = []
        self._inside: dict[str, list[list[int]]] = {"": [list(range(len(self.where)))]}
        for level, at in ((RACK, lambda w: (w.block, w.rack)), (BLOCK, lambda w: w.block)):
            domains: defaultdict[object, list[int]] = defaultdict(list)
            for i, w in enumerate(self.where):
                domains[at(w)].append(i)
            self._inside[level] = list(domains.values())

    def start(self, gpus: int, pods: int, level: str) -> bool:
        """Run a gang in one domain of its level that has room, in few nodes; false if none has."""
        domains = self._inside[level]
        for domain in self.rng.sample(domains, min(len(domains), 8)):
            room = sum(self.free[i] // gpus for i in domain)
            if room >= pods:
                nodes: list[int] = []
                begin = self.rng.randrange(len(domain))
                for i in domain[begin:] + domain[:begin]:
                    here = min(self.free[i] // gpus, pods - len(nodes))
                    self.free[i] -= here * gpus
                    nodes += [i] * here
                self.gangs.append(_Running(gpus, nodes, level))
                return True
        return False

    def fill(self, least_free: float) -> None:
        """Start gangs until so little is free, or hardly any fits."""
        misses = 0
        while sum(self.free) > least_free * NODE_GPUS * len(self.free) and misses < 200:
            gpus, pods, level = self._draw()
            misses = 0 if self.start(gpus, pods, level) else misses + 1

    def _draw(self) -> tuple[int, int, str]:
        rng = self.rng
        kind = rng.random()
        if kind < 0.91:
            # Small pods, anywhere.
            return rng.choice((1, 1, 1, 2, 2, 4)), rng.randint(2, 18), ""
        if kind < 0.955:
            return NODE_GPUS, rng.randint(1, 8), RACK
        if kind < 0.985:
            return NODE_GPUS, rng.randint(4, 20), BLOCK
        return NODE_GPUS, rng.randint(1, 21), ""

    def end(self, share: float) -> None:
        """A share of the gangs ends."""
        self.rng.shuffle(self.gangs)
        count = int(share * len(self.gangs))
        for gone in self.gangs[:count]:
            for i in gone.nodes:
                self.free[i] += gone.gpus
        del self.gangs[:count]


def _full_cluster(rng: random.Random, blocks: int, racks: int, nodes: int) -> _Cluster:
    where = [Where(b, r, n) for b in range(blocks) for r in range(racks) for n in range(nodes)]
    cluster = _Cluster(rng, where)
    for _ in range(GENERATIONS):
        cluster.fill(0.02)
        cluster.end(0.4)
    cluster.fill(0.05)
    return cluster


def _nodes(cluster: _Cluster) -> list[Node]:
    pods = [0] * len(cluster.where)
    for gang in cluster.gangs:
        for i in gang.nodes:
            pods[i] += 1
    found = []
    for w, free, count in zip(cluster.where, cluster.free, pods, strict=True):
        rack = f"b{w.block:02}r{w.rack:02}"
        used = NODE_GPUS - free
        requested = resources(20 * used, 200 * used, used, pods=count)
        labels = {BLOCK: f"b{w.block:02}", RACK: rack}
        found.append(node(f"{rack}n{w.node:02}", labels, MACHINE, requested))
    return found


def _running_gangs(
    rng: random.Random, cluster: _Cluster, names: Sequence[str]
) -> Iterator[PodGang]:
    for k, one in enumerate(cluster.gangs):
        name = f"run{k:04}"
        bound = tuple(
            BoundPod(f"namespaces/bench/pods/{name}-{i}", names[n]) for i, n in enumerate(one.nodes)
        )
        elastic = rng.random() < 0.4
        minimum = rng.randint(max(1, len(bound) // 2), len(bound)) if elastic else len(bound)
        (priority,) = rng.choices(PRIORITIES, SHARES)
        yield PodGang(
            gang_name(name),
            (PodGroup("worker", minimum, (PodSet(asks(one.gpus), (), bound),)),),
            priority,
            (PackingScope(name, ("worker",), one.level),) if one.level else (),
            not_preemptible=rng.random() < 0.1,
        )


def _waiting_gang(name: str, gpus: int, pods: int, level: str, priority: int) -> PodGang:
    names = tuple(Pod(f"namespaces/bench/pods/{name}-{i}") for i in range(pods))
    return PodGang(
        gang_name(name),
        (PodGroup("worker", pods, (PodSet(asks(gpus), names),)),),
        priority,
        (PackingScope(name, ("worker",), level),) if level else (),
    )


def _waiting_gangs(rng: random.Random, count: int) -> Iterator[PodGang]:
    """Gangs of whole nodes for a rack, then for a block, then half nodes anywhere, in turn."""
    for k in range(count):
        priority = rng.choice(PENDING_PRIORITIES)
        name = f"new{k:02}"
        if k % 3 == 0:
            yield _waiting_gang(name, NODE_GPUS, rng.randint(4, 16), RACK, priority)
        elif k % 3 == 1:
            yield _waiting_gang(name, NODE_GPUS, rng.randint(12, 48), BLOCK, priority)
        else:
            gpus = rng.choice((NODE_GPUS // 2, NODE_GPUS))
            yield _waiting_gang(name, gpus, rng.randint(8, 64), "", priority)


def _question(
    rng: random.Random, gangs: int, blocks: int, racks: int, nodes: int
) -> tuple[list[Node], list[PodGang], list[PodGang]]:
    """Nodes, the gangs that run, and those that wait."""
    cluster = _full_cluster(rng, blocks, racks, nodes)
    machines = _nodes(cluster)
    running = list(_running_gangs(rng, cluster, [n.name for n in machines]))
    return machines, running, list(_waiting_gangs(rng, gangs))


def preempt(
    seed: int, *, gangs: int = 20, blocks: int = 14, racks: int = 20, nodes: int = 18
) -> Snapshot:
    """Gangs of three priorities want into a cluster that is full of gangs of four.

    5,040 nodes with about 20,000 running pods by default.
    """
    rng = random.Random(f"preempt {seed}")
    machines, running, waiting = _question(rng, gangs, blocks, racks, nodes)
    return Snapshot(tuple(machines), (*running, *waiting))


def reclaim(
    seed: int, *, gangs: int = 20, blocks: int = 14, racks: int = 20, nodes: int = 18
) -> Snapshot:
    """Four teams share a cluster; two run above what is guaranteed to them, two below want in.

    All gangs have one priority, so that only what is guaranteed decides.
    """
    rng = random.Random(f"reclaim {seed}")
    machines, running, waiting = _question(rng, gangs, blocks, racks, nodes)
    share = NODE_GPUS * len(machines) // 4
    queues = [Queue(f"queues/team-{t}", "queues/all", guaranteed={GPUS: share}) for t in range(4)]
    queues.append(Queue("queues/all"))

    def of_team(gang: PodGang, team: int) -> PodGang:
        return replace(gang, queue=f"queues/team-{team}", priority=50)

    old = [of_team(gang, rng.choices((0, 1, 2, 3), (10, 15, 35, 40))[0]) for gang in running]
    new = [of_team(gang, rng.choice((0, 1))) for gang in waiting]
    return Snapshot(tuple(machines), (*old, *new), queues=tuple(queues))


def repack(
    seed: int, *, gangs: int = 20, blocks: int = 14, racks: int = 20, nodes: int = 18
) -> Snapshot:
    """Gangs that fit by number, if what runs is moved together."""
    rng = random.Random(f"repack {seed}")
    machines, running, waiting = _question(rng, gangs, blocks, racks, nodes)
    # What is free is enough for so many of them, the smallest first.
    left = sum(n.free("nvidia.com/gpu") for n in machines) * 3 // 4
    fitting = []
    for gang in sorted(waiting, key=lambda g: g.groups[0].pending_count):
        template = gang.groups[0].pod_sets[0].template
        left -= gang.groups[0].pending_count * template.requests["nvidia.com/gpu"]
        if left >= 0:
            fitting.append(gang)
    return Snapshot(tuple(machines), (*running, *fitting))


#: The policy that each of these families is about.
POLICIES = {
    "preempt": Policy(eviction=EvictionPolicy.PREEMPT),
    "reclaim": Policy(eviction=EvictionPolicy.RECLAIM),
    "repack": Policy(eviction=EvictionPolicy.REPACK),
}
