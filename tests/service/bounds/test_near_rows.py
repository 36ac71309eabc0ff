"""Gangs that each fit whole into one place that they prefer, and cannot all do so."""

from __future__ import annotations

import random
import time

from placement_service.bounds.counting import Counting
from placement_service.bounds.near_rows import NearRows
from placement_service.entities.request import Policy
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count
from tests.scenario import Scenario

ONE_LARGE_RACK = "r1: a1=8 a2=8 a3=8 a4=8 | r2: b1=8 b2=8 | r3: c1=8 c2=8"


def fewest_domains(scenario: Scenario) -> int:
    """What counting says of domains beyond the first, of plans with as many gangs as can be."""
    problem = formulate(scenario.snapshot(), Policy())
    state = State(problem, to_solution(problem, {}), time.monotonic() + 60, lambda _: None)
    count(state)
    at = next(i for i, goal in enumerate(state.goals) if goal.tier is TierName.TOPOLOGY)
    return state.bounds[at] // UNITS_PER_DOMAIN


def test_one_gang_has_the_only_large_rack() -> None:
    assert fewest_domains(Scenario(ONE_LARGE_RACK).gang("a", pods=3, gpus=8, prefer="rack")) == 0


def test_of_two_gangs_that_want_the_only_large_rack_one_is_split() -> None:
    scenario = Scenario(ONE_LARGE_RACK)
    for name in "ab":
        scenario = scenario.gang(name, pods=3, gpus=8, prefer="rack")
    assert fewest_domains(scenario) == 1


def test_a_gang_that_prefers_nothing_takes_no_large_rack() -> None:
    scenario = Scenario(ONE_LARGE_RACK).gang("a", pods=3, gpus=8, prefer="rack")
    assert fewest_domains(scenario.gang("b", pods=3, gpus=8)) == 0


def test_gangs_put_whole_into_racks_at_random_keep_every_row() -> None:
    rng = random.Random(1)
    rows = tight = 0
    for _ in range(60):
        free = [rng.randint(1, 5) for _ in range(rng.randint(2, 4))]
        text = " | ".join(
            f"r{r}: " + " ".join(f"n{r}x{n}=8" for n in range(nodes))
            for r, nodes in enumerate(free)
        )
        scenario, sizes = Scenario(text), [rng.randint(2, 4) for _ in range(rng.randint(2, 6))]
        for i, pods in enumerate(sizes):
            scenario = scenario.gang(f"g{i}", pods=pods, gpus=8, prefer="rack")
        problem = formulate(scenario.snapshot(), Policy())
        counting = Counting(Topology(problem))
        whole = []
        for gang in problem.gangs:
            pods = sum(q.missing for q in gang.requirements)
            able = [r for r, nodes in enumerate(free) if nodes >= pods]
            if able:
                free[rng.choice(able)] -= pods
                whole.append(gang.index)
        for weights, room in NearRows(counting).rows():
            near = {c: sum(g in whole for g in counting.classes[c].gangs) for c in weights}
            used = sum(w * near[c] for c, w in weights.items())
            assert used <= room
            rows += 1
            tight += used == room
    assert rows > 0
    assert tight > 0
