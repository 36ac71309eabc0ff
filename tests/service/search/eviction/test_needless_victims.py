"""No plan on the way reports victims whose room no gang takes."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest

from placement_service.api.wire.requests import parse_request
from placement_service.cp_sat.exact.model import ExactModel
from placement_service.cp_sat.solving import Answer
from placement_service.entities.solution import Solution
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import DemandIdx, NodeIdx
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import Plan, home_plan
from placement_service.formulation.prepare import prepare
from placement_service.formulation.problem import UnitsOnNode
from placement_service.heuristic.first_answer import first_answer
from placement_service.search.engine import search
from placement_service.search.exact_stage import settle_exact
from placement_service.search.incumbent import State
from tests.service.evictions import PREEMPT, cluster, running, urgent
from tests.service.questions import gang
from tests.soak import questions
from tests.waiting import LONG


@pytest.mark.parametrize(("seed", "nodes"), [(89, 20), (10, 30), (70, 30), (74, 30)])
def test_every_plan_on_the_way_can_be_named(seed: int, nodes: int) -> None:
    request = parse_request(questions.evictions(random.Random(seed), nodes))
    prepared = prepare(request.snapshot, request.policy)
    problem = formulate(request.snapshot, request.policy, prepared)

    def named(solution: Solution) -> None:
        # Raises ValueError where a pod is evicted for nobody.
        name_plan(request.snapshot, request.policy, prepared, solution.assignments)

    search(problem, first_answer(problem), deadline=time.monotonic() + LONG, report=named)


def test_a_gang_that_begins_anew_in_vain_stays_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the exact model a pod of it that waits is as good as the one that runs."""
    old = running("old", "n0", gpus=8, priority=50, minimum=1)
    [group], [more] = old.groups, gang("more", pods=1, gpus=8).groups
    old = replace(old, groups=(replace(group, pod_sets=(*group.pod_sets, *more.pod_sets)),))
    low = [running(f"low{i}", f"n{i}", gpus=8) for i in (1, 2)]
    problem = formulate(cluster(old, *low, urgent(), nodes=3), PREEMPT)
    home = home_plan(problem)
    (anew,) = (g for g in problem.gangs if g.begins_anew)
    (new,) = (g for g in problem.gangs if g.priority == 100)
    without = {index: units for index, units in home.items() if index != anew.not_with}

    def found(plan: Plan) -> Plan:
        def solve(*_: object, **__: object) -> Answer:
            return Answer(plan, 0, None, False)

        monkeypatch.setattr(ExactModel, "solve", solve)
        state = State(problem, to_solution(problem, home), time.monotonic() + LONG, None)
        settle_exact(state)
        return state.plan

    on = {i: next(g.index for g in problem.gangs if g.home and g.home[0].node == i) for i in (1, 2)}
    plan = {index: units for index, units in without.items() if index not in on.values()}
    plan[anew.index] = (UnitsOnNode(DemandIdx(0), NodeIdx(1), 1),)
    plan[new.index] = (UnitsOnNode(DemandIdx(0), NodeIdx(2), 1),)
    assert found(plan) == {
        **{index: units for index, units in home.items() if index != on[2]},
        new.index: plan[new.index],
    }
