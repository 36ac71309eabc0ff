"""Blocks for all gangs of the target at once, then what is left.

A guess says which gang lies whole in which block, and racks that hold them. What names no block
goes where there is room beside. Where that does not place everything, the model of all blocks with
these gangs where they are does the rest. That is far less work than to fill block after block, and
no block takes what another one needs. It gives plans, never bounds.
"""

from __future__ import annotations

from placement_service.cp_sat.admission.master import Torn
from placement_service.cp_sat.blocks.contents import Filled
from placement_service.cp_sat.blocks.room import TooManyPatterns
from placement_service.entities.solution import TierName
from placement_service.search.block_guess.filling import GuessFilling
from placement_service.search.block_guess.guess import Guess
from placement_service.search.block_guess.guessing import BlockGuess
from placement_service.search.blocks.problem import BlockProblem
from placement_service.search.blocks.stage import told
from placement_service.search.blocks.swaps import settle
from placement_service.search.configurations.stage import tells_more
from placement_service.search.incumbent import State
from placement_service.search.place_stage import confirm_places, least_torn, wide_places


def assign_blocks(state: State, *, again: bool = False) -> bool:
    """Takes a better plan, if it finds one; returns whether it reaches the bounds of all goals
    before topology. It takes most of the time where it is tried `again`.
    """
    mine = told(state, most_nodes=state.parameters.assign_nodes)
    return mine is not None and assign(mine, again=again)


def assign(mine: BlockProblem, *, again: bool = False) -> bool:
    """The same for a problem as blocks."""
    simpler = mine.beside_own_places()
    found = simpler is not None and _assign(simpler, again=again)
    return found or _assign(mine, again=again)


def _assign(mine: BlockProblem, *, again: bool) -> bool:
    state, p = mine.state, mine.parameters
    least = p.assign_loose_share_unlike if mine.blocks.mixed else p.assign_loose_share
    if _loose_share(mine) < least:
        # Parts that fill racks together are rarely where a guess has their gangs: placing them one
        # after another and exchanging them finds more.
        return False
    guess = BlockGuess(mine, again=again)
    found = _first(state, guess)
    at_once = found is not None
    crowded: Guess | None = None
    for _ in range(p.assign_attempts):
        if found is None and not (guess.failed and _hopeless(mine, again)):
            found = guess.torn_by_and_by() if mine.varied else guess.next()
        if found is None:
            break
        filling = GuessFilling(mine, found, guess.fitting)
        filled = filling.filled()
        if filling.lacks_room:
            # The model hardly finds any either: another guess is cheaper.
            crowded = found
        elif filled is None:
            filled = _filled(mine, found)
        # Small pods may find no room where the counts say that there is some.
        if filled is not None and _take(mine, filled):
            if state.open_tier is TierName.TOPOLOGY:
                if mine.varied:
                    _take_fewer_pieces(mine, guess)
                elif at_once and not guess.target.is_advised:
                    _take_wide_as_counted(mine, again=again)
            confirm_places(state)
            return True
        found = None
        if filling.lacks_room:
            guess.target.choose_for_all()
    filled = None if crowded is None else _filled(mine, crowded)
    if filled is not None and _take(mine, filled):
        confirm_places(state)
        return True
    _take_most(mine, guess)
    return False


def _take_wide_as_counted(mine: BlockProblem, *, again: bool) -> None:
    """Take the plan of a guess with gangs that no block can hold where counting says, if that has
    fewer domains.
    """
    torn = least_torn(mine.state, mine.blocks.level, wide=True)
    if torn is None or not torn.places:
        return
    guess = BlockGuess(mine, again=again)
    guess.target.advise(torn)
    found = guess.strict(guess.parameters.assign_strict)
    filled = None if found is None else GuessFilling(mine, found, guess.fitting).filled()
    if filled is not None:
        mine.take(filled)


def _take_fewer_pieces(mine: BlockProblem, guess: BlockGuess) -> None:
    """Take plans of the last guess with fewer pieces of gangs."""

    def take(found: Guess) -> bool:
        filled = GuessFilling(mine, found, guess.fitting).filled()
        if filled is not None:
            mine.take(filled)
        return filled is not None

    guess.join_pieces(take, until=lambda: mine.state.proven)


