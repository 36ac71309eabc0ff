"""Exchanges what gangs have in domains until each that must lie in one broader domain does.

Configurations do not say where gangs lie that must be in one broader domain, a block say, so the
slots of such a gang may be in several. They are exchanged as parts of a plan are, and what others
have changes only where it has to (see `part_exchange`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from placement_service.bounds.configurations import Configurations
from placement_service.formulation.arrays import Bools
from placement_service.formulation.indices import GangIdx
from placement_service.search.exchange.movable_parts import MovablePart, Rack, packed
from placement_service.search.exchange.part_exchange import PartExchange
from placement_service.search.exchange.slots import Group, GroupOf, Slots

#: Steps of the exchange, and so many at once.
MOST_STEPS, STEPS_AT_ONCE = 300_000, 1_000

#: A gang seldom gets into one more place than it was in.
TEMPERATURE = 0.3


@dataclass(slots=True, eq=False)
class _Exchangeable:
    """Groups as parts of which the owners have to lie in one place."""

    open: Bools
    racks: dict[int, Rack]
    parts: list[MovablePart] = field(default_factory=list)
    anchors: dict[int, set[int]] = field(default_factory=dict)
    together: Collection[int] = ()


def exchange_slots(
    found: Configurations,
    slots: Slots,
    gangs: Collection[GangIdx],
    place_of: Callable[[int], int],
    late: float,
) -> None:
    """Fewer places for the slots of some gangs; `place_of` says in which place a domain lies, and
    `late` when time is up, as `time.monotonic`.

    Domains with groups that running pods hold there stay as they are.
    """
    pinned = {
        domain
        for domain, groups in slots.given.items()
        if any(piece.pin >= 0 for one in groups for piece in one.pieces)
    }
    movable = _Exchangeable(
        found.open,
        {
            domain: Rack(place_of(domain), {}, signature.nodes, sum(signature.nodes))
            for signature in found.signatures
            for domain in signature.domains
            if domain not in pinned
        },
    )
    moved: list[GroupOf] = []
    for domain, groups in slots.given.items():
        for one in groups:
            if domain not in pinned:
                owner = one.gang if one.gang in gangs else -1
                movable.parts.append(_part(found, one, owner, domain))
                moved.append(one)
            elif one.gang in gangs:
                movable.anchors.setdefault(one.gang, set()).add(place_of(domain))
    exchange = PartExchange(movable, seed=1, temperature=TEMPERATURE, guided=1.0)
    for _ in range(0, MOST_STEPS, STEPS_AT_ONCE):
        if not exchange.best or time.monotonic() > late:
            break
        exchange.run(STEPS_AT_ONCE)
    slots.given = {domain: slots.given[domain] for domain in pinned}
    for one, domain in zip(moved, exchange.found, strict=True):
        slots.given.setdefault(domain, []).append(one)


def _part(found: Configurations, one: GroupOf, owner: int, domain: int) -> MovablePart:
    units = _units(found, one.pieces)
    return MovablePart(one.gang, owner, domain, units, sum(units), packed(units))


def _units(found: Configurations, pieces: Group) -> tuple[int, ...]:
    """Units by shape."""
    units = [0] * len(found.accepts)
    for piece in pieces:
        kind = found.kinds[piece.kind]
        units[kind.shape] += kind.size
    return tuple(units)
