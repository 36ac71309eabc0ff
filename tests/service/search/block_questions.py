"""Random questions for the stages that fill blocks."""

from __future__ import annotations

import random
import time
from dataclasses import replace

from bench.families.building import (
    BLOCK,
    FRONTEND,
    HALF_TRAY,
    ONE_GPU,
    RACK,
    WHOLE_TRAY,
    Part,
    gang,
    nvl_cluster,
    resources,
)
from bench.families.packing import POOL
from bench.instances import NOW, Instance
from placement_service.entities.request import Node, PodGang, Policy, Snapshot
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.formulation.problem import Problem
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN
from placement_service.heuristic.first_answer import first_answer
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count
from placement_service.search.parameters import DEFAULTS, SearchParameters


def ran_before(snapshot: Snapshot) -> Snapshot:
    """The same where the pods of every second gang ran on nodes that most of them fit no more."""
    nodes = tuple(node.name for node in snapshot.nodes[:3])
    gangs = (
        replace(g, previous_nodes=nodes if i % 2 else ()) for i, g in enumerate(snapshot.gangs)
    )
    return replace(snapshot, gangs=tuple(gangs))


def question(seed: int) -> Snapshot:
    """A few gangs of all sorts of parts on two or three blocks of small racks."""
    rng = random.Random(seed)
    nodes = nvl_cluster(
        rng,
        blocks=rng.randint(2, 3),
        racks=rng.randint(1, 3),
        trays=rng.randint(2, 5),
        cpu_machines=rng.randint(0, 1),
        free=rng.choice((None, 0.9)),
        hogs=0.1,
    )
    unlike = rng.random() < 0.4
    if unlike:
        # Some nodes have cores for some pods only.
        nodes = [replace(n, requested=n.requested or cores_in_use(rng)) for n in nodes]
    pools = rng.random() < 0.4
    if pools:
        by_rack = rng.random() < 0.5
        nodes = [
            replace(n, labels={**n.labels, POOL: f"p{pool_of(n, by_rack) % 2}"}) for n in nodes
        ]
    gangs: list[PodGang] = []
    for i in range(rng.randint(2, 8)):
        parts = []
        for k in range(rng.randint(1, 3)):
            template = rng.choice((WHOLE_TRAY, WHOLE_TRAY, HALF_TRAY, ONE_GPU, FRONTEND))
            if unlike and template == WHOLE_TRAY:
                template = replace(template, requests=resources(rng.choice((64, 96, 128)), 400, 4))
            if pools and rng.random() < 0.5:
                template = replace(template, node_selector=((POOL, f"p{rng.randrange(2)}"),))
            count = rng.randint(1, 5)
            least = rng.randint(1, count) if rng.random() < 0.3 else None
            parts.append(Part(f"p{k}", template, count, rack=rng.random() < 0.4, minimum=least))
        required = rng.choice(("", "", BLOCK, RACK)) if rng.random() < 0.4 else ""
        preferred = "" if required else rng.choice((BLOCK, BLOCK, RACK, ""))
        base = f"g{rng.randrange(i)}" if i and rng.random() < 0.25 else ""
        if base and gangs[int(base[1:])].base_gang:
            base = ""
        made = gang(
            f"g{i}",
            parts,
            required=required,
            preferred=preferred,
            priority=rng.choice((0, 0, 100)),
            base=base,
        )
        gangs.append(replace(made, created=NOW - rng.randrange(100_000)))
    return Snapshot(tuple(nodes), tuple(gangs), as_of=NOW)


def cores_in_use(rng: random.Random) -> dict[str, int]:
    """What other pods take of a node that has all its GPUs; mostly nothing."""
    return resources(rng.choice((24, 64)), 64) if rng.random() < 0.3 else {}


def pool_of(node: Node, by_rack: bool) -> int:
    """A number that is the same for all nodes of a rack, or for about half of them."""
    return sum(map(ord, node.labels.get(RACK, "") if by_rack else node.name))


def begun(
    snapshot: Snapshot,
    policy: Policy | None = None,
    parameters: SearchParameters = DEFAULTS,
    *,
    seconds: float = 60,
) -> State:
    """A search that has nothing but the first answer."""
    problem = formulate(snapshot, policy or Policy())
    late = time.monotonic() + seconds
    return State(problem, first_answer(problem), late, lambda _: None, parameters)


def from_nothing(problem: Problem) -> State:
    """A search that begins where nothing is placed."""
    return State(problem, to_solution(problem, {}), time.monotonic() + 600, lambda _: None)


def counted(snapshot: Snapshot, parameters: SearchParameters = DEFAULTS) -> State:
    """A search that knows its target beside the first answer."""
    state = begun(snapshot, parameters=parameters)
    count(state)
    return state


def domains(state: State) -> int:
    """What the plan costs in topology."""
    costs = zip(state.goals, state.worth.values, strict=True)
    return next(v for goal, v in costs if goal.tier is TierName.TOPOLOGY) // UNITS_PER_DOMAIN


def scattered(seed: int, *, blocks: int = 4, gangs: int = 40) -> Snapshot:
    """Pools that are mixed rack by rack in every block."""
    params = {"blocks": blocks, "gangs": gangs, "scattered": 1}
    return Instance("pools", params, seed).snapshot()
