"""Answers of the engine, judged."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from placement_service.entities.eviction import Eviction
from placement_service.entities.request import Binding, Policy, Snapshot
from placement_service.entities.solution import Solution, TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.prepare import prepare
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.score import score
from placement_service.judge.verify import verify
from placement_service.search.engine import search
from placement_service.search.parameters import DEFAULTS, SearchParameters
from tests.waiting import LONG


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
    prepared = prepare(question, policy)
    problem = formulate(question, policy, prepared)
    found: list[Solution] = [first_answer(problem)]
    found.append(
        search(
            problem,
            found[0],
            deadline=time.monotonic() + LONG,
            report=found.append,
            parameters=parameters,
        )
    )
    for solution in found:
        plan = name_plan(question, policy, prepared, solution.assignments)
        assert not verify(question, policy, *plan)
        counted = score(question, policy, *plan)
        for tier in solution.tiers:
            assert tier.value == pytest.approx(counted.value(tier.name)), tier
    return Answer(found[-1], *name_plan(question, policy, prepared, found[-1].assignments))