def _hopeless(mine: BlockProblem, again: bool) -> bool:
    """Whether a guess that leaves out gangs hardly helps: racks of unlike nodes that do not hold
    what the rows allow seldom hold it with gangs torn, which takes seconds to see. Where
    configurations say what they hold, these come first.
    """
    return bool(mine.blocks.mixed) and not again and tells_more(mine.state)


def _loose_share(mine: BlockProblem) -> float:
    """The share of all whole nodes that no part which needs a rack takes. The fewer these are, the
    more exactly parts have to fit into racks.
    """
    bound = sum(
        n * times * kind.size
        for n, c in zip(mine.wanted, mine.classes, strict=True)
        for kind, times in c.shape.kinds
        if kind.size > 1
    )
    return 1 - bound / sum(mine.blocks.room.values())


def _take_most(mine: BlockProblem, guess: BlockGuess) -> None:
    """Take a plan without the gangs that have no block in the best guess, or whose small pods find
    no room there. These are placed as well as they can be: others find there what they improve.
    The guess with most gangs whole is where they begin.
    """
    found = _written(mine, guess, guess.nearly)
    if found is not None:
        mine.take(found)
    if guess.partly is not guess.nearly:
        found = _written(mine, guess, guess.partly) or found
    if found is not None:
        mine.state.begun = mine.decoded(found)


def _written(mine: BlockProblem, guess: BlockGuess, one: Guess | None) -> Filled | None:
    """The content of blocks as a guess says; None where something finds no room."""
    if one is None:
        return None
    for beside_small in (True, False):
        found = GuessFilling(mine, one, guess.fitting, beside_small=beside_small).filled()
        if found is not None:
            return found
    return None


def _first(state: State, guess: BlockGuess) -> Guess | None:
    """The first guess. Where not all gangs find a block whole, counting says where those lie that
    no block can hold, then which others are torn, and both together.
    """
    # In alike blocks of which counting knows that not all can lie whole there, it is found at once
    # or with advice; else another try is the best that there is.
    brief = bool(state.bounds[state.topology]) and not guess.mine.varied
    found, level = guess.strict(1 if brief else 2, brief=brief), guess.mine.blocks.level
    places = None if found or guess.is_over() else wide_places(state, level)
    if places is not None:
        found = _with_wide_places(guess, places)
    # What others are torn mostly depends on where those lie that no block can hold.
    for wide in (False, True) if places is None else (True, False):
        if found or guess.is_over():
            break
        torn = least_torn(state, level, wide=wide)
        if torn is None and not wide:
            # Luck rarely finds who is torn, so it is worth the time.
            torn = least_torn(state, level, longer=True)
            if torn is None:
                break
        if torn is not None and (torn.gangs or torn.places):
            guess.target.advise(torn)
            more_to_ask = not wide and bool(state.ground.places(level).beyond)
            found = guess.strict(1 if more_to_ask else guess.parameters.assign_strict)
    return found


def _with_wide_places(first: BlockGuess, places: Torn) -> Guess | None:
    """A guess with gangs that no block can hold where counting them alone says; None where not all
    others find a block. What is tried later does not depend on it.
    """
    guess = BlockGuess(first.mine, again=first.again)
    guess.target.advise(places)
    return guess.strict(1)


def _take(mine: BlockProblem, found: Filled) -> bool:
    """Take a plan if it is better; whether it settles which gangs get room."""
    mine.take(found)
    return mine.packs(found) and mine.state.packs


def _filled(mine: BlockProblem, guess: Guess) -> Filled | None:
    """All blocks with the gangs of a guess where they are, by the model; None where it fails."""
    if mine.problem.node_count > mine.parameters.block_nodes or mine.blocks.mixed:
        return None
    if mine.state.left <= mine.parameters.least_seconds:
        return None
    order = mine.blocks.order
    held: dict[tuple[int, int], int] = {}
    for (bundle, b), n in guess.whole.items():
        for c, times in bundle.members if mine.classes[bundle.first].base < 0 else ():
            held[c, order[b]] = held.get((c, order[b]), 0) + times * n
    try:
        model = mine.model(order, mine.wanted, held=held, pooled=True)
    except TooManyPatterns:
        return None
    return settle(mine, model, effort=mine.parameters.block_rest_effort)
