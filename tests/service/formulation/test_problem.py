"""Problems go to the solver process and back."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace

import numpy as np

from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import DemandIdx, NodeIdx
from placement_service.formulation.problem import UnitsOnNode
from tests.scenario import Scenario


def test_a_gang_arrives_at_the_solver_process_with_all_its_fields() -> None:
    snapshot = Scenario("x1=8 x2=8").gang("a", pods=2, gpus=4).snapshot()
    (made,) = formulate(snapshot, Policy()).gangs
    home = (UnitsOnNode(DemandIdx(0), NodeIdx(1), 2),)
    gang = replace(made, home=home, keeps=(1,), queue_rows=(3,), guarantee=2, waited=60)
    arrived = pickle.loads(pickle.dumps(gang))
    assert gang.demands[0].members
    for one in fields(gang):
        assert getattr(arrived, one.name) == getattr(gang, one.name), one.name


def test_a_problem_arrives_with_the_same_arrays() -> None:
    snapshot = Scenario("x1=8 x2=8 x3=0").gang("a", pods=2, gpus=4).snapshot()
    problem = formulate(snapshot, Policy())
    arrived = pickle.loads(pickle.dumps(problem))
    assert problem.eligible.any()
    assert arrived.eligible.dtype == np.bool_
    for one in fields(problem):
        mine, same = getattr(problem, one.name), getattr(arrived, one.name)
        if isinstance(mine, np.ndarray):
            np.testing.assert_array_equal(same, mine)
    assert len(arrived.gangs) == len(problem.gangs)
    assert arrived.policy == problem.policy
