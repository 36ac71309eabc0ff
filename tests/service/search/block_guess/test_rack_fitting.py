"""What racks of blocks hold, the rows that prices make of it, and pieces of gangs."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from placement_service.cp_sat.blocks.parts import MIXED, Kind, RackSort
from placement_service.cp_sat.blocks.rack_columns import Prices, RackColumns
from placement_service.search.block_guess.filling import GuessFilling
from placement_service.search.block_guess.guessing import BlockGuess
from placement_service.search.block_guess.pieces import PieceCutter, parts_of
from placement_service.search.block_guess.rack_content import RackContent
from placement_service.search.block_guess.rack_fitting import RackFitting
from placement_service.search.block_guess.rows import block_rows, rack_row
from placement_service.search.blocks.problem import BlockProblem
from placement_service.search.parameters import DEFAULTS
from tests.drawing import level_key
from tests.scenario import Group, Scenario
from tests.service.search.block_questions import counted, question
from tests.waiting import LONG

#: A busy machine may stand still for longer than packing may take.
PATIENT = replace(DEFAULTS, assign_packing_seconds=LONG)


def test_racks_hold_what_they_hold() -> None:
    snapshot = Scenario("b1/r1: a1=8 a2=8 a3=8 | b1/r2: c1=8 c2=8 c3=8 | b2/r3: d1=8").gang(
        "g", Group("part", pods=2, gpus=8, pack="rack"), prefer="block"
    )
    state = counted(snapshot.snapshot())
    blocks = BlockProblem(state).blocks
    columns = RackColumns(blocks, [Kind((0,), size) for size in (1, 2, 3)])
    fitting = RackFitting(blocks, columns, PATIENT)
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
    fitting = RackFitting(blocks, RackColumns(blocks, (five, six, seven)), PATIENT)
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
    fitting = RackFitting(mine.blocks, columns, PATIENT)
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
