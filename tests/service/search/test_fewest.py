"""The fewest domains that a gang could use alone, which its placement score is measured by."""

from __future__ import annotations

import time
from dataclasses import replace
from unittest.mock import Mock

import pytest

from placement_service.cp_sat.exact.model import ExactModel
from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import DemandIdx, GangIdx, NodeIdx
from placement_service.formulation.objective import to_solution
from placement_service.formulation.problem import UnitsOnNode
from placement_service.heuristic.first_answer import first_answer
from placement_service.search import exact_stage
from placement_service.search.exact_stage import measure_fewest
from placement_service.search.incumbent import State
from placement_service.search.parameters import DEFAULTS
from tests.scenario import Group, Scenario
from tests.waiting import LONG

WITHOUT_MODELS = replace(DEFAULTS, exact_polish_variables=0)


def split_gang(seconds: float) -> State:
    """A gang in two racks that fits in one."""
    asked = Scenario("r1: x1=8 x2=8 | r2: x3=8").gang("a", pods=2, gpus=8, prefer="rack")
    problem = formulate(asked.snapshot(), Policy())
    apart = tuple(UnitsOnNode(DemandIdx(0), NodeIdx(n), 1) for n in (0, 2))
    split = to_solution(problem, {GangIdx(0): apart})
    return State(problem, split, time.monotonic() + seconds, lambda _: None, WITHOUT_MODELS)


def test_of_a_split_gang_they_are_known_without_a_model_where_it_fits_in_one() -> None:
    state = split_gang(LONG)
    measure_fewest(state)
    assert state.fewest == {GangIdx(0): 1}


def test_nothing_is_placed_for_it_once_time_is_up() -> None:
    state = split_gang(-1)
    measure_fewest(state)
    assert not state.fewest


def test_nothing_is_counted_for_it_once_time_is_up() -> None:
    state = split_gang(-1)
    measure_fewest(state)
    assert not state.ground.is_counting
    # What is counted already says it at once.
    known = split_gang(-1)
    assert known.counting.classes
    measure_fewest(known)
    assert known.ground.is_counting


def test_gangs_that_ask_for_the_same_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a pod in both racks, of which counting knows nothing."""
    asked = Scenario("r1: x=8 | r2: y=8")
    asked = asked.node("x", labels={"model": "old"}).node("y", labels={"model": "new"})
    for name, gpus in (("g1", 2), ("g2", 2), ("g3", 1)):
        groups = (Group(m, pods=1, gpus=gpus, select={"model": m}) for m in ("old", "new"))
        asked = asked.gang(name, *groups, prefer="rack")
    problem = formulate(asked.snapshot(), Policy())
    plan = first_answer(problem)
    state = State(problem, plan, time.monotonic() + LONG, lambda _: None)
    assert [state.counting.fewest(gang) for gang in problem.gangs] == [1, 1, 1]
    built = Mock(wraps=ExactModel)
    monkeypatch.setattr(exact_stage, "ExactModel", built)
    measure_fewest(state)
    assert state.fewest == dict.fromkeys(map(GangIdx, range(3)), 2)
    assert built.call_count == 2
