"""Orders in which gangs are placed one after another: what is hard comes first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from placement_service.formulation.problem import Gang, Problem

#: Sorts gangs: smaller keys are placed first.
Order = Callable[[Gang], object]


def orders(problem: Problem) -> tuple[Order, ...]:
    """By the GPUs of the gang, of its largest part in one domain, and by its scopes."""

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
    return (
        lambda g: (not required[g.index], -size[g.index]),
        lambda g: -size[g.index],
        lambda g: (-hardest[g.index], -size[g.index]),
        lambda g: (-len(g.scopes), -size[g.index]),
    )
