"""Which gangs lie whole in which domain, when it is known which parts lie where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

from placement_service.cp_sat.solving import Answer, Var, dot, optimise

#: Parts by kind.
Parts = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Place:
    """A domain of a broad level: what parts lie inside, and the places inside it."""

    parts: Parts
    inside: frozenset[int]


@dataclass(frozen=True, slots=True)
class Wish:
    """A gang that wants one of some places for all of these parts."""

    parts: Parts
    places: Sequence[int]
    weight: int


def assign(
    wishes: Sequence[Wish], places: Sequence[Place], *, seconds: float, effort: float
) -> dict[int, int]:
    """The place of each wish that is granted; as much weight as parts allow."""
    cp = cp_model.CpModel()
    chosen: dict[tuple[int, int], Var] = {}
    asked: dict[tuple[int, int], list[tuple[Var, int]]] = {}
    around: dict[int, list[int]] = {}
    for outer, place in enumerate(places):
        for inner in place.inside:
            around.setdefault(inner, []).append(outer)
    for i, wish in enumerate(wishes):
        mine = []
        for at in wish.places:
            if all(places[at].parts.get(k, 0) >= n for k, n in wish.parts.items()):
                chosen[i, at] = cp.new_bool_var("")
                mine.append(chosen[i, at])
                for outer in around[at]:
                    for k, n in wish.parts.items():
                        asked.setdefault((outer, k), []).append((chosen[i, at], n))
        if mine:
            cp.add_at_most_one(mine)
    for (at, k), terms in asked.items():
        cp.add(dot(terms) <= places[at].parts[k])
    goal = [(y, wishes[i].weight) for (i, _), y in chosen.items()]
    if not goal:
        return {}
    found = optimise(cp, goal, maximize=True, seconds=seconds, effort=effort)
    if isinstance(found, Answer):
        return {}
    return {i: at for (i, at), y in chosen.items() if found.solver.boolean_value(y)}
