"""Nodes that are unlike: what rows alone cannot tell, and what comes of it."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

import pytest

from bench.instances import Instance
from placement_service.cp_sat.configuration_columns import ColumnModel
from placement_service.cp_sat.configuration_master import ConfigurationMaster
from placement_service.entities.pod_assignment import name_pods
from placement_service.entities.request import Policy, Tolerance
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import DemandIdx, GangIdx, NodeIdx
from placement_service.formulation.objective import to_solution
from placement_service.formulation.problem import Problem, UnitsOnNode
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN
from placement_service.judge.verify import verify
from placement_service.search import assign_stage, engine
from placement_service.search.block_guess import BlockGuess
from placement_service.search.configuration_plan import Realisation
from placement_service.search.configuration_stage import Configuring, settle_configurations
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import descend
from placement_service.search.loose_stage import settle_loose
from placement_service.search.master_stage import count
from placement_service.search.unlike_blocks import fill_unlike_blocks, spend_at_once
from placement_service.search.unlike_filling import UnlikeFilling
from tests.scenario import Group, Scenario

POLICY = Policy(deterministic=True)


def begun(problem: Problem) -> State:
    return State(problem, to_solution(problem, {}), time.monotonic() + 600, lambda solution: None)


def test_unlike_racks_are_filled_to_a_bound_that_rows_do_not_reach() -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 1, "gangs": 16}).snapshot()
    state = begun(formulate(snapshot, POLICY))
    count(state)
    before = state.bounds[0]
    assert settle_configurations(state)
    assert state.worth.values[0] <= state.bounds[0] < before
    assert state.bounds[0] - state.worth.values[0] <= 0.01 * state.bounds[0]
    bindings = name_pods(snapshot, to_solution(state.problem, state.plan).assignments)
    assert verify(snapshot, POLICY, bindings) == ()


def test_a_gang_is_cut_into_the_parts_that_its_class_asks_for() -> None:
    """Also units of several shapes that nothing binds, however many there are."""
    snapshot = Instance("mix", {"blocks": 3, "gangs": 40, "unlike": 0.3}).snapshot()
    state = begun(formulate(snapshot, POLICY))
    found = state.configurations
    assert found is not None
    assert len({kind.shape for kind in found.kinds}) > 1
    realisation = Realisation(found)
    for parts, mine in zip(found.parts, state.counting.classes, strict=True):
        groups = realisation.groups(state.problem.gangs[mine.gangs[0]])
        pieces = Counter(piece.kind for group in groups for piece in group)
        assert pieces == {k: n for k, n in enumerate(parts.tolist()) if n}


def test_fillings_come_of_pools_by_rack_where_no_blocks_were_found() -> None:
    snapshot = Instance("pools", {"blocks": 3, "gangs": 40, "scattered": 1}).snapshot()
    state = begun(formulate(snapshot, POLICY))
    count(state)
    assert not settle_configurations(state, assigned=True)
    assert settle_configurations(state, assigned=False)
    assert state.worth.values[0] == state.bounds[0]


@pytest.mark.parametrize("assigned", [False, True])
def test_the_search_says_whether_blocks_were_found(
    assigned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Asked(Exception):
        pass

    def settle(state: State, *, assigned: bool) -> bool:
        raise Asked(assigned)

    snapshot = Instance("pools", {"blocks": 3, "gangs": 40, "scattered": 1}).snapshot()
    problem = formulate(snapshot, POLICY)
    monkeypatch.setattr(engine, "assign_blocks", lambda state: assigned)
    monkeypatch.setattr(engine, "settle_configurations", settle)
    late = time.monotonic() + 60
    with pytest.raises(Asked, match=str(assigned)):
        engine.search(
            problem, to_solution(problem, {}), deadline=late, report=lambda solution: None
        )


@pytest.mark.parametrize(("assigned", "configured"), [(False, True), (False, False), (True, True)])
def test_blocks_are_sought_again_when_configurations_were_of_use(
    assigned: bool, configured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sought: list[bool] = []

    def seek(state: State, *, again: bool = False) -> bool:
        sought.append(again)
        return assigned

    class Filled(Exception):
        pass

    def fill(state: State) -> None:
        raise Filled

    snapshot = Instance("pools", {"blocks": 3, "gangs": 40, "scattered": 1}).snapshot()
    problem = formulate(snapshot, POLICY)
    monkeypatch.setattr(engine, "assign_blocks", seek)
    monkeypatch.setattr(engine, "settle_configurations", lambda state, assigned: configured)
    monkeypatch.setattr(engine, "fill_unlike_blocks", fill)
    late = time.monotonic() + 60
    with pytest.raises(Filled):
        engine.search(
            problem, to_solution(problem, {}), deadline=late, report=lambda solution: None
        )
    assert sought == ([False, True] if configured and not assigned else [False])


@pytest.mark.parametrize(("again", "told"), [(False, True), (True, True), (False, False)])
def test_gangs_are_left_out_of_blocks_only_after_configurations(
    again: bool, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def guess(self: BlockGuess, *_: object, strict: bool, more: int) -> None:
        asked.append(strict)

    asked: list[bool] = []
    monkeypatch.setattr(BlockGuess, "_guess", guess)
    if not told:
        monkeypatch.setattr(assign_stage, "tells_more", lambda state: False)
    snapshot = Instance("mix", {"blocks": 3, "gangs": 40, "load": 1.3, "unlike": 0.3}).snapshot()
    state = begun(formulate(snapshot, POLICY))
    count(state)
    assert not assign_stage.assign_blocks(state, again=again)
    assert asked
    assert (False in asked) == (again or not told)


def test_alike_nodes_need_no_configurations() -> None:
    snapshot = Instance("rack_parts", {"blocks": 3, "gangs": 40}).snapshot()
    state = begun(formulate(snapshot, POLICY))
    count(state)
    assert not settle_configurations(state, assigned=False)


def test_where_cheap_configurations_lack_much_all_that_a_better_filling_may_use_are_tried() -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 1, "gangs": 16}, seed=5).snapshot()
    state = begun(formulate(snapshot, POLICY))
    count(state)
    assert settle_configurations(state)
    # Those that cost at most the usual slack admit 3 GPUs less.
    assert state.worth.values[0] == state.bounds[0]


def test_only_fillings_better_than_a_value_are_looked_for() -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 1, "gangs": 16}, seed=5).snapshot()
    state = begun(formulate(snapshot, POLICY))
    with state.ground.configuration_master() as master:
        columns, terms = master.columns, state.goals[0].terms(master)
        assert terms
        bound = columns.bound(terms, maximize=True, deadline=time.monotonic() + 60)

        def fill(beyond: int | None) -> int | None:
            return columns.fill(terms, bound, maximize=True, seconds=60, slack=None, beyond=beyond)

        best = fill(None)
        assert best is not None
        assert fill(best) is None
        assert fill(best - 1) == best


def test_what_continues_from_a_filling_never_takes_a_worse_one() -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 1, "gangs": 16}, seed=5).snapshot()
    state = begun(formulate(snapshot, POLICY))
    with state.ground.configuration_master() as master:
        columns, terms = master.columns, state.goals[0].terms(master)
        assert terms
        bound = columns.bound(terms, maximize=True, deadline=time.monotonic() + 60)
        value = columns.fill(terms, bound, maximize=True, seconds=60, slack=None)
        assert value is not None
        before = columns.domains

        def refill(beyond: int | None) -> int | None:
            """With no other configurations than those in use."""
            return columns.refill(
                terms, bound, maximize=True, seconds=60, effort=1.0, slack=-1, beyond=beyond
            )

        assert refill(value) is None
        assert columns.domains is before
        assert refill(None) == value


def ranges(master: ConfigurationMaster) -> list[tuple[int, ...]]:
    return [tuple(v.domain) for v in master.cp.proto.variables]


def test_gangs_are_only_as_many_as_in_some_solution_as_good() -> None:
    """Where one more or less is asked for, the bound is lower."""
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 1, "gangs": 16}, seed=5).snapshot()
    state = begun(formulate(snapshot, POLICY))
    assert state.configurations is not None
    late = time.monotonic() + 600
    master = ConfigurationMaster(state.configurations)
    terms, before = state.goals[0].terms(master), ranges(master)
    assert terms
    best = master.columns.bound(terms, maximize=True, deadline=late)
    assert best == master.columns.fill(terms, best, maximize=True, seconds=600, slack=None)
    master.columns.narrow(best)
    lost = 0
    for v, ((least, most), (low, high)) in enumerate(zip(before, ranges(master), strict=True)):
        assert low <= master.columns.chosen[v] <= high
        for outside in [(least, low - 1)] * (least < low) + [(high + 1, most)] * (high < most):
            other = ConfigurationMaster(state.configurations, columns=master.columns.lp.columns)
            domain = other.cp.proto.variables[v].domain
            domain[0], domain[1] = outside
            terms = state.goals[0].terms(other)
            assert terms
            assert other.columns.bound(terms, maximize=True, deadline=late) < best
            lost += 1
    assert lost


def test_later_goals_are_about_gangs_that_the_goals_before_leave() -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 1, "gangs": 16}, seed=5).snapshot()
    state = begun(formulate(snapshot, POLICY))
    assert state.configurations is not None
    master = ConfigurationMaster(state.configurations)
    before = ranges(master)
    descend(state.goals, master, Configuring(state, master).settle)
    assert before != ranges(master)[: len(before)]


def test_a_dive_fills_unlike_racks_where_a_single_node_of_a_tree_does_not() -> None:
    snapshot = Instance("mix", {"blocks": 3, "gangs": 40, "load": 1.3, "unlike": 0.3}).snapshot()
    state = begun(formulate(snapshot, POLICY))
    assert state.configurations is not None
    late = time.monotonic() + 600
    master = ConfigurationMaster(state.configurations)
    columns, terms = master.columns, state.goals[0].terms(master)
    assert terms
    bound = columns.bound(terms, maximize=True, deadline=late)
    value = columns.dive(
        terms,
        bound,
        maximize=True,
        whole=[a.placed for a in master.admissions()],
        leave=(0.0,),
        most=3_000,
        enough=0,
        deadline=late,
    )
    assert value is not None
    assert 0.9 * bound <= value <= bound
    assert master.filling is not None
    state.accept(Realisation(state.configurations).plan(master.filling, seconds=60, effort=1.0))
    assert state.worth.values[0] >= 0.8 * bound
    bindings = name_pods(snapshot, to_solution(state.problem, state.plan).assignments)
    assert verify(snapshot, POLICY, bindings) == ()


def test_what_comes_last_has_to_be_better_than_the_best_filling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Asked(Exception):
        pass

    def refill(self: ColumnModel, *_: object, beyond: int | None = None, **rest: object) -> None:
        raise Asked(beyond)

    values = iter((7, 5))
    monkeypatch.setattr(ColumnModel, "fill", lambda *_, **__: next(values))
    monkeypatch.setattr(ColumnModel, "dive", lambda *_, **__: 9)
    monkeypatch.setattr(ColumnModel, "refill", refill)
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 1, "gangs": 16}).snapshot()
    state = begun(formulate(snapshot, POLICY))
    with pytest.raises(Asked, match="9"):
        settle_configurations(state)


@pytest.mark.parametrize(("share", "times"), [(0.5, 1), (0.995, 2)])
def test_far_from_the_bound_a_dive_comes_at_once(
    share: float, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dived(Exception):
        pass

    def fill(self: ColumnModel, _: object, bound: int, **rest: object) -> int:
        tried.append(int(share * bound))
        return tried[-1]

    def dive(self: ColumnModel, *_: object, **rest: object) -> None:
        raise Dived

    tried: list[int] = []
    monkeypatch.setattr(ColumnModel, "fill", fill)
    monkeypatch.setattr(ColumnModel, "dive", dive)
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 1, "gangs": 16}).snapshot()
    state = begun(formulate(snapshot, POLICY))
    with pytest.raises(Dived):
        settle_configurations(state)
    assert len(tried) == times


def test_another_master_knows_the_columns_of_the_first() -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 1, "gangs": 16}).snapshot()
    state = begun(formulate(snapshot, POLICY))
    count(state)
    settle_configurations(state)
    with state.ground.configuration_master() as master:
        known = master.columns.lp.columns
        terms, before = state.goals[0].terms(master), len(known)
        assert terms
        late = time.monotonic() + 60
        assert master.columns.bound(terms, maximize=True, deadline=late) == state.bounds[0]
        # It needs hardly any others.
        assert len(known) - before < before / 10


@pytest.mark.parametrize(("share", "whole"), [(0.03, True), (0.007, False)])
def test_what_may_be_spent_buys_whole_gangs(share: float, whole: bool) -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 3, "gangs": 40}).snapshot()
    state = begun(formulate(snapshot, POLICY))
    count(state)
    settle_configurations(state)
    before = state.worth.of(TierName.TOPOLOGY)[0]
    assert before > 5 * UNITS_PER_DOMAIN
    # Nothing may be spent yet.
    assert not fill_unlike_blocks(state)
    for tier in (TierName.ADMITTED, TierName.WAITING):
        state.tolerate(tier, share)
    assert fill_unlike_blocks(state)
    # Where little may be spent, the last blocks split gangs.
    after = state.worth.of(TierName.TOPOLOGY)[0]
    assert after == 0 if whole else 0 < after < before
    at = next(i for i, goal in enumerate(state.goals) if goal.tier is TierName.TOPOLOGY)
    both = zip(state.worth.values, state.worth.floors, strict=True)
    assert all(floor is None or value >= floor for value, floor in list(both)[:at])
    bindings = name_pods(snapshot, to_solution(state.problem, state.plan).assignments)
    assert verify(snapshot, POLICY, bindings) == ()


def test_whole_gangs_come_before_the_best_of_what_they_may_cost() -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 3, "gangs": 40}).snapshot()
    state = begun(formulate(snapshot, POLICY))
    shares = {TierName.ADMITTED: 0.04, TierName.WAITING: 0.04}
    assert spend_at_once(state, shares)
    assert state.worth.of(TierName.TOPOLOGY) == (0,)
    for tier, share in shares.items():
        at = next(i for i, goal in enumerate(state.goals) if goal.tier is tier)
        reported = next(t for t in state.solution().tiers if t.name is tier)
        # So much has to stay of the bound, which is more than the share of the best.
        assert reported.bound is not None
        best = round(reported.bound * state.goals[at].unit)
        enough = best - int(share * best)
        assert state.worth.floors[at] == enough <= state.worth.values[at]
    bindings = name_pods(snapshot, to_solution(state.problem, state.plan).assignments)
    assert verify(snapshot, POLICY, bindings) == ()


@pytest.mark.parametrize("lacks", [1.0, 0.0])
def test_a_try_leaves_time_for_another_search(
    lacks: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where far too little is placed it ends at once, and it never fills blocks together."""
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 3, "gangs": 40}).snapshot()
    state = begun(formulate(snapshot, POLICY))
    aimed: list[bool] = []

    def aim(*_: object, must: bool = False) -> None:
        aimed.append(must)

    monkeypatch.setattr(UnlikeFilling, "_rank", lambda *_: -lacks)
    monkeypatch.setattr(UnlikeFilling, "_take", lambda *_: False)
    monkeypatch.setattr(UnlikeFilling, "_aim", aim)
    assert not spend_at_once(state, {TierName.ADMITTED: 0.04, TierName.WAITING: 0.04})
    assert not aimed


