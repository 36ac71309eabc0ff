"""Blocks for all gangs at once: what is counted, what racks hold, and what comes of it."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from bench.instances import Instance
from placement_service.cp_sat.block_contents import Held
from placement_service.cp_sat.block_parts import MIXED, Kind, RackSort
from placement_service.cp_sat.rack_columns import Prices, RackColumns
from placement_service.entities.pod_assignment import name_pods
from placement_service.entities.request import Policy, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.verify import verify
from placement_service.search import block_guess, block_stage
from placement_service.search.assign_stage import assign_blocks
from placement_service.search.block_assignment import BlockAssignment, Pieces
from placement_service.search.block_guess import BlockGuess
from placement_service.search.block_problem import BlockProblem
from placement_service.search.block_rows import block_rows, rack_row
from placement_service.search.block_stage import fill_blocks
from placement_service.search.gang_pieces import PieceCutter, parts_of
from placement_service.search.guess_filling import GuessFilling
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count
from placement_service.search.parameters import DEFAULTS, SearchParameters
from placement_service.search.rack_content import RackContent
from placement_service.search.rack_fitting import RackFitting
from tests.drawing import level_key
from tests.scenario import Group, Scenario
from tests.service.search.blocks import question


def counted(snapshot: Snapshot, parameters: SearchParameters = DEFAULTS) -> State:
    """A search that knows its target and has nothing but the first answer."""
    problem = formulate(snapshot, Policy())
    start = first_answer(problem)
    state = State(problem, start, time.monotonic() + 60, lambda _: None, parameters)
    count(state)
    return state


@pytest.mark.parametrize("load", [1.05, 1.3])
def test_a_full_cluster_is_filled_with_whole_gangs_at_once(load: float) -> None:
    state = counted(Instance("mix", {"blocks": 6, "gangs": 80, "load": load}, 1).snapshot())
    assert not state.packs
    assert assign_blocks(state)
    assert state.proven


def test_racks_of_unlike_nodes_are_filled_at_once_where_many_nodes_are_of_no_rack() -> None:
    params = {"blocks": 6, "gangs": 80, "load": 1.3, "unlike": 0.1}
    state = counted(Instance("mix", params, 1).snapshot())
    assert BlockProblem(state).blocks.mixed
    assert assign_blocks(state)
    assert state.packs
    full = counted(Instance("cpu_shapes", {"blocks": 3, "gangs": 40, "load": 1.5}, 1).snapshot())
    assert not assign_blocks(full)


def test_where_not_all_gangs_have_a_block_filling_goes_on_with_those_that_have_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    params = {"blocks": 3, "gangs": 30, "scattered": 1}
    few = replace(DEFAULTS, assign_share=1.0, block_fillings_in_vain=2, block_swaps_in_vain=2)
    snapshot = Instance("pools", params, 1).snapshot()
    state = counted(snapshot, few)
    problem, mine = state.problem, BlockProblem(state)
    assert not assign_blocks(state)
    assert len(state.begun) > 0.9 * len(state.target)
    assignments = to_solution(problem, state.begun).assignments
    assert not verify(snapshot, Policy(), name_pods(snapshot, assignments))
    whole = sum(mine.encoded(state.begun).whole.values())
    assert whole > 0.9 * len(state.begun)

    def anew(mine: BlockProblem) -> Held:
        raise AssertionError("blocks are filled anew")

    monkeypatch.setattr(block_stage, "_block_after_block", anew)
    fill_blocks(state, anew=True)
    monkeypatch.undo()
    without = counted(snapshot, few)
    fill_blocks(without, anew=True)
    assert state.worth.rank >= without.worth.rank


def test_what_names_no_block_gets_one_where_the_blocks_that_are_left_have_no_room() -> None:
    # Small pods of the gang in the second block need a node that the single pod would take.
    scenario = Scenario("b1/r1: a1=8 a2=8 | b2/r2: c1=8 c2=8 c3=8")
    scenario = scenario.gang("two", Group("pod", pods=2, gpus=8), prefer="block")
    scenario = scenario.gang(
        "small", Group("pod", pods=1, gpus=8), Group("small", pods=3, gpus=2), prefer="block"
    )
    mine = BlockProblem(counted(scenario.gang("one", pods=1, gpus=8).snapshot()))
    guess = BlockGuess(mine)
    guess.choose_for_all()
    found = guess.strict(3)
    assert found is not None
    assert sum(found.picky.values()) == 1
    filled = GuessFilling(mine, found, guess.fitting).filled()
    assert filled is not None
    assert sum(filled.placed(len(mine.classes))) == 3


def test_of_gangs_that_compete_for_roomy_racks_the_fewest_are_torn() -> None:
    roomy = "b{0}/r{0}1: x{0}1=8 x{0}2=8 | b{0}/r{0}2: x{0}3=8 x{0}4=8"
    poor = "b{0}/r{0}1: x{0}1=8 x{0}2=8 | b{0}/r{0}2: x{0}3=8 | b{0}/r{0}3: x{0}4=8"
    scenario = Scenario(" | ".join([roomy.format(1), poor.format(2), poor.format(3)]))
    parts = [Group(name, pods=2, gpus=8, pack="rack") for name in ("left", "right")]
    for name in "ab":
        scenario = scenario.gang(name, *parts, prefer="block")
    for i in range(4):
        scenario = scenario.gang(f"one-{i}", Group("pod", gpus=8), prefer="block")
    state = counted(scenario.snapshot())
    assert assign_blocks(state)
    assert state.proven
    assert state.worth.values[-2] == 1000


@pytest.mark.parametrize(
    ("load", "seed", "beyond"),
    [
        (1.05, 8, 2),
        # Single nodes that name no block must not take GPUs that small pods of a block need.
        (1.05, 2, 2),
        # A gang of eight parts of sixteen nodes has no block.
        (1.05, 5, 4),
        # Gangs of twelve and of six such parts have none, and their pieces fit in few ways.
        (1.3, 5, 6),
    ],
)
def test_of_gangs_that_blocks_cannot_all_hold_whole_those_are_torn_that_counting_names(
    load: float, seed: int, beyond: int
) -> None:
    state = counted(Instance("mix", {"load": load}, seed).snapshot())
    assert assign_blocks(state)
    assert state.proven
    assert state.worth.values[-2] == 1000 * beyond


def test_where_some_gangs_find_no_block_there_is_a_plan_with_the_others() -> None:
    # Three gangs are larger than any block of their pools, and no more may be torn.
    parameters = replace(DEFAULTS, assign_torn=3)
    state = counted(Instance("pools", {}, 9).snapshot(), parameters)
    before = state.worth.values[0]
    assert not assign_blocks(state)
    lacking = state.bounds[0] - state.worth.values[0]
    assert lacking < 0.5 * (state.bounds[0] - before)


def test_where_small_pods_of_a_block_find_no_room_there_is_a_plan_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a large cluster no model of all blocks does the rest."""
    monkeypatch.setattr(GuessFilling, "_beside_small", lambda *_: 0)
    monkeypatch.setattr(block_guess, "MOST_LOOSE", -1)
    state = counted(Instance("mix", {"load": 1.3}, 1).snapshot(), replace(DEFAULTS, block_nodes=0))
    before = state.worth
    assert not assign_blocks(state)
    assert state.worth.rank > before.rank
    assert state.worth.values[-2] < before.values[-2]


