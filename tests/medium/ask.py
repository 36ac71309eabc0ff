"""One question and some like it: every claim of each is held against every plan of all."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from placement_service.entities.request import Snapshot
from placement_service.entities.solution import SAME, Solution
from placement_service.formulation.formulate import formulate
from placement_service.formulation.named_plan import PlanNames
from placement_service.formulation.prepare import prepare
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.judge import Judge
from placement_service.judge.score import Score
from placement_service.search.engine import search
from placement_service.search.parameters import DEFAULTS, SearchParameters
from tests.medium.claims import refuted
from tests.medium.question import Drawn
from tests.medium.variants import CHANGES, Plan, Variant, translated

#: Other ways to search: most without some stage, so that the others say what they know.
WAYS: Mapping[str, SearchParameters] = {
    "another seed": replace(DEFAULTS, seed=7),
    "no assignment of blocks": replace(DEFAULTS, assign_nodes=0),
    "no blocks": replace(DEFAULTS, assign_nodes=0, block_nodes=0),
    "no aggregate model": replace(
        DEFAULTS,
        aggregate_variables=0,
        aggregate_first_variables=0,
        node_variables=0,
    ),
    "no exact model": replace(
        DEFAULTS, exact_variables=0, exact_polish_variables=0, exact_portfolio_variables=0
    ),
    "victims sooner": replace(DEFAULTS, victim_gangs=1),
    "victims never": replace(DEFAULTS, victim_gangs=10_000),
}


class Answer(NamedTuple):
    """An answer and what its plan is worth; `by` says how it was found."""

    by: str
    solution: Solution
    plan: Plan
    score: Score

    def __str__(self) -> str:
        return f"{self.by} ({self.solution.phase})"


@dataclass
class Asked:
    """A question, its answers, and what was wrong with them."""

    variant: Variant
    answers: list[Answer] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.judge = Judge(self.variant.snapshot, self.variant.policy)

    def ask(
        self, by: str, seconds: float, parameters: SearchParameters = DEFAULTS
    ) -> Answer | None:
        """The last answer; each on the way is judged."""
        asked, policy = self.variant.snapshot, self.variant.policy
        found: list[Solution] = []
        try:
            prepared = prepare(asked, policy)
            problem = formulate(asked, policy, prepared)
            deadline = time.monotonic() + seconds
            first = first_answer(problem, deadline=deadline)
            found.append(first)
            last = search(
                problem, first, deadline=deadline, report=found.append, parameters=parameters
            )
            found.append(last)
            names = PlanNames(asked, policy, prepared)
            for solution in found:
                self.note(by, solution, names)
        except Exception:  # whatever it is, it is a fault of the engine
            self.faults.append(f"{self.variant.name} by {by}: {traceback.format_exc()}")
        return self.answers[-1] if self.answers else None

    def note(self, by: str, solution: Solution, names: PlanNames) -> None:
        """Judges an answer."""
        plan = Plan(*names.plan(solution.assignments))
        broken, score = self.judge.judge(*plan)
        if score is None:
            self.faults.append(f"{self.variant.name} by {by} ({solution.phase}): {broken[0]}")
            return
        for tier in solution.tiers:
            if abs(tier.value - score.value(tier.name)) > SAME:
                told = f"{tier.name.value} is {score.value(tier.name):g}, not {tier.value:g}"
                self.faults.append(f"{self.variant.name} by {by} ({solution.phase}): {told}")
        self.answers.append(Answer(by, solution, plan, score))

    def confront(self, by: str, plan: Plan) -> bool:
        """Hold all answers against a plan, if it keeps the rules here; does it?"""
        here = _of_here(self.variant.snapshot, plan)
        score = self.judge.judge(*here).score
        if score is None:
            return False
        for answer in self.answers:
            tiers = answer.solution.tiers
            for what in refuted(self.variant.policy, tiers, answer.score, score):
                self.faults.append(f"{self.variant.name} by {answer}: {what}, as {by} shows")
        return True


def _of_here(asked: Snapshot, plan: Plan) -> Plan:
    """What a plan says of the pods of a question."""
    pods: set[str] = set()
    runs: set[str] = set()
    for gang in asked.gangs:
        for group in gang.groups:
            for s in group.pod_sets:
                pods.update(pod.name for pod in s.pods)
                runs.update(pod.name for pod in s.bound_pods)
    return Plan(
        tuple(b for b in plan.bindings if b.pod in pods),
        tuple(e for e in plan.evictions if e.pod in runs),
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a question; `faults` is empty where nothing was wrong.

    `gaps` of the tiers that are not proven, None where there is no bound. `worse` says by how much
    another plan was better in the first tier in which it was. `witnesses` are plans held against
    the claims of a question that allows them.
    """

    faults: tuple[str, ...]
    gaps: Mapping[str, float | None]
    worse: Mapping[str, float]
    witnesses: int

    @property
    def proven(self) -> bool:
        """Whether the answer to the question itself is."""
        return not self.gaps


def ask(rng: random.Random, drawn: Drawn, seconds: float, variants: int = 3) -> Verdict:
    """Asks a question in two ways, and some like it, each for so many seconds."""
    original = Asked(Variant("the question", drawn.snapshot, drawn.policy, {}))
    final = original.ask("all stages", seconds)
    every = [original]
    if final is None:
        return Verdict(tuple(original.faults), {"admitted": None}, {}, 0)
    way = rng.choice(list(WAYS))
    original.ask(way, seconds, WAYS[way])
    for change in rng.sample(list(CHANGES), variants):
        every.append(Asked(change(rng, drawn.snapshot, drawn.policy, final.plan)))
        every[-1].ask("all stages", seconds)
    witnesses = confront_all(every)
    return Verdict(
        tuple(dict.fromkeys(fault for one in every for fault in one.faults)),
        {t.name.value: t.gap for t in final.solution.tiers if t.name.provable and not t.proven},
        dict(loss for answer in original.answers for loss in _better(final, answer)),
        witnesses,
    )


def confront_all(every: list[Asked]) -> int:
    """Holds every claim against every plan; how often one was allowed."""
    witnesses = 0
    for by, plan in _plans(every):
        for one in every:
            words = {old: new for new, old in one.variant.back.items()}
            witnesses += one.confront(by, translated(plan, words))
    return witnesses


def _plans(every: list[Asked]) -> Iterator[tuple[str, Plan]]:
    """Each plan of all questions once, in the names of the first."""
    seen: list[Plan] = []
    for one in every:
        for answer in one.answers:
            plan = translated(answer.plan, one.variant.back)
            if plan not in seen:
                seen.append(plan)
                yield f"{one.variant.name} by {answer}", plan


def _better(final: Answer, other: Answer) -> Iterator[tuple[str, float]]:
    """By how much another answer is better in the first tier in which they differ."""
    for mine, theirs in zip(final.score.steps, other.score.steps, strict=True):
        if mine.value != theirs.value:
            if theirs.value > mine.value:
                yield mine.tier.value, theirs.value - mine.value
            return
