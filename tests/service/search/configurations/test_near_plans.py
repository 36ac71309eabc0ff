"""Fillings near a plan: where more gangs get room, most domains hold what they held before."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import assume, event, given
from hypothesis import strategies as st

from bench.instances import Instance
from placement_service.cp_sat.configurations.master import ConfigurationMaster
from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.request import Policy, Snapshot
from placement_service.formulation.objective import to_solution
from placement_service.judge.verify import verify
from placement_service.search.block_guess.stage import assign_blocks
from placement_service.search.configurations.plan import Realisation
from placement_service.search.configurations.plan_columns import plan_columns, plan_parts
from placement_service.search.configurations.stage import Configuring, settle_configurations
from placement_service.search.lexicographic import keep
from placement_service.search.master_stage import count
from placement_service.search.parameters import DEFAULTS
from tests.service.search.block_questions import begun, question

POLICY = Policy(deterministic=True)

#: More gangs get room here than blocks are found for.
CROWDED = Instance("pools", {"scattered": 1, "blocks": 2, "gangs": 26}, 4)


@given(st.integers(0, 10_000).map(question))
def test_what_reaches_no_more_than_a_plan_leaves_it_as_it_is(snapshot: Snapshot) -> None:
    state = begun(snapshot, POLICY, seconds=600)
    found = state.configurations
    assume(found is not None)
    assert found is not None
    held = plan_columns(found, state.plan)
    master = ConfigurationMaster(found, columns=held.values())
    for goal, reached in zip(state.goals[: state.topology], state.worth.enough, strict=False):
        keep(goal, master, reached)

    assert master.columns.keep(held, seconds=60)
    filling = master.filling
    assert filling is not None
    assert all(filling.domains[d] == dict(column.parts) for d, column in held.items())

    realisation = Realisation(found)
    plan = realisation.plan(filling, seconds=60, effort=1.0, near=state.plan)
    before, after = plan_parts(found, state.plan), plan_parts(found, plan)
    both = before.keys() & after.keys()
    event(f"gangs {min(3, len(both))}")
    # Extras are no part of it.
    assert all(not after[index] - before[index] for index in both)


def test_few_more_domains_are_used_for_more_gangs() -> None:
    snapshot = CROWDED.snapshot()
    found = []
    for seconds in (math.inf, DEFAULTS.configuration_near_seconds):
        state = begun(snapshot, POLICY, seconds=600)
        state.parameters = replace(DEFAULTS, configuration_near_seconds=seconds)
        count(state)
        assign_blocks(state)
        before = state.worth
        settle_configurations(state)
        assert state.worth.values[0] > before.values[0]
        assert state.worth.values[state.topology] > before.values[state.topology]
        found.append(state.worth)
        solution = to_solution(state.problem, state.plan)
        assert not verify(snapshot, POLICY, name_pods(snapshot, solution.assignments))
    far, near = found
    assert near.rank[: state.topology] == far.rank[: state.topology]
    assert near.values[state.topology] < far.values[state.topology]


def test_near_a_plan_nothing_is_lost_of_what_it_reaches() -> None:
    """Also where the search ended before all goals were settled."""
    snapshot = CROWDED.snapshot()
    state = begun(snapshot, POLICY, seconds=600)
    assert state.configurations is not None
    held = plan_columns(state.configurations, state.plan)
    master = ConfigurationMaster(state.configurations, columns=held.values())
    Configuring(state, master).realise_near(state.plan, held)
    assert master.filling is not None
    gangs = state.problem.gangs
    admitted = sum(gangs[i].value for i in master.filling.gangs)
    assert admitted >= state.worth.values[0] > 0
