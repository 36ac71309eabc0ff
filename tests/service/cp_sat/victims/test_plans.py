"""The model of victims admits every plan: those that heuristics make without it, on random clusters
of racks in blocks, where gangs with scopes in scopes come and gangs with extras give way.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from placement_service.cp_sat.decomposition import Decomposition
from placement_service.cp_sat.victims.model import VictimModel
from placement_service.cp_sat.victims.regions import Regions
from placement_service.entities.request import (
    PODS,
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
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import worth
from placement_service.formulation.plan import Plan, from_solution
from placement_service.formulation.problem import Problem
from placement_service.heuristic.first_answer import first_answer
from placement_service.heuristic.orders import narrowest_first, orders
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.victims.make_room import make_room
from placement_service.search.lexicographic import keep
from tests.service.evictions import PREEMPT, REPACK
from tests.service.questions import GPU, node
from tests.waiting import LONG

NODES = [(f"n{i}", f"r{i // 3}", f"b{i // 6}") for i in range(12)]
POLICIES = [PREEMPT, REPACK]
#: Most take a node.
SIZES = (2, 4, 8, 8, 8)


def scopes(chance: random.Random, groups: tuple[PodGroup, ...], *, whole: str) -> PodGang:
    """A gang in one domain of the level `whole`, if any, with some of its groups in racks."""
    found = [PackingScope("all", tuple(g.name for g in groups), whole)] if whole else []
    found += [PackingScope(g.name, (g.name,), "rack") for g in groups if chance.random() < 0.5]
    return PodGang("", groups, packing_scopes=tuple(found))


def running(chance: random.Random, name: str, free: Counter[str]) -> PodGang | None:
    """A gang that keeps its levels, with extras or not; None where it finds no room."""
    whole = chance.choice(["", "rack", "block", "block"])
    rack, block = chance.choice([(r, b) for _, r, b in NODES])
    groups: list[PodGroup] = []
    for i in range(chance.choice([1, 1, 2])):
        gpus, pods = chance.choice(SIZES), chance.randint(1, 3)
        inside = [n for n, r, b in NODES if {"rack": r == rack, "block": b == block}.get(whole, 1)]
        if chance.random() < 0.5:
            narrow = chance.choice([r for n, r, _ in NODES if n in inside])
            inside = [n for n, r, _ in NODES if n in inside and r == narrow]
        homes = []
        for _ in range(pods):
            able = [n for n in inside if free[n] >= gpus]
            if able:
                homes.append(chance.choice(able))
                free[homes[-1]] -= gpus
        if not homes:
            return None
        template = PodTemplate({GPU: gpus, PODS: 1}, {"app": name})
        bound = tuple(
            BoundPod(f"namespaces/ml/pods/{name}-{i}-{k}", f"nodes/{n}")
            for k, n in enumerate(homes)
        )
        groups.append(PodGroup(f"g{i}", chance.randint(1, pods), (PodSet(template, (), bound),)))
    return replace(
        scopes(chance, tuple(groups), whole=whole), name=f"namespaces/ml/podgangs/{name}"
    )


def waiting(chance: random.Random, name: str, priority: int) -> PodGang:
    groups = []
    for i in range(chance.choice([1, 2, 2])):
        pods = [Pod(f"namespaces/ml/pods/{name}-{i}-{k}") for k in range(chance.randint(1, 3))]
        first = chance.randint(1, len(pods))
        # Those of a second set may stand in for the others.
        sets = tuple(
            PodSet(PodTemplate({GPU: chance.choice(SIZES), PODS: 1}), tuple(mine))
            for mine in (pods[:first], pods[first:])
            if mine
        )
        groups.append(PodGroup(f"g{i}", chance.randint(1, len(pods)), sets))
    one = scopes(chance, tuple(groups), whole=chance.choice(["", "block", "block", "rack"]))
    return replace(one, name=f"namespaces/ml/podgangs/{name}", priority=priority)


def question(seed: int) -> Snapshot:
    chance = random.Random(seed)
    free = Counter({n: 8 for n, _, _ in NODES})
    old = [running(chance, f"old{i}", free) for i in range(chance.randint(4, 12))]
    high = [waiting(chance, f"new{i}", chance.choice([0, 100])) for i in range(4)]
    nodes: list[Node] = [
        node(n, used=8 - free[n], rack=rack, block=block) for n, rack, block in NODES
    ]
    return Snapshot(tuple(nodes), (*(g for g in old if g is not None), *high))


def plans(problem: Problem) -> Iterator[Plan]:
    """Valid plans: the first answer, and what comes of making room for gangs in other orders."""
    start = from_solution(problem, first_answer(problem))
    yield start
    builder = Builder(problem)
    for order in orders(problem):
        home = {g.index: tuple(g.home) for g in problem.gangs if g.home}
        built = builder.build(order, start=home)
        yield built
        yield make_room(builder, built, narrowest_first(problem), until=time.monotonic() + LONG)


@pytest.mark.parametrize("policy", POLICIES, ids=["preempt", "repack"])
@pytest.mark.parametrize("seed", range(12))
def test_the_model_of_victims_admits_plans_that_were_made_without_it(
    seed: int, policy: Policy
) -> None:
    problem = formulate(question(seed), policy)
    models = [
        VictimModel(problem, large_only=large, sharp=sharp)
        for large in (False, True)
        for sharp in (False, True)
    ]
    for plan in plans(problem):
        reached = worth(problem, plan)
        for model in models:
            mark = model.mark()
            for goal, value in zip(reached.goals, reached.values, strict=True):
                if goal.tier.provable and goal.terms(model) is not None:
                    keep(goal, model, value)
            found = model.whole([(0, 1)], maximize=True, seconds=LONG)
            model.undo(mark)
            assert found.values is not None


@pytest.mark.parametrize("policy", POLICIES, ids=["preempt", "repack"])
@pytest.mark.parametrize("seed", range(12))
def test_no_plan_has_more_than_what_blocks_say_one_by_one(seed: int, policy: Policy) -> None:
    problem = formulate(question(seed), policy)
    model = VictimModel(problem, sharp=True)
    regions = Regions(model)
    known = [worth(problem, plan) for plan in plans(problem)]
    mark = model.mark()
    for i, goal in enumerate(known[0].goals):
        terms = goal.terms(model) if goal.tier.provable else None
        if terms is None:
            break
        found = model.relaxed(terms, maximize=not goal.tier.minimize, seconds=LONG)
        assert found.priced
        size = len(found.priced.program.goal)
        until = time.monotonic() + LONG
        blocks = Decomposition(found.priced, regions.of_variables(size), until=until, nodes=500)
        bound = blocks.bound([ask() for ask in blocks.questions])
        assert bound is not None
        values = [reached.values[i] for reached in known]
        best = min(values) if goal.tier.minimize else max(values)
        assert bound <= best if goal.tier.minimize else bound >= best
        # What follows holds for the best of these plans.
        known = [reached for reached in known if reached.values[i] == best]
        keep(goal, model, best)
    model.undo(mark)
