"""What the exact model counts is what its plans are worth, tier by tier."""

from __future__ import annotations

import time

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_service.formulate import formulate
from placement_service.goals import Goals
from placement_service.greedy import first_answer
from placement_service.model import Model
from placement_service.plan import Worth, priorities, worth
from placement_service.snapshot import Policy, Snapshot
from placement_service.solving import Terms
from placement_service.state import State
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
    goals = Goals(Model(state.counting, gangs, np.arange(problem.node_count), problem.free, {}))
    plan = state.plan

    def settle(terms: Terms, *, maximize: bool) -> int | None:
        """The proven optimum, held from now on; `plan` reaches it."""
        nonlocal plan
        answer = goals.model.solve(terms, maximize=maximize, hint=plan, seconds=LONG, effort=5)
        if not answer.proven or answer.plan is None or answer.bound is None:
            return None
        plan = answer.plan
        if terms:
            limit = "at_least" if maximize else "at_most"
            goals.model.hold(terms, **{limit: answer.bound})
        return answer.bound

    for i, priority in enumerate(priorities(problem)):
        best = settle(goals.admitted(priority), maximize=True)
        assert best in (None, worth(problem, plan).admitted[i])
    assert settle(goals.extras(), maximize=True) in (None, worth(problem, plan).extra)
    assert settle(goals.topology, maximize=False) in (None, worth(problem, plan).topology)
    assert settle(goals.fragmentation, maximize=False) in (None, worth(problem, plan).fragmentation)
    return worth(problem, plan)


@settings(max_examples=EXAMPLES // 2)
@given(st.one_of(snapshots(TINY, EVERYTHING), snapshots(SMALL, EVERYTHING)))
def test_each_goal_at_its_optimum_is_the_worth_of_the_plan(snapshot: Snapshot) -> None:
    settle_all(snapshot)


def test_a_node_that_could_take_gpu_pods_beside_others_is_not_opened_by_these() -> None:
    """What fits on it are one pod without GPUs and either two small ones or a large one. The
    gangs of those do not fit whole."""
    scenario = Scenario("a=2").gang("web", pods=1, gpus=0)
    scenario = scenario.gang("small", pods=3, gpus=1).gang("large", pods=2, gpus=2)
    # The pod without GPUs is astray on the only node, which stays whole.
    assert settle_all(scenario.snapshot()).fragmentation == 1


def test_nodes_are_opened_for_as_few_pods_as_can_be() -> None:
    """On each node is one pod without GPUs, which leaves room for either two small ones or a
    large one. They take two nodes, and the third stays whole."""
    scenario = Scenario("a=2 b=2 c=2").gang("web", Group("w", pods=3, ports=(80,)))
    scenario = scenario.gang("small", pods=2, gpus=1).gang("large", pods=1, gpus=2)
    assert settle_all(scenario.snapshot()).fragmentation == 3 + 2
