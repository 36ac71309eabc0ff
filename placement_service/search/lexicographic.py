"""The lexicographic descent: goal after goal, each with those before it held.

Every model of the search goes down the same way, here. Each stage decides what it does with one
goal: how long it tries, what it does with a plan, when it gives up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from placement_service.formulation.tiers.goal import Goal, GoalModel, Terms

V = TypeVar("V")


class HoldableModel(GoalModel[V], Protocol[V]):
    """A model whose goals can be held."""

    def hold(
        self, terms: Terms[V], *, at_least: int | None = None, at_most: int | None = None
    ) -> None: ...


class Settle(Protocol[V]):
    """Settles the i-th goal; returns what the model holds from then on, None to go no further."""

    def __call__(self, i: int, terms: Terms[V], /) -> int | None: ...


def descend(goals: Sequence[Goal], model: HoldableModel[V], settle: Settle[V]) -> None:
    """Settle and hold one goal after another, as far as the model knows them."""
    for i, goal in enumerate(goals):
        terms = goal.terms(model)
        if terms is None:
            return
        reached = settle(i, terms)
        if reached is None:
            return
        keep(goal, model, reached)


def keep(goal: Goal, model: HoldableModel[V], reached: int) -> None:
    """Hold a goal at what was reached."""
    hold(goal, goal.terms(model), model, reached)


def hold(goal: Goal, terms: Terms[V] | None, model: HoldableModel[V], reached: int) -> None:
    """The same with the terms of a goal, where these are known."""
    if terms and goal.tier.minimize:
        model.hold(terms, at_most=reached)
    elif terms:
        model.hold(terms, at_least=reached)
