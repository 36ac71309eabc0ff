"""Nodes that are unlike: what rows alone cannot tell, and what comes of it."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from bench.instances import Instance
from placement_service.cp_sat.configurations.columns import ColumnModel
from placement_service.cp_sat.configurations.master import ConfigurationMaster
from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.request import Policy
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.judge.verify import verify
from placement_service.search import engine
from placement_service.search.block_guess import stage as assign_stage
from placement_service.search.block_guess.guessing import BlockGuess
from placement_service.search.configurations.plan import Realisation
from placement_service.search.configurations.stage import Configuring, settle_configurations
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import descend
from placement_service.search.master_stage import count
from placement_service.search.node_stage import settle_nodes
from tests.scenario import Group, Scenario
from tests.service.search.block_questions import from_nothing

POLICY = Policy(deterministic=True)


def test_unlike_racks_are_filled_to_a_bound_that_rows_do_not_reach() -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 1, "gangs": 16}).snapshot()
    state = from_nothing(formulate(snapshot, POLICY))
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
    state = from_nothing(formulate(snapshot, POLICY))
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
    state = from_nothing(formulate(snapshot, POLICY))
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
    asked: list[bool] = []

    def fail(guess: BlockGuess, tries: int, *, brief: bool = False) -> None:
        guess.failed = True

    monkeypatch.setattr(BlockGuess, "strict", fail)
    monkeypatch.setattr(BlockGuess, "torn_by_and_by", lambda guess: asked.append(True))
    if not told:
        monkeypatch.setattr(assign_stage, "tells_more", lambda state: False)
    snapshot = Instance("mix", {"blocks": 3, "gangs": 40, "load": 1.3, "unlike": 0.3}).snapshot()
    state = from_nothing(formulate(snapshot, POLICY))
    count(state)
    assert not assign_stage.assign_blocks(state, again=again)
    assert bool(asked) == (again or not told)


def test_alike_nodes_need_no_configurations() -> None:
    snapshot = Instance("rack_parts", {"blocks": 3, "gangs": 40}).snapshot()
    state = from_nothing(formulate(snapshot, POLICY))
    count(state)
    assert not settle_configurations(state, assigned=False)


def test_where_cheap_configurations_lack_much_all_that_a_better_filling_may_use_are_tried() -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 1, "gangs": 16}, seed=5).snapshot()
    state = from_nothing(formulate(snapshot, POLICY))
    count(state)
    assert settle_configurations(state)
    # Those that cost at most the usual slack admit 3 GPUs less.
    assert state.worth.values[0] == state.bounds[0]


def test_only_fillings_better_than_a_value_are_looked_for() -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 1, "gangs": 16}, seed=5).snapshot()
    state = from_nothing(formulate(snapshot, POLICY))
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
    state = from_nothing(formulate(snapshot, POLICY))
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
    state = from_nothing(formulate(snapshot, POLICY))
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
    state = from_nothing(formulate(snapshot, POLICY))
    assert state.configurations is not None
    master = ConfigurationMaster(state.configurations)
    before = ranges(master)
    descend(state.goals, master, Configuring(state, master).settle)
    assert before != ranges(master)[: len(before)]


def test_a_dive_fills_unlike_racks_where_a_single_node_of_a_tree_does_not() -> None:
    snapshot = Instance("mix", {"blocks": 3, "gangs": 40, "load": 1.3, "unlike": 0.3}).snapshot()
    state = from_nothing(formulate(snapshot, POLICY))
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
    state = from_nothing(formulate(snapshot, POLICY))
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
    state = from_nothing(formulate(snapshot, POLICY))
    with pytest.raises(Dived):
        settle_configurations(state)
    assert len(tried) == times


def test_another_master_knows_the_columns_of_the_first() -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 1, "gangs": 16}).snapshot()
    state = from_nothing(formulate(snapshot, POLICY))
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


def test_units_that_share_nodes_are_settled_without_domains() -> None:
    scenario = Scenario("r1: x1=5 | r2: x2=3")
    for i, gpus in enumerate((4, 3, 2, 3)):
        scenario = scenario.gang(f"g{i}", pods=1, gpus=gpus)
    state = from_nothing(formulate(scenario.snapshot(), POLICY))
    settle_nodes(state)
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
    state = from_nothing(formulate(scenario.snapshot(), POLICY))
    count(state)
    # The other takes the only rack that holds the base, so nothing is left for the set.
    assert state.bounds[:2] == (16_000_000, 0)
