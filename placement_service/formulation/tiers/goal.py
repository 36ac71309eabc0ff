"""What a tier tells every stage: its goals, and what a goal asks of a model.

A tier is one or more goals, each an integer that a plan has. All goals of all tiers in
their order are the lexicographic objective. A goal says what a plan is worth, what bounds
it before anything is counted, which terms stand for it in a model, and which gangs could
still gain.

Goals know models only as `GoalModel`: what they count, with variables of any kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

from placement_service.entities.solution import TierName
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Gang

V = TypeVar("V")

#: A linear expression: variables with their weights.
Terms = list[tuple[V, int]]


class Admission(NamedTuple, Generic[V]):
    """`placed` is how many of some gangs are admitted, which no rule tells apart.

    The gangs are sorted, the oldest first: of gangs alike these are admitted first.
    """

    placed: V
    gangs: Sequence[GangIdx]


def oldest(model: GoalModel[V], admission: Admission[V], most: int) -> V:
    """How many of the first `most` gangs of an admission are admitted."""
    if most >= len(admission.gangs):
        return admission.placed
    return model.lesser([(admission.placed, 1)], most)


class GoalModel(Protocol[V]):
    """What goals ask of a model. None: the model does not know."""

    def admissions(self) -> Iterable[Admission[V]]:
        """All pending gangs of the model, each once."""

    def lesser(self, terms: Terms[V], most: int) -> V:
        """The lesser of a sum and a number, in goals that are maximised."""

    def extra_units(self, priority: int | None) -> Terms[V]:
        """Units beyond the minimum, of gangs of one priority or of all."""

    def kept_pods(self) -> Terms[V] | None:
        """Running pods of open gangs that stay at home, or more."""

    def topology_cost(self) -> Terms[V]:
        """What `topology` counts, or less."""

    def fragmentation_cost(self) -> Terms[V] | None:
        """What `fragmentation` counts."""


class Fewest(Protocol):
    """What counting says of the domains of one gang."""

    def __call__(self, gang: Gang, /) -> int:
        """At least so many over all preferred scopes of the gang."""


class Goal(Protocol):
    """One integer of the objective, in a problem."""

    #: The tier it belongs to, and how many of its units make one of what is reported.
    tier: ClassVar[TierName]
    unit: ClassVar[int]

    @property
    def reported(self) -> bool:
        """Whether it is a part of what is reported of its tier."""

    @property
    def priority(self) -> int | None:
        """The priority of the gangs that it counts, None for all."""

    def value(self, plan: Plan) -> int:
        """What the plan has."""

    def trivial_bound(self) -> int:
        """No plan has more (or less, of a goal that is minimised)."""

    def terms(self, model: GoalModel[V]) -> Terms[V] | None:
        """The goal in a model; None where the model cannot express it."""

    def could_gain(self, plan: Plan, fewest: Fewest) -> list[Gang]:
        """Gangs that might contribute to a better value."""