def test_a_gang_that_needs_one_block_is_never_torn() -> None:
    scenario = Scenario("b1/r1: a1=8 a2=8 | b2/r2: c1=8 c2=8")
    scenario = scenario.gang("must", Group("pod", pods=2, gpus=8), pack="block")
    scenario = scenario.gang("may", Group("pod", pods=2, gpus=8), prefer="block")
    state = counted(scenario.snapshot())
    if not state.proven:
        assert assign_blocks(state)
    assert state.proven


def test_sets_lie_together_and_of_the_torn_only_one_gang_is_elsewhere() -> None:
    parameters = {"blocks": 4, "gangs": 50, "scaled": 1.0, "load": 1.1}
    state = counted(Instance("mix", parameters, 1).snapshot())
    assert not state.packs
    assert assign_blocks(state)
    assert state.proven


def test_clusters_too_large_for_models_of_blocks_are_filled_at_once() -> None:
    snapshot = Instance("mix", {"blocks": 4, "gangs": 50, "load": 1.1}, 1).snapshot()
    state = counted(snapshot, replace(DEFAULTS, block_nodes=len(snapshot.nodes) - 1))
    assert not state.packs
    assert assign_blocks(state)
    small = replace(state.parameters, assign_nodes=len(snapshot.nodes) - 1)
    assert not assign_blocks(counted(snapshot, small))


def test_pools_that_are_mixed_in_every_block_are_filled_at_once() -> None:
    parameters = {"blocks": 4, "gangs": 40, "load": 1.2, "scattered": 1}
    state = counted(Instance("pools", parameters, 1).snapshot())
    assert not state.packs
    assert assign_blocks(state)
    assert state.proven


