"""Orders in which gangs are placed one after another: what is hard comes first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from placement_service.formulation.problem import Gang, Problem

#: Sorts gangs: smaller keys are placed first.
Order = Callable[[Gang], object]
#: The same, for the turns in which gangs make room.
TurnOrder = Callable[[Gang], tuple[int, ...]]


class Orders(NamedTuple):
    """Several orders; of equals always the gang with most GPUs comes first.

    Those that require one domain for all their pods first; those with the largest pods, which find
    no node any longer once smaller ones are everywhere; those with most GPUs; those with the
    largest part in one domain; and those with most scopes. In the first and the fourth, gangs of
    which pods run come before: what has to be where these are has no other place.
    """

    required_first: Order
    largest_pods_first: Order
    largest_first: Order
    hardest_first: Order
    most_scopes_first: Order


def orders(problem: Problem) -> Orders:
    """The orders for a problem."""

    def gpus(gang: Gang, demands: Sequence[int]) -> int:
        return sum(
            int(problem.gpus[gang.demands[d].pod_class]) * gang.demands[d].count for d in demands
        )

    size = {g.index: gpus(g, range(len(g.demands))) for g in problem.gangs}
    hardest = {
        g.index: max((gpus(g, s.demands) for s in g.scopes if s.required >= 0), default=0)
        for g in problem.gangs
    }
    required = {
        g.index: any(s.required >= 0 and len(s.demands) == len(g.demands) for s in g.scopes)
        for g in problem.gangs
    }
    tied = {
        g.index: sum(s.pin >= 0 for s in g.scopes) / max(1, sum(s.required >= 0 for s in g.scopes))
        for g in problem.gangs
    }
    pod = {
        g.index: max((int(problem.gpus[d.pod_class]) for d in g.demands), default=0)
        for g in problem.gangs
    }
    return Orders(
        lambda g: (-tied[g.index], not required[g.index], -size[g.index]),
        lambda g: (-pod[g.index], -size[g.index]),
        lambda g: -size[g.index],
        lambda g: (-tied[g.index], -hardest[g.index], -size[g.index]),
        lambda g: (-len(g.scopes), -size[g.index]),
    )


def narrowest_first(problem: Problem) -> TurnOrder:
    """Gangs with the narrowest domains first, those without any last; of equals the largest."""
    return lambda gang: (-_domains(problem, gang), *_largest_first(problem, gang))


def widest_first(problem: Problem) -> TurnOrder:
    """Gangs with the widest domains first, those without any last; of equals the largest."""

    def key(gang: Gang) -> tuple[int, ...]:
        domains = _domains(problem, gang)
        return (not domains, domains, *_largest_first(problem, gang))

    return key


def _domains(problem: Problem, gang: Gang) -> int:
    """How many domains its narrowest required level has, 0 for no level."""
    levels = (problem.levels[s.required].count for s in gang.scopes if s.required >= 0)
    return max(levels, default=0)


def _largest_first(problem: Problem, gang: Gang) -> tuple[int, ...]:
    size = sum(int(problem.gpus[d.pod_class]) * d.count for d in gang.demands)
    return (-size, -gang.priority, gang.index)
