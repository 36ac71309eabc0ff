"""Bounds that must not be believed too early: a bad start shows what they claim."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from placement_service.entities.request import (
    EPHEMERAL_STORAGE,
    HOSTNAME,
    MEMORY,
    PODS,
    Node,
    PackingScope,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
)
from placement_service.entities.solution import Solution, TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.gang_value import UNITS_PER_GPU
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import Plan, units_of
from placement_service.search.aggregate_stage import settle_aggregate
from placement_service.search.engine import search
from placement_service.search.exact_stage import settle_exact
from placement_service.search.incumbent import State
from tests.drawing import GPU
from tests.scenario import Group, Scenario
from tests.waiting import LONG


def search_from(scenario: Scenario, plan: Plan) -> Solution:
    """The engine's answer when the first answer was this plan."""
    problem = formulate(scenario.snapshot(), scenario.policy)
    deadline = time.monotonic() + LONG
    return search(
        problem, to_solution(problem, plan), deadline=deadline, report=lambda solution: None
    )


def test_gangs_that_ask_for_the_same_may_need_more_domains_or_fewer() -> None:
    # Both are three whole nodes in racks of two, so both may be split; only one minds.
    scenario = (
        Scenario("r1: x1=8 x2=8 | r2: y1=8 y2=8 | r3: z1=8 z2=8")
        .gang("minds", Group("w", pods=3, gpus=8), prefer="rack")
        .gang("does-not-mind", Group("w", pods=3, gpus=8))
    )
    one_in_each_rack = {
        GangIdx(0): units_of({(0, node): 1 for node in (0, 2, 4)}),
        GangIdx(1): units_of({(0, node): 1 for node in (1, 3, 5)}),
    }

    solution = search_from(scenario, one_in_each_rack)

    topology = next(t for t in solution.tiers if t.name is TierName.TOPOLOGY)
    assert (topology.value, topology.bound) == (1, 1)


@pytest.mark.parametrize("stage", [settle_aggregate, settle_exact])
def test_what_was_proven_of_plans_with_more_extras_is_forgotten_when_there_are_none(
    stage: Callable[[State], None],
) -> None:
    # Room for the minimum alone. Of plans with the extra any cost may be proven: there are none.
    scenario = Scenario("r1: x1=8 x2=0").gang("a", pods=2, gpus=8, min=1, prefer="rack")
    problem = formulate(scenario.snapshot(), scenario.policy)
    deadline = time.monotonic() + 20
    state = State(problem, to_solution(problem, {}), deadline, lambda solution: None)
    claimed = {
        TierName.ADMITTED: 8 * UNITS_PER_GPU,
        TierName.WAITING: 1,
        TierName.EXTRA: 1,
        TierName.TOPOLOGY: 1000,
    }
    state.learn_all(
        [claimed.get(g.tier, b) for g, b in zip(state.goals, state.bounds, strict=True)]
    )

    stage(state)

    known = {TierName.ADMITTED: 8 * UNITS_PER_GPU, TierName.WAITING: 1}
    assert [known.get(g.tier, 0) for g in state.goals] == list(state.bounds)


LARGE = 2**53


@pytest.mark.parametrize(
    ("room", "asked"),
    [
        pytest.param({MEMORY: LARGE}, [{MEMORY: 1}, {MEMORY: 2}], id="room for all that there is"),
        pytest.param(
            {}, [{EPHEMERAL_STORAGE: 1}, {EPHEMERAL_STORAGE: LARGE}], id="no limit at all"
        ),
        pytest.param({GPU: LARGE}, [{GPU: LARGE}, {GPU: LARGE - 1}], id="gangs beyond all value"),
    ],
)
def test_amounts_whose_sums_leave_64_bits_make_no_bound_wrong(
    room: dict[str, int], asked: list[dict[str, int]]
) -> None:
    nodes = tuple(
        Node(f"nodes/n{i}", {HOSTNAME: f"n{i}", "rack": f"r{i % 2}"}, {PODS: 110, **room})
        for i in range(2100)
    )
    gangs = tuple(
        PodGang(
            f"namespaces/ml/podgangs/g{i}",
            (PodGroup("w", 30, (PodSet(PodTemplate({PODS: 1, **requests}), pods(f"g{i}", 30)),)),),
            packing_scopes=(PackingScope("all", ("w",), "rack", "rack"),),
        )
        for i, requests in enumerate(asked)
    )
    scenario = Scenario("", nodes, gangs)
    scenario.place().expect(placed=["g0", "g1"], extra=0, topology=0)


def pods(prefix: str, count: int) -> tuple[Pod, ...]:
    return tuple(Pod(f"namespaces/ml/pods/{prefix}-{i}") for i in range(count))