@given(st.integers(0, 10_000))
# Small pods find no room where the counts say that there is some.
@example(203)
def test_what_comes_of_it_is_a_plan_and_no_worse(seed: int) -> None:
    snapshot = question(seed)
    state = counted(snapshot)
    before = state.worth.rank
    packs = assign_blocks(state)
    event(f"packs: {packs}, better: {state.worth.rank > before}")
    assert state.worth.rank >= before
    assert state.packs or not packs
    solution = state.solution()
    assert not verify(snapshot, Policy(), name_pods(snapshot, solution.assignments))


@given(st.integers(0, 10_000))
def test_a_plan_obeys_the_rows_of_every_block(seed: int) -> None:
    state = counted(question(seed))
    mine = BlockProblem(state)
    if not mine.usable:
        return
    rows = block_rows(mine.blocks, mine.classes)
    whole = np.zeros((len(mine.classes), len(mine.blocks.order)), dtype=np.int64)
    for (c, b), n in mine.encoded().whole.items():
        # A block without whole nodes may still hold gangs of small pods.
        if b in mine.blocks.order:
            whole[c, mine.blocks.order.index(b)] += n
    event(f"whole gangs: {min(4, int(whole.sum()))}")
    assert (whole.T @ rows.takes <= rows.room).all()


@given(st.integers(0, 10_000))
def test_what_is_kept_up_step_by_step_is_what_counting_anew_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    takes, room = rng.integers(0, 9, (5, 3)), rng.integers(5, 20, (4, 3))
    gangs = rng.integers(0, 4, 5)
    search = BlockAssignment(takes, room, rng.integers(1, 30, 5), seed=seed)
    for gang, times in enumerate(gangs.tolist()):
        for _ in range(times):
            search.add(gang)
    before = search.cost
    search.run(30)
    assert search.cost <= before
    assert (search.count.sum(axis=1) == gangs).all()
    assert (search.count.T @ takes == search.load.T).all()
    over = np.maximum(search.load.T[:-1] - room, 0).sum()
    assert search.over == over
    search.relieve(np.ones(5, dtype=bool))
    assert (search.load.T[:-1] <= room).all()


def test_two_gangs_change_places_where_no_one_can_move() -> None:
    # Blocks of 10 and 9; three of 5, 5 and 4 and another of 5: only 5 + 5 and 5 + 4 fit.
    takes, room = np.array([[5], [4]]), np.array([[10], [9]])
    search = BlockAssignment(takes, room, np.array([100, 100]), seed=1)
    start = np.array([[1, 2, 0], [1, 0, 0]])
    search.begin(start)
    assert search.over == 1
    search.run(20)
    assert search.cost == 0


def test_parts_move_from_one_piece_of_a_gang_to_another_one() -> None:
    # A gang of eight single nodes in two pieces of four, in blocks that have room for six and two.
    takes, room = np.array([[4], [4], [3]]), np.array([[6], [5]])
    pieces = Pieces(np.array([0, 0, -1]), np.array([[4], [4], [0]]), np.array([[1]]))
    search = BlockAssignment(takes, room, np.array([900, 900, 900]), seed=1, pieces=pieces)
    search.begin(np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0]]))
    assert search.over == 2
    search.run(20)
    assert search.cost == 0
    assert sorted(search.content[:2, 0].tolist()) == [2, 6]
    assert search.load[0, :-1].tolist() == [6, 5]


def test_a_block_that_breaks_a_row_learned_for_another_one_is_known() -> None:
    takes, room = np.array([[5], [4]]), np.array([[10], [9], [10]])
    search = BlockAssignment(takes, room, np.array([100, 100]), seed=1)
    search.begin(np.array([[2, 0, 2, 0], [0, 2, 0, 0]]))
    assert not any(search.is_over(b) for b in range(3))
    search.learn(np.array([[1], [0]]), np.array([[1], [1], [1]]), np.zeros((0, 1), dtype=np.int64))
    assert [search.is_over(b) for b in range(3)] == [True, False, True]


def test_a_search_stops_when_its_time_is_over() -> None:
    takes, room = np.array([[5], [4]]), np.array([[10], [9]])
    search = BlockAssignment(takes, room, np.array([100, 100]), seed=1)
    search.begin(np.array([[1, 2, 0], [1, 0, 0]]))
    before = search.cost
    search.run(20, until=lambda: True)
    assert search.cost == before > 0


