"""Who waits and who runs in a victim model, and which units it gives places to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placement_service.cp_sat.victims.moved_units import is_large, new_classes, placed_again
from placement_service.cp_sat.victims.waiting_parts import WaitingPart, parts_of
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.problem import Gang, Problem


@dataclass(frozen=True, slots=True, eq=False)
class ComingUnits:
    """Gangs that wait, and those that run; the parts of the waiting ones that lie in one domain
    each. `asked` are the pod classes of units that get places, `again` those of them whose units
    get new ones where their gang `moves`. Where small units get none, it `leaves_out` some.
    """

    waiting: Sequence[Gang]
    running: Sequence[Gang]
    parts: Sequence[WaitingPart]
    asked: Sequence[ClassIdx]
    again: frozenset[ClassIdx]
    moves: bool
    leaves_out: bool


def coming_units(problem: Problem, *, moved_units: int, large_only: bool) -> ComingUnits:
    """What comes: with `large_only`, where gangs move, only units of which no node holds two. Large
    units of gangs that move have so many places at most.
    """
    moves = any(g.keeps for g in problem.gangs)
    waiting = [g for g in problem.pending if not g.home]
    running = [g for g in problem.gangs if g.home]
    asked = new_classes((*waiting, *running))
    leaves_out = False
    if large_only and moves:
        large = frozenset(s for s in asked if is_large(problem, s))
        leaves_out, asked = large < asked, large
    again = placed_again(problem, running if moves else (), asked, moved_units)
    asked |= again
    parts = [p for g in waiting for p in parts_of(problem, g, asked)]
    return ComingUnits(waiting, running, parts, sorted(asked), again, moves, leaves_out)
