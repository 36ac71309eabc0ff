"""Fewer domains by exchanging parts of gangs; the same gangs stay placed."""

from __future__ import annotations

import time

from placement_service.entities.solution import TierName
from placement_service.search.exchange.movable_parts import MovableParts
from placement_service.search.exchange.part_exchange import PartExchange
from placement_service.search.incumbent import State
from placement_service.search.parameters import SearchParameters

#: The time that a plan takes, as a multiple of finding out which parts can move.
WRITING = 4.0


def exchange_parts(state: State, *, cold: bool = False) -> None:
    """A better plan, where parts of whole nodes can change places; it gives no bounds.

    Where hardly a node is free it is better to begin `cold`: few steps are possible, and worse ones
    are seldom made good again.
    """
    if state.spends_before(TierName.TOPOLOGY):
        # Other gangs will be placed, so where these lie does not matter.
        return
    p = state.parameters
    enough = state.left > p.least_seconds
    if enough and not state.proven and state.exchanged is not state.plan:
        begin = time.monotonic()
        movable = MovableParts(state)
        if movable.usable:
            state.phase = "exchange"
            spared = WRITING * (time.monotonic() - begin)
            if cold:
                # Blocks are sought again after it.
                others = state.left - state.at_most(state.left * p.exchange_cold_share)
                spared = max(spared, others)
            temperatures = p.exchange_temperatures
            for begin_at, end_at in temperatures[-1:] if cold else temperatures:
                _exchange(state, movable, begin_at, end_at, spared)
        if not cold:
            # After a cold begin a hot one may still get further, when nothing else does.
            state.exchanged = state.plan


def _exchange(state: State, movable: MovableParts, hot: float, cold: float, spared: float) -> None:
    """Exchanges as long as it helps, from a hot temperature down to a cold one; so many seconds are
    `spared` for the last plan and others.

    Parts then lie in the racks where they were best.
    """
    p = state.parameters
    exchange = PartExchange(movable, seed=p.seed, temperature=hot)
    begin = exchange.best
    parts = len(movable.parts)
    end = steps_without_success(p, parts, begin, begin) if begin else 0
    steps = taken = 0
    kept, told = exchange.best, time.monotonic()
    timed = not state.problem.policy.deterministic
    while kept and steps < end and state.left > max(p.least_seconds, spared):
        if exchange.run(p.exchange_steps_at_once):
            end = steps + steps_without_success(p, parts, begin, exchange.best)
        steps += p.exchange_steps_at_once
        cooled = min(1.0, steps / p.exchange_cooling_steps)
        exchange.temperature = hot + (cold - hot) * cooled
        late = steps >= taken + p.exchange_plan_steps
        # On a busy machine so many steps may take longer than there is time.
        late = late or (timed and time.monotonic() - told > p.exchange_plan_seconds)
        if exchange.best < kept and (late or not exchange.best):
            # Every plan takes as long as many steps.
            kept, taken = exchange.best, steps
            state.accept(movable.plan(exchange.found))
            told = time.monotonic()
    if exchange.best < kept:
        state.accept(movable.plan(exchange.found))
    for part, rack in zip(movable.parts, exchange.found, strict=True):
        part.rack = rack


def steps_without_success(parameters: SearchParameters, parts: int, begin: int, best: int) -> int:
    """It ends after so many more steps without a better result. The larger the share of the cost
    that was saved, the longer another success may take. A small cost at the start says little, and
    other stages wait.
    """
    p = parameters
    share = max(p.exchange_least_share, (begin - best) / begin)
    large = min(1.0, begin / p.exchange_large_cost, begin / (p.exchange_large_share * parts))
    return p.exchange_least_steps + int(p.exchange_more_steps * share**2 * large)