@pytest.mark.parametrize("late", [False, True])
def test_blocks_that_were_filled_count_where_a_try_fails(
    late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 3, "gangs": 40}).snapshot()
    state = begun(formulate(snapshot, POLICY))
    fill = UnlikeFilling._fill
    if late:
        # The last block takes too long.
        monkeypatch.setattr(
            UnlikeFilling, "_fill", lambda self, *args: fill(self, *args) if args[1] < 2 else None
        )
    else:
        monkeypatch.setattr(UnlikeFilling, "_rank", lambda *_: -1.0)
    assert not spend_at_once(state, {TierName.ADMITTED: 0.0001, TierName.WAITING: 0.0001})
    assert state.worth.of(TierName.ADMITTED)[0] >= (0.6 if late else 0.9) * state.bounds[0]
    bindings = name_pods(snapshot, to_solution(state.problem, state.plan).assignments)
    assert verify(snapshot, POLICY, bindings) == ()


def test_the_best_comes_first_where_only_some_goals_may_be_spent() -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 3, "gangs": 40}).snapshot()
    state = begun(formulate(snapshot, POLICY))
    assert not spend_at_once(state, {TierName.ADMITTED: 0.04})


def test_whole_gangs_that_lack_something_of_a_bound_may_have_enough_of_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = Scenario("r1: x1=8 x2=8 | r2: y1=8")
    scenario = scenario.gang("split", pods=3, gpus=8, prefer="rack")
    scenario = scenario.gang("whole", pods=2, gpus=8, prefer="rack")
    policy = replace(POLICY, tolerances=(Tolerance("admitted", 0.5),))
    problem = formulate(scenario.snapshot(), policy)
    x1, x2, y1 = (UnitsOnNode(DemandIdx(0), NodeIdx(n), 1) for n in range(3))
    split, whole = {GangIdx(0): (x1, x2, y1)}, {GangIdx(1): (x1, x2)}

    def spend(state: State, _: object) -> bool:
        state.accept(whole)
        return False

    monkeypatch.setattr(engine, "spend_at_once", spend)
    monkeypatch.setattr(engine, "_improve", lambda state: state.accept(split))
    start = to_solution(problem, {})
    found = engine.search(
        problem, start, deadline=time.monotonic() + 60, report=lambda solution: None
    )
    # 16 GPUs are more than half of the 24 that the split gang gets.
    assert found.assignments == to_solution(problem, whole).assignments


def test_units_that_share_nodes_are_settled_without_domains() -> None:
    scenario = Scenario("r1: x1=5 | r2: x2=3")
    for i, gpus in enumerate((4, 3, 2, 3)):
        scenario = scenario.gang(f"g{i}", pods=1, gpus=gpus)
    state = begun(formulate(scenario.snapshot(), POLICY))
    settle_loose(state)
    # 3 and 2 on the one node, 3 on the other: nothing is left over.
    assert state.worth.of(TierName.ADMITTED) == (8_000_000,)
    assert state.bounds[0] == 8_000_000


def test_no_gang_counts_without_the_one_that_it_is_based_on() -> None:
    scenario = (
        Scenario("r1: x1=8 x2=8 | r2: x3=8")
        .gang("base", pods=2, gpus=8, pack="rack")
        .gang("other", pods=2, gpus=8, pack="rack", priority=1)
        .gang("scaled", Group("w", pods=1, gpus=8), base="base")
    )
    state = begun(formulate(scenario.snapshot(), POLICY))
    count(state)
    # The other takes the only rack that holds the base, so nothing is left for the set.
    assert state.bounds[:2] == (16_000_000, 0)
