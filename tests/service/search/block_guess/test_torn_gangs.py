"""Gangs are torn one after another where room lacks, and whole again where a block is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from placement_service.cp_sat.admission.master import Torn
from placement_service.cp_sat.blocks.parts import Kind
from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.request import Policy
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.objective import to_solution
from placement_service.judge.verify import verify
from placement_service.search.block_guess.assignment import BlockAssignment, Crowded, Pieces
from placement_service.search.block_guess.guess import Begun, Guess
from placement_service.search.block_guess.guessing import BlockGuess
from placement_service.search.block_guess.items import Item, Items
from placement_service.search.block_guess.pieces import GangPiece
from placement_service.search.block_guess.stage import assign_blocks
from placement_service.search.block_guess.standing import PlacedPiece, Standing
from placement_service.search.blocks.problem import BlockProblem
from tests.scenario import Group, Scenario
from tests.service.search.block_questions import counted, scattered


def parts(mine: BlockProblem, guess: Guess) -> Counter[Kind]:
    """All parts of gangs that name blocks in a guess."""
    found = Counter[Kind]()
    for (bundle, _), n in guess.whole.items():
        for c, times in bundle.members:
            for kind, count in mine.classes[c].shape.kinds:
                found[kind] += count * times * n
    for _, placed in guess.torn:
        for (kind, _), n in placed.items():
            found[kind] += n
    return Counter({kind: n for kind, n in found.items() if kind.size})


def joined(guess: BlockGuess) -> Guess | None:
    """The guess with fewest pieces, where blocks hold whatever is found."""
    found: list[Guess] = []

    def take(one: Guess) -> bool:
        found.append(one)
        return True

    guess.join_pieces(take, until=lambda: False)
    return found[-1] if found else None


def pieces(guess: Guess) -> int:
    """The places of torn gangs."""
    return sum(len({b for _, b in placed}) for _, placed in guess.torn)


@pytest.mark.parametrize("seed", [2, 6, 10, 14])
def test_where_no_guess_has_all_gangs_whole_some_are_torn(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = scattered(seed)
    state = counted(snapshot)
    mine = BlockProblem(state)
    guess = BlockGuess(mine)
    assert guess.strict(1) is None
    found = guess.torn_by_and_by()
    assert found is not None
    wanted = Counter[Kind]()
    for n, c in zip(mine.wanted, mine.classes, strict=True):
        for kind, times in c.shape.kinds if c.shape.splits != 0 or c.base >= 0 else ():
            wanted[kind] += n * times
    assert parts(mine, found) == Counter({kind: n for kind, n in wanted.items() if kind.size})
    fewer = joined(guess)
    assert fewer is not None
    assert pieces(fewer) < pieces(found)
    assert parts(mine, fewer) == parts(mine, found)
    asked: list[bool] = []
    again = BlockGuess.join_pieces

    def noted(guess: BlockGuess, take: Callable[[Guess], bool], until: Callable[[], bool]) -> None:
        again(guess, take, until=until)
        asked.append(until())

    monkeypatch.setattr(BlockGuess, "join_pieces", noted)
    assert assign_blocks(state)
    assert asked
    assert state.packs
    assignments = to_solution(state.problem, state.plan).assignments
    assert not verify(snapshot, Policy(), name_pods(snapshot, assignments))


def test_a_gang_that_was_torn_in_vain_is_whole_again() -> None:
    scenario = Scenario("b1/r1: a1=8 a2=8 | b2/r2: c1=8 c2=8 | b3/r3: d1=8 d2=8")
    for name in "xyz":
        scenario = scenario.gang(name, Group("pod", pods=2, gpus=8), prefer="block")
    mine = BlockProblem(counted(scenario.snapshot()))
    guess = BlockGuess(mine)
    guess.target.advise(Torn(gangs=(GangIdx(0), GangIdx(1)), places={}))
    found = guess.strict(5)
    assert found is not None
    assert len(found.torn) == 2
    fewer = joined(guess)
    assert fewer is not None
    assert not fewer.torn
    assert sum(fewer.whole.values()) == 3
    assert joined(guess) is None


def test_while_a_gang_becomes_whole_again_all_others_stay() -> None:
    scenario = Scenario(" | ".join(f"b{i}/r{i}: x{i}=8 y{i}=8" for i in range(8)))
    for i in range(8):
        # Of unlike priority, so that each has its place.
        scenario = scenario.gang(f"g{i}", Group("pod", pods=2, gpus=8), prefer="block", priority=i)
    mine = BlockProblem(counted(scenario.snapshot()))
    guess = BlockGuess(mine)
    guess.target.advise(Torn(gangs=(GangIdx(0),), places={}))
    found = guess.strict(5)
    fewer = joined(guess)
    assert found is not None
    assert fewer is not None
    assert len(found.whole) == 7
    assert found.whole <= fewer.whole


def three_pieces() -> tuple[BlockProblem, BlockGuess]:
    """A gang of five nodes that no block has room for, in three pieces though two would do."""
    nodes = [" ".join(f"x{i}{k}=8" for k in range(n)) for i, n in enumerate((3, 2, 1))]
    scenario = Scenario(" | ".join(f"b{i}/r{i}: {some}" for i, some in enumerate(nodes)))
    mine = BlockProblem(
        counted(scenario.gang("g", Group("pod", pods=5, gpus=8), prefer="block").snapshot())
    )
    guess = BlockGuess(mine)
    guess.target.advise(Torn(places={GangIdx(0): (2, 1, 0)}))
    return mine, guess


def test_pieces_of_a_gang_become_one_where_a_block_holds_both() -> None:
    mine, guess = three_pieces()
    found = guess.strict(5)
    assert found is not None
    assert pieces(found) == 3
    fewer = joined(guess)
    assert fewer is not None
    assert pieces(fewer) == 2
    assert parts(mine, fewer) == parts(mine, found)


def test_what_blocks_do_not_hold_after_all_is_tried_again_only_a_few_times() -> None:
    _, guess = three_pieces()
    assert guess.strict(5) is not None
    asked: list[Guess] = []

    def never(one: Guess) -> bool:
        asked.append(one)
        return False

    guess.join_pieces(never, until=lambda: False)
    tries = guess.parameters.assign_joining
    assert tries <= len(asked) <= 2 * tries


def test_joined_pieces_lie_where_the_other_one_was() -> None:
    kind, small = Kind((), 4), Kind((), 1)
    mine = [PlacedPiece(0, [small], 3), PlacedPiece(1, [], 1), PlacedPiece(1, [small] * 3, 1)]
    mine += [PlacedPiece(1, [small], 2), PlacedPiece(1, [kind, small], 0)]
    standing = Standing({}, {}, mine, torn=2)
    assert standing.pieces_of(1) == [3, 4, 2]
    both = standing.joined(3, 4)
    assert both.pieces == [*mine[:3], PlacedPiece(1, [kind, small, small], 0)]
    assert both.torn == 2


def torn_in(*, tear: Sequence[Crowded] = (), cut: Sequence[Crowded]) -> tuple[Standing, Begun]:
    """What becomes of two gangs, one in each block, and a piece, where blocks hold too much."""
    scenario = Scenario("b1/r1: a1=8 a2=8 | b2/r2: c1=8 c2=8")
    for name in "xy":
        scenario = scenario.gang(name, Group("pod", pods=2, gpus=8), prefer="block")
    guess = BlockGuess(BlockProblem(counted(scenario.snapshot())))
    begun = guess.target.begin()
    standing = Standing({0: np.array([1, 1])}, {}, [PlacedPiece(0, [], 0)], 1, tear=tear, cut=cut)
    assert guess._tear_in(standing, begun)
    return standing, begun


def test_what_is_torn_no_longer_stands_where_it_was() -> None:
    standing, begun = torn_in(tear=[Crowded(0, 1, 0)], cut=[Crowded(0, 0, 1)])
    assert standing.bundles[0].tolist() == [1, 0]
    assert len(begun.torn) == 1
    assert len(standing.pieces) == 1


def test_where_only_pieces_leave_room_another_one_goes_where_most_is() -> None:
    standing, begun = torn_in(cut=[Crowded(0, 0, 1)])
    assert standing.bundles[0].tolist() == [1, 1]
    assert not begun.torn
    assert standing.pieces == [PlacedPiece(0, [], 0), PlacedPiece(0, [], 1)]


def test_what_has_no_block_is_placed_anew() -> None:
    item = Item(np.array([1]), np.array([1]), np.array([0]), cost=1, tearable=False)
    pieces = [GangPiece(0, []), GangPiece(0, [])]
    items = Items([], [], pieces, [item, item], [1, 1])
    standing = Standing({}, {}, [PlacedPiece(0, [], 1), PlacedPiece(0, [], 2)], torn=1)
    assert standing.count(items, 2).tolist() == [[0, 1, 0], [0, 0, 0]]


def test_a_gang_that_takes_nothing_scarce_leaves_no_room() -> None:
    takes, room = np.array([[1, 0], [0, 3]]), np.array([[4, 2], [4, 9]])
    search = BlockAssignment(takes, room, np.array([9, 9]), seed=1)
    search.begin(np.array([[1, 0, 0], [1, 0, 0]]))
    assert search.crowded(np.array([True, False])) == []


def test_of_a_block_that_holds_too_much_the_largest_gang_that_leaves_room_is_named() -> None:
    # Three gangs in the first of three blocks, the last of which is empty.
    takes, room = np.array([[2], [3], [1]]), np.array([[4], [2], [5]])
    search = BlockAssignment(takes, room, np.array([20, 30, 10]), seed=1)
    search.begin(np.array([[1, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]]))
    assert search.crowded(np.ones(3, dtype=bool)) == [Crowded(1, 0, 2)]
    assert search.crowded(np.array([True, False, True])) == [Crowded(0, 0, 2)]
    assert not search.crowded(np.zeros(3, dtype=bool))


def test_where_no_gang_leaves_room_a_piece_is_named() -> None:
    pieces = Pieces(np.array([-1, 0]), np.array([[0], [3]]), np.array([[1]]))
    search = BlockAssignment(
        np.array([[2], [3]]), np.array([[4], [9]]), np.array([9, 9]), seed=1, pieces=pieces
    )
    search.begin(np.array([[1, 0, 0], [1, 0, 0]]))
    assert search.crowded(np.array([False, False])) == [Crowded(1, 0, 1)]


def test_without_a_torn_gang_those_after_it_move_up() -> None:
    pieces = [PlacedPiece(gang, [], block) for gang, block in ((0, 1), (1, 2), (2, 3), (1, 4))]
    left = Standing({}, {}, pieces, torn=3).without(1)
    assert left.torn == 2
    assert left.pieces == [PlacedPiece(0, [], 1), PlacedPiece(1, [], 3)]