def test_racks_hold_what_they_hold() -> None:
    snapshot = Scenario("b1/r1: a1=8 a2=8 a3=8 | b1/r2: c1=8 c2=8 c3=8 | b2/r3: d1=8").gang(
        "g", Group("part", pods=2, gpus=8, pack="rack"), prefer="block"
    )
    state = counted(snapshot.snapshot())
    blocks = BlockProblem(state).blocks
    columns = RackColumns(blocks, [Kind((0,), size) for size in (1, 2, 3)])
    fitting = RackFitting(blocks, columns, DEFAULTS)
    one = blocks.order[-1]

    def parts(*sizes: int) -> Counter[Kind]:
        return Counter(Kind((0,), size) for size in sizes)

    assert fitting.misfit(one, parts(2, 2)) is None
    assert fitting.misfit(one, parts(3, 2)) is None
    assert fitting.misfit(one, parts(2, 2, 2)) == Kind((0,), 2)
    content = fitting.content(one, parts(3, 2, 1))
    assert content is not None
    assert content.place_singles(Kind((0,), 1), 1) == 0
    assert sorted(rack.content for rack in content.racks) == [
        ((Kind((0,), 2), 1),),
        ((Kind((0,), 3), 1),),
    ]
    assert content.free == {0: 0}


def test_racks_that_best_fit_does_not_find_are_found() -> None:
    nodes = " | ".join(
        f"b1/r{i}: " + " ".join(f"n{i}-{k}=8" for k in range(n)) for i, n in enumerate((12, 10))
    )
    part = Group("part", pods=2, gpus=8, pack="rack")
    scenario = Scenario(f"{nodes} | b2/r2: d1=8").gang("g", part, prefer="block")
    blocks = BlockProblem(counted(scenario.snapshot())).blocks
    five, six, seven = (Kind((0,), size) for size in (5, 6, 7))
    fitting = RackFitting(blocks, RackColumns(blocks, (five, six, seven)), DEFAULTS)
    one, parts = blocks.order[-1], Counter({six: 2, five: 2})
    # Best fit begins with six nodes of the smaller rack.
    assert fitting.pack(one, parts)
    content = fitting.content(one, parts)
    assert content is not None
    assert sorted(rack.content for rack in content.racks) == [((five, 2),), ((six, 2),)]
    assert content.free == {0: 0}
    assert not fitting.pack(one, Counter({seven: 3}))


@given(st.integers(0, 10_000))
def test_what_racks_of_a_plan_hold_they_are_found_to_hold(seed: int) -> None:
    mine = BlockProblem(counted(question(seed)))
    if not mine.usable:
        return
    inside: dict[int, Counter[Kind]] = {b: Counter() for b in mine.blocks.order}
    for (kind, b, _), n in mine.encoded().used.items():
        inside[b][kind] += n
    columns = RackColumns(mine.blocks, block_rows(mine.blocks, mine.classes).kinds)
    fitting = RackFitting(mine.blocks, columns, DEFAULTS)
    for b, parts in inside.items():
        event(f"parts: {min(3, sum(parts.values()))}")
        assert fitting.pack(b, parts)
        content = fitting.content(b, parts)
        assert content is not None
        assert all(n >= 0 for n in content.free.values())


def test_what_names_no_block_gets_one_where_it_may_not_use_all_pools() -> None:
    # The block with more room in it is of the pool that the single pods need.
    scenario = Scenario("b1/r1: a1=8 a2=8 a3=8 | b2/r2: c1=8 c2=8")
    scenario = scenario.gang("both", Group("pod", pods=2, gpus=8), prefer="block")
    one = Group("pod", gpus=8, pods=1, select={level_key("block"): "b1"})
    scenario = scenario.gang("picky", one).gang("picky-2", one)
    mine = BlockProblem(counted(scenario.snapshot()))
    guessing = BlockGuess(mine)
    guess = guessing.strict(1)
    assert guess is not None
    (((kind, b), n),) = guess.picky.items()
    assert (kind.size, n) == (1, 2)
    assert b == mine.blocks.order.index(mine.blocks.order[-1])
    assert [at for _, at in guess.whole] == [1 - b]
    filled = GuessFilling(mine, guess, guessing.fitting).filled()
    assert filled is not None
    assert sum(filled.placed(len(mine.classes))) == 3


