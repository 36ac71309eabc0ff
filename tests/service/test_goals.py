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
from placement_service.plan import priorities, worth
from placement_service.snapshot import Policy, Snapshot
from placement_service.solving import Terms
from placement_service.state import State
from tests.strategies import EVERYTHING, SMALL, TINY, snapshots
from tests.waiting import LONG

EXAMPLES = settings().max_examples


@settings(max_examples=EXAMPLES // 2)
@given(st.one_of(snapshots(TINY, EVERYTHING), snapshots(SMALL, EVERYTHING)))
def test_each_goal_at_its_optimum_is_the_worth_of_the_plan(snapshot: Snapshot) -> None:
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
