"""The aggregate model by itself: without exact model and neighbourhoods to make up for it.

What it says of whole problems is compared with answers known by hand, and on
random tiny ones with brute force.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from placement_service.cp_sat.aggregate.model import AggregateModel
from placement_service.cp_sat.solving import Var
from placement_service.cp_sat.subproblem import Subproblem
from placement_service.entities.request import Snapshot
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan, units_of
from placement_service.formulation.tiers import goals
from placement_service.formulation.tiers.goal import Terms
from placement_service.search.aggregate_stage import settle_aggregate
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count
from placement_service.search.neighbourhoods.lns import Improver
from tests.brute import TooLarge, no_bound_cuts_off, optimum
from tests.planned import Taste, questions
from tests.scenario import Group, Scenario
from tests.service.cp_sat.aggregate.asking import (
    POLICY,
    Stage,
    after,
    counted,
    judged,
    rack,
    values_and_bounds,
)
from tests.strategies import PACKING_ONLY, TINY, snapshots
from tests.waiting import LONG


def admitted(model: AggregateModel) -> Terms[Var]:
    """The first goal of the model, where all gangs have one priority."""
    return goals(model.problem)[0].terms(model) or []


def test_whole_sets_are_dealt_to_domains_that_they_fill() -> None:
    # Each block is cut into two sets of a base and scaled gangs of two nodes and of one.
    rng = random.Random(3)
    scenario = Scenario(" | ".join(rack(f"r{b}", 16 - b % 4, f"b{b}") for b in range(8)))
    gangs: list[tuple[str, int, str]] = []
    for b in range(8):
        free = 16 - b % 4
        for s, mine in enumerate((free // 2, free - free // 2)):
            base = f"s{b}{s}"
            gangs.append((base, mine - 3, ""))
            gangs.append((f"{base}-x", 2, base))
            gangs.append((f"{base}-y", 1, base))
    rng.shuffle(gangs)
    for name, pods, base in gangs:
        scenario = scenario.gang(name, pods=pods, gpus=8, pack="block", base=base)

    state = after(scenario, count, settle_aggregate)

    judged(state)
    assert values_and_bounds(state.solution())[1:] == [(0, 0), (0, 0)]
    assert state.proven


def test_minimums_spread_where_extras_want_the_rest_of_the_rack() -> None:
    scenario = Scenario(" | ".join(rack(f"r{i}", 8) for i in range(10)))
    for i in range(10):
        scenario = scenario.gang(f"e{i}", pods=8, gpus=8, min=4, pack="rack")

    state = after(scenario, count, settle_aggregate)

    judged(state)
    assert values_and_bounds(state.solution()) == [(320, 320), (40, 40), (0, 0)]


def test_a_split_that_cannot_be_helped_is_proven() -> None:
    # Two racks of four; of three gangs of three and of two, one of three must be split.
    scenario = Scenario(f"{rack('r1', 4)} | {rack('r2', 4)}")
    for name, pods in (("a", 3), ("b", 3), ("c", 2)):
        scenario = scenario.gang(name, pods=pods, gpus=8, prefer="rack")

    state = after(scenario, count, settle_aggregate)

    judged(state)
    assert values_and_bounds(state.solution()) == [(64, 64), (0, 0), (1, 1)]


def test_a_part_keeps_its_rack_where_the_gang_only_prefers_one() -> None:
    # Too large for a rack, the gang is split; its group of two is not.
    scenario = Scenario(f"{rack('r1', 3)} | {rack('r2', 3)}").gang(
        "a",
        Group("p", pods=2, gpus=8, pack="rack"),
        Group("d", pods=2, gpus=8, pack="rack"),
        prefer="rack",
    )

    state = after(scenario, count, settle_aggregate, plan={})

    judged(state)
    assert values_and_bounds(state.solution()) == [(32, 32), (0, 0), (1, 1)]


def test_extras_that_need_a_rack_do_not_hold_up_the_minimum_where_all_are_full() -> None:
    scenario = Scenario("x1=8 | r1: y1=0 y2=0").gang(
        "a", Group("p", pods=1, gpus=1), Group("d", pods=1, gpus=1, min=0, pack="rack")
    )

    state = after(scenario, settle_aggregate, plan={})

    judged(state)
    assert values_and_bounds(state.solution()) == [(1, 1), (0, 0), (0, 0)]


def test_a_part_too_large_for_any_domain_may_lie_on_more_nodes_without_the_label() -> None:
    # Without the label, x1 and x2 are two domains; the only rack has no room.
    scenario = Scenario("x1=8 x2=8 | r1: y1=0 y2=0").gang("a", pods=2, gpus=8, prefer="rack")

    state = after(scenario, settle_aggregate, plan={})

    judged(state)
    assert values_and_bounds(state.solution()) == [(16, 16), (0, 0), (1, 1)]


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(
            # The rack holds two of the three.
            Scenario("x1=8 | r1: y1=8 y2=8")
            .gang("a", pods=2, gpus=4, prefer="rack")
            .gang("b", pods=2, gpus=4, prefer="rack")
            .gang("c", pods=2, gpus=4, prefer="rack"),
            id="a part",
        ),
        pytest.param(
            Scenario("x1=4/8 | r1: y1=0 y2=0").gang(
                "a", Group("w", pods=1, gpus=4, on=("x1",)), prefer="rack"
            ),
            id="a part that runs there already",
        ),
        pytest.param(
            Scenario("x1=8 | r1: y1=0 y2=0")
            .gang("a", pods=1, gpus=4, prefer="rack")
            .gang("a-x", pods=1, gpus=4, base="a"),
            id="a set",
        ),
    ],
)
def test_a_node_without_the_label_is_one_place(scenario: Scenario) -> None:
    problem = formulate(scenario.snapshot(), POLICY)
    model = AggregateModel(
        *counted(problem), Subproblem(problem.gangs, np.arange(3), problem.free, {})
    )
    model.hold(admitted(model), at_least=sum(g.value for g in problem.gangs))

    answer = model.solve(model.topology_cost(), maximize=False, hint=None, seconds=10, effort=10)

    assert (answer.value, answer.bound) == (0, 0)


def test_a_base_waits_though_a_gang_based_on_it_runs_already() -> None:
    # The scaled gang's minimum is none, so it runs whatever becomes of its base.
    scenario = (
        Scenario("x1=8")
        .gang("base", pods=2, gpus=8)
        .gang("scaled", Group("w", pods=1, gpus=8, min=0), base="base")
        .gang("other", pods=1, gpus=8)
    )

    state = after(scenario, settle_aggregate, plan={})

    judged(state)
    assert sorted(state.plan) == [2]


def test_a_goal_without_terms_forgets_the_goal_before_it() -> None:
    scenario = Scenario(rack("r1", 2)).gang("a", pods=2, gpus=8, pack="rack")
    problem = formulate(scenario.snapshot(), POLICY)
    model = AggregateModel(
        *counted(problem), Subproblem(problem.gangs, np.arange(2), problem.free, {})
    )

    first = model.solve(admitted(model), maximize=True, hint=None, seconds=LONG, effort=10)
    second = model.solve([], maximize=True, hint=None, seconds=LONG, effort=10)

    assert (first.bound, second.bound) == (16_000_000, 0)


def test_a_gang_waits_when_its_base_is_not_described_and_does_not_run() -> None:
    # Previous nodes are beyond what kinds say, so the base stays as it is: not placed.
    scenario = (
        Scenario(rack("r1", 4))
        .gang("base", pods=2, gpus=8, pack="rack", previous=["r1n0"])
        .gang("scaled", pods=2, gpus=8, pack="rack", base="base")
    )

    state = after(scenario, count, settle_aggregate, plan={})

    judged(state)
    assert not state.plan


def test_a_base_stays_where_gangs_based_on_it_are_left_as_they_are() -> None:
    scenario = (
        Scenario(f"{rack('r1', 2, 'b1')} | {rack('r2', 2, 'b2')}")
        .gang("base", pods=1, gpus=8, pack="block")
        .gang("scaled", pods=1, gpus=8, pack="block", base="base")
    )
    problem = formulate(scenario.snapshot(), POLICY)
    counting, forest = counted(problem)
    fixed: Plan = {GangIdx(1): units_of({(0, 2): 1})}
    free = problem.free.copy()
    free[2] -= problem.request[problem.gangs[1].demands[0].pod_class]

    model = AggregateModel(
        counting, forest, Subproblem(problem.gangs[:1], np.arange(4), free, fixed)
    )
    answer = model.solve(model.topology_cost(), maximize=False, hint=None, seconds=LONG, effort=10)

    assert answer.plan == {0: ((0, 3, 1),)}
    assert answer.value == 0


def test_exact_fillings_are_reached_by_looking_for_nothing_less() -> None:
    # Blocks of three racks of eight, each rack cut in two; two pieces of a block make a gang.
    rng = random.Random(10)
    racks, gangs = [], []
    for b in range(16):
        pieces: list[tuple[int, int]] = []
        for r in range(3):
            racks.append(rack(f"b{b}r{r}", 8, f"b{b}"))
            x = rng.randint(2, 6)
            pieces += [(r, x), (r, 8 - x)]
        rng.shuffle(pieces)
        gangs += [(f"g{b}-{i}", pieces[i : i + 2]) for i in (0, 2, 4)]
    rng.shuffle(gangs)
    scenario = Scenario(" | ".join(racks))
    for name, parts in gangs:
        groups = (Group(f"p{i}", pods=x, gpus=8, pack="rack") for i, (_, x) in enumerate(parts))
        scenario = scenario.gang(name, *groups, pack="block")

    state = after(scenario, count, settle_aggregate)

    judged(state)
    assert state.proven


def test_neighbourhoods_take_in_gangs_worth_as_much_that_need_no_split() -> None:
    # The gang of four is split over two racks; the two gangs of two, worth as much, fill one each.
    scenario = (
        Scenario(f"{rack('r1', 3)} | {rack('r2', 2)} | {rack('r3', 2)}")
        .gang("three", pods=3, gpus=8, pack="rack")
        .gang("four", pods=4, gpus=8, prefer="rack")
        .gang("two", pods=2, gpus=8, prefer="rack")
        .gang("other", pods=2, gpus=8, prefer="rack")
    )
    split = {
        GangIdx(0): units_of({(0, node): 1 for node in (0, 1, 2)}),
        GangIdx(1): units_of({(0, node): 1 for node in (3, 4, 5, 6)}),
    }

    state = after(scenario, count, lambda state: Improver(state).run(), plan=split)

    judged(state)
    assert state.worth.of(TierName.ADMITTED) == (56_000_000,)
    assert state.worth.of(TierName.TOPOLOGY) == (0,)
    assert sorted(state.plan) == [0, 2, 3]


def no_longer_set_apart(snapshot: Snapshot) -> Snapshot:
    """The same without previous nodes, which kinds do not describe."""
    return replace(snapshot, gangs=tuple(replace(g, previous_nodes=()) for g in snapshot.gangs))


calm = Taste(nodes=4, pods=5, rules=0, running=0.05, host=0.05)


def begin_to_improve(state: State) -> None:
    Improver(state).begin()


@given(
    st.one_of(
        snapshots(TINY, PACKING_ONLY), questions(calm), questions(replace(calm, sets=1, scopes=0.2))
    ).map(no_longer_set_apart),
    st.sampled_from([(settle_aggregate,), (settle_aggregate, begin_to_improve)]),
)
def test_what_the_aggregate_model_claims_alone_is_never_refuted(
    snapshot: Snapshot, stages: tuple[Stage, ...]
) -> None:
    try:
        best = optimum(snapshot, POLICY)
    except TooLarge:
        assume(False)
        raise

    state = after(snapshot, *stages)

    no_bound_cuts_off(best, state.solution(), judged(state))
