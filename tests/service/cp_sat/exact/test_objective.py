"""What the exact model counts is what its plans are worth, tier by tier."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.exact.model import ExactModel
from placement_service.cp_sat.exact.objective import Goals
from placement_service.cp_sat.solving import Var
from placement_service.cp_sat.subproblem import Subproblem
from placement_service.entities.request import Policy, Snapshot
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import Worth, worth
from placement_service.formulation.tiers import goals
from placement_service.formulation.tiers.goal import Terms
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN
from placement_service.heuristic.first_answer import first_answer
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.search.incumbent import State
from tests.planned import Taste, questions
from tests.scenario import Group, Scenario
from tests.strategies import EVERYTHING, SMALL, TINY, snapshots
from tests.waiting import LONG

EXAMPLES = settings().max_examples


def settle_all(snapshot: Snapshot) -> Worth:
    """Settles goal after goal; each at its optimum is the worth of the plan that reaches it.
    The worth of the last plan."""
    problem = formulate(snapshot, Policy())
    gangs = [g for g in problem.gangs if g.placeable and (g.pending or g.extras)]
    state = State(problem, first_answer(problem), time.monotonic() + LONG, lambda _: None)
    model = Goals(
        ExactModel(
            state.counting,
            Subproblem(gangs, np.arange(problem.node_count), problem.free, {}),
        )
    )
    plan = state.plan

    def settle(terms: Terms[Var], *, maximize: bool) -> int | None:
        """The proven optimum, held from now on; `plan` reaches it."""
        nonlocal plan
        answer = model.solve(terms, maximize=maximize, hint=plan, seconds=LONG, effort=5)
        if not answer.proven or answer.plan is None or answer.bound is None:
            return None
        plan = answer.plan
        if terms:
            limit = "at_least" if maximize else "at_most"
            model.hold(terms, **{limit: answer.bound})
        return answer.bound

    for goal in state.goals:
        terms = goal.terms(model)
        assert terms is not None
        best = settle(terms, maximize=not goal.tier.minimize)
        assert best in (None, goal.value(plan)), goal
    return worth(problem, plan)


@settings(max_examples=EXAMPLES // 2)
@given(
    st.one_of(
        snapshots(TINY, EVERYTHING),
        snapshots(SMALL, EVERYTHING),
        questions(Taste(nodes=6, pods=12)),
        questions(Taste(nodes=6, pods=15, sets=1, rules=0, running=0.3)),
    )
)
def test_each_goal_at_its_optimum_is_the_worth_of_the_plan(snapshot: Snapshot) -> None:
    settle_all(snapshot)


def test_a_node_that_could_take_gpu_pods_beside_others_is_not_opened_by_these() -> None:
    """What fits on it are one pod without GPUs and either two small ones or a large one. The
    gangs of those do not fit whole."""
    scenario = Scenario("a=2").gang("web", pods=1, gpus=0)
    scenario = scenario.gang("small", pods=3, gpus=1).gang("large", pods=2, gpus=2)
    # The pod without GPUs is astray on the only node, which stays whole.
    assert settle_all(scenario.snapshot()).of(TierName.FRAGMENTATION) == (1,)


def test_nodes_are_opened_for_as_few_pods_as_can_be() -> None:
    """On each node is one pod without GPUs, which leaves room for either two small ones or a
    large one. They take two nodes, and the third stays whole."""
    scenario = Scenario("a=2 b=2 c=2").gang("web", Group("w", pods=3, ports=(80,)))
    scenario = scenario.gang("small", pods=2, gpus=1).gang("large", pods=1, gpus=2)
    assert settle_all(scenario.snapshot()).of(TierName.FRAGMENTATION) == (3 + 2,)


def test_gangs_that_differ_in_their_scopes_alone_are_not_placed_in_order() -> None:
    """No rack takes the first; the second asks for the same, and not for a rack."""
    scenario = Scenario("x1=8 x2=8 | r1: y1=8 y2=0").gang("a", pods=2, gpus=8, pack="rack")
    problem = formulate(scenario.gang("b", pods=2, gpus=8).snapshot(), Policy())
    model = ExactModel(
        Counting(Topology(problem)), Subproblem(problem.gangs, np.arange(4), problem.free, {})
    )

    admitted = goals(problem)[0].terms(Goals(model))
    assert admitted is not None
    answer = model.solve(admitted, maximize=True, hint={}, seconds=LONG, effort=5)

    assert answer.value == 16_000_000


@pytest.mark.parametrize(
    ("scenario", "domains"),
    [
        pytest.param(
            Scenario("r1: x1=8 x2=0 | r2: y1=8 y2=0")
            .gang("base", pods=2, gpus=8, prefer="rack")
            .gang("scaled", pods=1, gpus=8, base="base"),
            1,
            id="a base alone is no set",
        ),
        pytest.param(
            Scenario("r1: x1=8 x2=8 | r2: y1=0/8 y2=0")
            .gang("base", pods=1, gpus=8, prefer="rack")
            .gang("scaled", pods=1, gpus=8, base="base")
            .gang("waits", Group("w", pods=1, gpus=9, on=("y1",)), base="base"),
            0,
            id="what waits does not count for its set, though some of it runs",
        ),
        pytest.param(
            Scenario("x1=8 | r1: y1=0 y2=0").gang(
                "a", Group("p", pods=1, gpus=8), Group("d", pods=2, gpus=8, min=0, prefer="rack")
            ),
            0,
            id="extras that all wait use no domain",
        ),
    ],
)
def test_domains_are_charged_to_what_is_there(scenario: Scenario, domains: int) -> None:
    assert settle_all(scenario.snapshot()).of(TierName.TOPOLOGY) == (domains * UNITS_PER_DOMAIN,)