def test_parts_with_a_choice_leave_the_pool_that_others_need() -> None:
    either, only = Kind((0, 1), 2), Kind((0,), 1)
    sets = [frozenset((0, 1)), frozenset((0,))]
    racks = [RackSort(0, ((0, 2),)), RackSort(0, ((1, 3),))]
    content = RackContent(racks, sets, {0: 0, 1: 1})
    for kind in (either, only):
        content.expect(kind, 1)
    assert content.room_for(Kind((0,), 1)) == 1
    # The rack of the first pool is the tighter one.
    assert content.place(either)
    assert content.used == {(either, 1): 1}
    assert content.place_singles(only, 1) == 0
    content.expect(only, 2)
    assert content.short == frozenset((0,))


def test_parts_use_up_the_nodes_first_that_others_cannot_use() -> None:
    either, only = Kind((0, 1), 2), Kind((1,), 2)
    mixed = RackSort(0, ((0, 1), (1, 3)))
    content = RackContent([mixed], [frozenset((0, 1)), frozenset((1,))], {0: 0, 1: 1})
    for kind in (either, only):
        content.expect(kind, 1)
        assert content.place(kind)
    assert content.free == {0: 0, 1: 0}
    assert content.used == {(either, MIXED): 1, (only, MIXED): 1}
    (rack,) = content.racks
    assert rack.content == ((only, 1), (either, 1))


def test_prices_say_why_racks_do_not_hold_what_rows_allow() -> None:
    scenario = Scenario(
        "b1/r1: a1=8 a2=8 a3=8 a4=8 a5=8 | b1/r2: c1=8 c2=8 c3=8 c4=8 | b2/r3: d1=8"
    )
    for size in (2, 3):
        part = Group("part", pods=size, gpus=8, pack="rack")
        scenario = scenario.gang(f"g{size}", part, prefer="block")
    mine = BlockProblem(counted(scenario.snapshot()))
    rows, roomy = block_rows(mine.blocks, mine.classes), mine.blocks.order[-1]
    two, three = rows.kinds
    columns = RackColumns(mine.blocks, rows.kinds)

    def against(parts: Counter[Kind]) -> Prices | None:
        return columns.prices_against(roomy, parts)

    assert against(Counter({two: 3, three: 1})) is None
    prices = against(Counter({two: 1, three: 2}))
    # Three and three leave two and one.
    assert prices is None
    prices = against(Counter({three: 3}))
    assert prices is not None
    row = rack_row(columns, prices, rows.unit)
    assert 3 * row.parts[1] > row.room[-1] >= 2 * row.parts[1] + row.parts[0]


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_a_plan_obeys_every_row_that_prices_make(seed: int, luck: int) -> None:
    mine = BlockProblem(counted(question(seed)))
    if not mine.usable:
        return
    rows, rng = block_rows(mine.blocks, mine.classes), random.Random(luck)
    if not rows.kinds:
        return
    prices = {kind: rng.random() * kind.size for kind in rows.kinds if rng.random() < 0.7}
    row = rack_row(RackColumns(mine.blocks, rows.kinds), prices, rows.unit)
    taken = dict.fromkeys(mine.blocks.order, 0)
    for (kind, b, _), n in mine.encoded().used.items():
        taken[b] += n * int(row.parts[rows.kinds.index(kind)])
    event(f"taken: {any(taken.values())}")
    assert all(taken[b] <= n for b, n in zip(mine.blocks.order, row.room.tolist(), strict=True))


@given(st.integers(0, 10_000))
def test_pieces_of_a_gang_are_the_gang(seed: int) -> None:
    mine = BlockProblem(counted(question(seed)))
    if not mine.usable:
        return
    cutter = PieceCutter(block_rows(mine.blocks, mine.classes), seed=seed)
    luck = random.Random(seed)
    gang = parts_of(luck.choice(mine.classes))
    pieces = cutter.cut([gang])
    event(f"pieces: {min(4, len(pieces))}")
    assert sum((Counter(piece.parts) for piece in pieces), Counter()) == Counter(gang)


def test_pieces_lie_in_the_blocks_that_are_known() -> None:
    scenario = Scenario("b1/r1: a1=8 a2=8 | b2/r2: c1=8 | b3/r3: d1=8 d2=8 d3=8 | b4/r4: e1=8")
    mine = BlockProblem(counted(scenario.gang("g", pods=4, gpus=8, prefer="block").snapshot()))
    cutter = PieceCutter(block_rows(mine.blocks, mine.classes), seed=1)
    gang = parts_of(mine.classes[0])
    # Two blocks would do; these are the three smallest.
    pieces = cutter.cut([gang], places=[[0, 1, 2]])
    assert sorted(len(piece.parts) for piece in pieces) == [1, 1, 2]
