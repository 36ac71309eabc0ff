"""All waiting gangs at once: the domains that each could use, while all the rest stays at home."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from placement_service.cp_sat.linear_model import Question, Solved
from placement_service.cp_sat.victims.core import Core
from placement_service.cp_sat.victims.model import VictimModel
from placement_service.entities.request import PackingScope, PodGang, Snapshot
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import DemandIdx, NodeIdx
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import Plan, home_plan
from placement_service.formulation.prepare import prepare
from placement_service.formulation.problem import Problem, UnitsOnNode
from placement_service.heuristic.victims.prices import Prices
from placement_service.search.incumbent import State
from placement_service.search.parameters import DEFAULTS
from placement_service.search.victims import core
from placement_service.search.victims.core import Cores
from placement_service.search.victims.solver_threads import SolverThreads
from tests.service.evictions import PREEMPT, running
from tests.service.questions import gang, node
from tests.service.search.answering import answer


def two_wait(**in_plan: str) -> tuple[Problem, Plan]:
    """Racks of two nodes, with ever larger gangs; two gangs wait for a node each, in a rack that
    only they can use. The plan places them on these nodes.
    """
    names = ["a0", "a1", "b0", "b1", "c0", "c1"]
    nodes = tuple(node(name, used=8, rack=name[0]) for name in names)
    old = (
        running("one", "a0", gpus=8),
        replace(running("fixed", "a1", gpus=8), not_preemptible=True),
        running("two", "b0", "b1", gpus=4),
        running("more", "b0", "b1", gpus=4),
        running("three", "c0", "c1", gpus=8),
    )
    question = Snapshot(nodes, (*old, *(waiting(name) for name in in_plan)))
    problem = formulate(question, PREEMPT, prepare(question, PREEMPT))
    plan = dict(home_plan(problem))
    used = {names.index(n) for n in in_plan.values()}
    for g, units in home_plan(problem).items():
        if any(u.node in used for u in units):
            del plan[g]
    coming = [g for g in problem.pending if not g.home]
    for one, name in zip(coming, in_plan.values(), strict=True):
        plan[one.index] = (UnitsOnNode(DemandIdx(0), NodeIdx(names.index(name)), 1),)
    return problem, plan


def waiting(name: str) -> PodGang:
    one = replace(gang(name, pods=1, gpus=8), priority=100)
    return replace(one, packing_scopes=(PackingScope("s", ("worker",), "rack"),))


def state_of(problem: Problem, plan: Plan) -> State:
    start = to_solution(problem, plan)
    return State(problem, start, time.monotonic() + 60, lambda _: None, DEFAULTS)


def settle_cores(state: State) -> None:
    with SolverThreads(1) as threads:
        Cores(state, threads).settle()


def evicted(state: State) -> float:
    [tier] = [t for t in state.solution().tiers if t.name is TierName.DISRUPTION]
    return tier.value


def test_domains_of_all_gangs_are_chosen_at_once() -> None:
    """Both take the rack that costs one of them alone more than another rack."""
    problem, plan = two_wait(x="b0", y="c0")
    state = state_of(problem, plan)
    assert evicted(state) == 6
    settle_cores(state)
    assert evicted(state) == 2


def test_prices_that_were_found_before_the_first_answer_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, plan = two_wait(x="b0", y="c0")
    state = state_of(problem, plan)
    state.ground.cheap_room.core(DEFAULTS.core_domains, home_plan(problem))

    def never(*_: object, **__: object) -> None:
        raise AssertionError("found twice")

    monkeypatch.setattr(Prices, "of_nodes", never)
    settle_cores(state)
    assert evicted(state) == 2


def test_nothing_is_chosen_for_one_gang() -> None:
    problem, plan = two_wait(x="b0")
    state = state_of(problem, plan)
    settle_cores(state)
    assert state.plan == plan


@pytest.mark.parametrize(
    ("proven", "better", "opened", "settled"),
    [
        # As long as they are settled, up to the most.
        ([True, True, True], False, [2, 4, 8], True),
        # The first that is not settled is the last, and a later one that is not better either.
        ([False], True, [2], False),
        ([True, False], False, [2, 4], True),
        # With a better plan there is another core of the same size.
        ([True, False, False, False], True, [2, 4, 4, 4], True),
    ],
)
def test_cores_open_ever_more_domains_while_that_helps(
    monkeypatch: pytest.MonkeyPatch,
    proven: list[bool],
    better: bool,
    opened: list[int],
    settled: bool,
) -> None:
    problem, plan = two_wait(x="b0", y="c0")
    state = state_of(problem, plan)
    state.parameters = replace(DEFAULTS, most_core_domains=8)
    asked: list[int] = []
    core_of = state.ground.cheap_room.core
    left = list(proven)

    def remember(domains: int, plan: Plan) -> Core:
        asked.append(domains)
        return core_of(domains, plan)

    def found(*_: object, **__: object) -> Question:
        solved = Solved(np.zeros(1) if better else None, None, proven=left.pop(0))
        return lambda: solved

    def take(state: State, *_: object) -> None:
        if len(asked) < len(proven):
            state.worth = replace(state.worth, values=(*state.worth.values[:-1], len(asked)))

    monkeypatch.setattr(state.ground.cheap_room, "core", remember)
    monkeypatch.setattr(VictimModel, "ask_whole", found)
    monkeypatch.setattr(core, "aim", take)
    with SolverThreads(1) as threads:
        cores = Cores(state, threads)
        cores.settle()
    assert (asked, cores.first_settled) == (opened, settled)


def test_what_is_not_open_stays_at_home() -> None:
    problem, _ = two_wait(x="b0", y="c0")
    shut = Core(np.zeros(problem.node_count, dtype=np.bool_), {p: () for p in range(2)})
    model = VictimModel(problem, core=shut)
    assert not model.load
    assert not model.here
    every = {g.index for g in model.running}
    assert shut.untouched(model.running) == every
    core = Core(np.array([True] * 2 + [False] * 4), {0: (0,), 1: ()})
    half = VictimModel(problem, core=core)
    assert {half.classes[j].nodes[0] for _, j in half.load} == {0}
    assert list(half.here) == [(0, 0)]
    assert every - core.untouched(half.running) == {
        g.index for g in half.running if g.home[0].node in (0, 1)
    }


def test_it_has_no_part_in_what_only_other_models_count() -> None:
    """All that is open is where the first gang was before, and there runs one that could go."""
    back = replace(gang("back", pods=1, gpus=8), previous_nodes=("nodes/n0",), priority=1)
    other = replace(gang("other", pods=1, gpus=8), priority=1)
    nodes = (node("n0", used=8), node("n1"), node("n2"))
    question = Snapshot(nodes, (running("old", "n0", gpus=8), back, other))
    result = answer(question, PREEMPT, replace(DEFAULTS, victim_gangs=1))
    assert (result.evictions, result.tier(TierName.TOPOLOGY)) == ((), 0.001)
    assert result.solution.proven
