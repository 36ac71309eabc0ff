"""Answers of the engine, judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from placement_service.entities.eviction import Eviction
from placement_service.entities.request import Binding, Policy, Snapshot
from placement_service.entities.solution import Solution, TierName
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.prepare import prepare
from placement_service.search.parameters import DEFAULTS, SearchParameters
from tests.judged import judged
from tests.placed import solve


class Answer(NamedTuple):
    solution: Solution
    bindings: Sequence[Binding]
    evictions: Sequence[Eviction]

    def evicted(self) -> list[str]:
        """Short names of the gangs that lose pods, one for each pod."""
        return sorted(e.gang.rsplit("/", 1)[1] for e in self.evictions)

    def tier(self, name: TierName) -> float:
        return next(t.value for t in self.solution.tiers if t.name is name)


def answer(question: Snapshot, policy: Policy, parameters: SearchParameters = DEFAULTS) -> Answer:
    """What the engine says, judged: no rule is broken and every value is what it claims."""
    found = solve(question, policy, parameters=parameters)
    for solution in found:
        judged(question, policy, solution)
    last = found[-1]
    prepared = prepare(question, policy)
    return Answer(last, *name_plan(question, policy, prepared, last.assignments))
