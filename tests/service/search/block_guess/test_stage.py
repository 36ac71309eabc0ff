"""Blocks for all gangs at once: what is counted, what racks hold, and what comes of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from bench.families.building import GPU
from bench.instances import Instance
from placement_service.cp_sat.admission.master import Torn
from placement_service.cp_sat.blocks.contents import Filled, Held
from placement_service.cp_sat.blocks.parts import Kind
from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.request import Policy
from placement_service.entities.reservations import Reservation, ReservationOwner
from placement_service.formulation.objective import to_solution
from placement_service.judge.verify import verify
from placement_service.search.block_guess import stage as assign_stage
from placement_service.search.block_guess import target as guess_target
from placement_service.search.block_guess.filling import GuessFilling
from placement_service.search.block_guess.guess import Guess
from placement_service.search.block_guess.guessing import BlockGuess
from placement_service.search.block_guess.pieces import PieceCutter
from placement_service.search.block_guess.rows import block_rows
from placement_service.search.block_guess.stage import assign_blocks
from placement_service.search.blocks import stage as block_stage
from placement_service.search.blocks.problem import BlockProblem
from placement_service.search.blocks.stage import fill_blocks, told
from placement_service.search.blocks.swaps import BlockSwaps
from placement_service.search.parameters import DEFAULTS
from tests.scenario import Group, Scenario
from tests.service.search.block_questions import counted, question, ran_before, scattered


@pytest.mark.parametrize("load", [1.05, 1.3])
def test_a_full_cluster_is_filled_with_whole_gangs_at_once(load: float) -> None:
    state = counted(Instance("mix", {"blocks": 6, "gangs": 80, "load": load}, 1).snapshot())
    assert not state.packs
    assert assign_blocks(state)
    assert state.proven


def test_gangs_that_ran_before_get_blocks_like_others() -> None:
    snapshot = ran_before(Instance("mix", {"blocks": 6, "gangs": 80, "load": 1.3}, 1).snapshot())
    state = counted(snapshot)
    assert not state.packs
    assert assign_blocks(state)
    plan = to_solution(state.problem, state.plan)
    assert not verify(snapshot, Policy(), name_pods(snapshot, plan.assignments))


def test_gangs_with_reservations_lie_there_before_blocks_are_sought_for_others() -> None:
    snapshot = Instance("mix", {"blocks": 6, "gangs": 80, "load": 1.3}, 1).snapshot()
    plain = counted(snapshot)
    assert assign_blocks(plain)
    lies = [(i, units) for i, units in sorted(plain.plan.items()) if len(units) > 4][:12]
    reservations = [
        Reservation(
            f"reservations/r{i}-{d}-{n}",
            snapshot.nodes[n].name,
            {GPU: 4},
            (ReservationOwner(gang=snapshot.gangs[i].name),),
        )
        for i, units in lies
        for d, n, _ in units
        if plain.problem.gpus[plain.problem.gangs[i].demands[d].pod_class] == 4
    ]
    state = counted(replace(snapshot, reservations=tuple(reservations)))
    mine = told(state)
    assert mine is not None
    simpler = mine.beside_own_places()
    assert simpler is not None
    assert len(mine.blocks.pools) == len(lies) + 1
    assert len(simpler.blocks.pools) == 1
    assert simpler.fixed.keys() == dict(lies).keys()
    assert assign_blocks(state)
    assert state.proven


def never(*_: object, **__: object) -> object:
    raise AssertionError("asked")


def test_blocks_are_not_guessed_where_hardly_a_node_is_left_to_pods_without_a_rack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = counted(Instance("rack_parts", {"blocks": 4, "gangs": 60}, 1).snapshot())
    monkeypatch.setattr(assign_stage, "BlockGuess", never)
    assert not assign_blocks(state)
    state.parameters = replace(DEFAULTS, assign_loose_share=0.0)
    with pytest.raises(AssertionError):
        assign_blocks(state)


def test_nothing_is_asked_for_guesses_whose_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    state = counted(Instance("mix", {"blocks": 6, "gangs": 80, "load": 1.3}, 1).snapshot())
    state.parameters = replace(DEFAULTS, assign_share=0.0)
    for name in ("wide_places", "least_torn"):
        monkeypatch.setattr(assign_stage, name, never)
    assert not assign_blocks(state)


@pytest.mark.parametrize("torn_at_least", [0, 1000])
def test_the_first_guess_is_brief_where_counting_knows_that_not_all_gangs_lie_whole(
    torn_at_least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = counted(Instance("mix", {"blocks": 6, "gangs": 80, "load": 1.3}, 1).snapshot())
    state.learn(state.topology, torn_at_least)
    asked: list[tuple[int, bool]] = []

    def strict(guess: BlockGuess, tries: int, *, brief: bool = False) -> None:
        asked.append((tries, brief))

    monkeypatch.setattr(BlockGuess, "strict", strict)
    assign_stage._first(state, BlockGuess(BlockProblem(state)))
    assert asked[0] == ((1, True) if torn_at_least else (2, False))


def test_who_is_torn_is_asked_with_more_time_where_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = counted(Instance("mix", {"blocks": 6, "gangs": 80, "load": 1.3}, 1).snapshot())
    torn = Torn(gangs=state.target[:1])
    asked: list[bool] = []
    tried: list[int] = []

    def least(*_: object, wide: bool = False, longer: bool = False) -> Torn | None:
        asked.append(longer)
        return torn if longer else None

    def strict(guess: BlockGuess, tries: int, *, brief: bool = False) -> Guess | None:
        tried.append(guess.target.begin().torn.count(state_class))
        return None

    mine = BlockProblem(state)
    state_class = next(i for i, c in enumerate(mine.classes) if torn.gangs[0] in c.gangs)
    monkeypatch.setattr(assign_stage, "least_torn", least)
    monkeypatch.setattr(BlockGuess, "strict", strict)
    assert assign_stage._first(state, BlockGuess(mine)) is None
    assert asked[:2] == [False, True]
    assert tried[:2] == [0, 1]


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
    few = replace(SHORT, block_fillings_in_vain=2, block_swaps_in_vain=2)
    snapshot = scattered(1, blocks=3, gangs=30)
    state = counted(snapshot, few)
    problem, mine = state.problem, BlockProblem(state)
    assert not assign_blocks(state)
    assert len(state.begun) > 0.7 * len(state.target)
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


#: No guess after the first.
SHORT = replace(DEFAULTS, assign_all_steps=1)


def test_of_a_guess_that_racks_do_not_hold_what_they_hold_is_kept() -> None:
    mine = BlockProblem(counted(scattered(4, blocks=5, gangs=60)))
    guess = BlockGuess(mine)
    assert guess.strict(1) is None
    assert guess.partly is not None
    assert sum(guess.partly.whole.values()) > sum(mine.wanted) / 2
    for b, block in enumerate(mine.blocks.order):
        inside = Counter[Kind]()
        for (bundle, at), n in guess.partly.whole.items():
            for c, times in bundle.members if at == b else ():
                for kind, count in mine.classes[c].shape.kinds:
                    if kind.size:
                        inside[kind] += count * times * n
        assert guess.fitting.misfit(block, inside) is None


def test_a_brief_guess_gives_up_sooner() -> None:
    steps = []
    for brief in (False, True):
        # No number of steps ends them, only steps without success.
        state = counted(
            scattered(4, blocks=5, gangs=60), replace(DEFAULTS, assign_strict_steps=999)
        )
        guess = BlockGuess(BlockProblem(state))
        assert guess.strict(1, brief=brief) is None
        steps.append(guess._steps)
    assert steps[1] < steps[0]


def test_the_guess_with_most_gangs_whole_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = BlockProblem(counted(scattered(6, blocks=3, gangs=30)))
    guess, found = BlockGuess(mine), list[Guess]()
    keep = guess._keep

    def noted(one: Guess) -> None:
        found.append(one)
        keep(one)

    monkeypatch.setattr(guess, "_keep", noted)
    guess.next()

    def nodes(one: Guess) -> int:
        members = ((c, times * n) for (b, _), n in one.whole.items() for c, times in b.members)
        return sum(mine.classes[c].shape.size * n for c, n in members)

    assert guess.partly is not None
    assert nodes(guess.partly) == max(map(nodes, found)) > min(map(nodes, found))


def test_torn_gangs_are_cut_into_more_pieces_where_these_find_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pieces: list[int] = []
    cut = PieceCutter.cut

    def noted(self: PieceCutter, gangs: Any, *, more: int = 0, **others: Any) -> Any:
        pieces.append(more)
        return cut(self, gangs, more=more, **others)

    monkeypatch.setattr(PieceCutter, "cut", noted)
    guess = BlockGuess(BlockProblem(counted(scattered(3, blocks=4, gangs=40))))
    guess.strict(1)
    assert guess.next() is not None
    assert pieces[-1] == 1


def test_without_a_model_of_the_rest_filling_goes_on_with_the_guess(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = counted(scattered(1, blocks=3, gangs=30), SHORT)
    assert not assign_blocks(state)
    begun = BlockProblem(state).encoded(state.begun)
    started: list[Filled] = []
    monkeypatch.setattr(block_stage, "settle", lambda *_, **__: None)
    monkeypatch.setattr(BlockSwaps, "run", lambda swaps: started.append(swaps.best))
    fill_blocks(state, anew=True)
    assert [one.whole for one in started] == [begun.whole]


def test_what_is_begun_is_nothing_to_fill_where_others_stay_on_its_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = counted(scattered(1, blocks=3, gangs=30), SHORT)
    assert not assign_blocks(state)
    monkeypatch.setattr(block_stage, "settle", lambda *_, **__: None)
    monkeypatch.setattr(block_stage, "_block_after_block", lambda mine: {})
    alike = {g: units for g, units in state.begun.items() if state.plan.get(g) == units}
    assert block_stage._fill(BlockProblem(state, alike)) is not None
    others = {g: units for g, units in state.plan.items() if state.begun.get(g, units) != units}
    assert others
    assert block_stage._fill(BlockProblem(state, others)) is None


def test_what_names_no_block_gets_one_where_the_blocks_that_are_left_have_no_room() -> None:
    # Small pods of the gang in the second block need a node that the single pod would take.
    scenario = Scenario("b1/r1: a1=8 a2=8 | b2/r2: c1=8 c2=8 c3=8")
    scenario = scenario.gang("two", Group("pod", pods=2, gpus=8), prefer="block")
    scenario = scenario.gang(
        "small", Group("pod", pods=1, gpus=8), Group("small", pods=3, gpus=2), prefer="block"
    )
    mine = BlockProblem(counted(scenario.gang("one", pods=1, gpus=8).snapshot()))
    guess = BlockGuess(mine)
    guess.target.choose_for_all()
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
        # Two alike gangs of nine such parts have none: each has two blocks of its own.
        (1.05, 96, 2),
        (1.05, 90, 3),
        (1.05, 93, 5),
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
    monkeypatch.setattr(guess_target, "MOST_LOOSE", -1)
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


@pytest.mark.parametrize(("scattered", "varied"), [(0, False), (1, True)])
def test_guesses_leave_more_time_where_blocks_have_several_pools(
    scattered: int, varied: bool
) -> None:
    """There they often fail, and configurations find plans. After these they go on."""
    parameters = {"blocks": 4, "gangs": 40, "load": 1.2, "scattered": scattered}
    state = counted(Instance("pools", parameters, 1).snapshot())
    state.parameters = replace(DEFAULTS, assign_share=1.0, assign_share_varied=0.0)
    mine = BlockProblem(state)
    assert mine.varied is varied
    assert BlockGuess(mine).is_over() is varied
    assert not BlockGuess(mine, again=True).is_over()


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
