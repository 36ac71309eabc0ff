"""What a plan is worth: the tiers of the objective, recomputed from its bindings.

The tiers that a caller sees are computed here, from the raw snapshot, never taken from the engine.
It gives no bounds, which only the engine can prove, and does not say whether the plan is allowed:
`verify` does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placement_service.entities.eviction import Eviction
from placement_service.entities.request import (
    Binding,
    ExtrasPolicy,
    Policy,
    Snapshot,
)
from placement_service.entities.solution import TierName
from placement_service.judge.gang_value import MILLIONTHS
from placement_service.judge.outcome import Outcome
from placement_service.judge.question import Question
from placement_service.judge.scopes import scopes_by_level
from placement_service.judge.tiers import (
    admitted,
    disruption,
    extra,
    fragmentation,
    topology,
    waiting,
)
from placement_service.judge.tiers.count import Counts


@dataclass(frozen=True, slots=True)
class ScopeUse:
    """The domains that one packing scope uses at one level.

    `domains` are sorted label values, with "" for nodes without the label. In
    `count` each such node is a domain of its own.
    """

    name: str
    level: str
    required: bool
    domains: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class GangScore:
    """One gang after the plan; `new` counts the pods that the plan binds."""

    gang: str
    placed: bool
    new: int
    scopes: tuple[ScopeUse, ...]

    @property
    def preferred_domains(self) -> int | None:
        """Domains used, summed over preferred scopes; None without any such scope."""
        counts = [use.count for use in self.scopes if not use.required]
        return sum(counts) if counts else None


class Step(NamedTuple):
    """A count with the sign that makes larger better, and whether its tier reports it."""

    tier: TierName
    value: int
    reported: bool


@dataclass(frozen=True, slots=True)
class Score:
    """What each tier counts, in exact integers, and the facts of every gang.

    `counts` of a tier are one number or several, the most important first: `admitted` has
    one for each priority of the request from the highest to the lowest, in millionths of a
    GPU; `topology` is in thousandths of a domain. `steps` are all that is compared, in order.
    `gangs` are in the snapshot's order.
    """

    counts: Mapping[TierName, tuple[int, ...]]
    steps: tuple[Step, ...]
    gangs: tuple[GangScore, ...]

    @property
    def rank(self) -> tuple[int, ...]:
        """Larger is better."""
        return tuple(step.value for step in self.steps)

    def value(self, tier: TierName) -> float:
        """The value of a tier as it is reported."""
        return sum(self.counts[tier]) / TIERS[tier].unit


def score(
    snapshot: Snapshot,
    policy: Policy,
    bindings: Sequence[Binding],
    evictions: Sequence[Eviction] = (),
) -> Score:
    """The score of a plan that keeps the rules."""
    return score_of(Outcome(Question(snapshot, policy), bindings, evictions))


def score_of(outcome: Outcome) -> Score:
    """As `score`, of a plan that has been read."""
    policy = outcome.question.policy
    found = {tier: TIERS[tier].measure(outcome, policy) for tier in TierName}
    return Score(
        {tier: tuple(c.value for c in counts if c.reported) for tier, counts in found.items()},
        _steps(found, policy),
        tuple(_gang_scores(outcome)),
    )


def _steps(found: Mapping[TierName, Counts], policy: Policy) -> tuple[Step, ...]:
    steps = [
        (c.priority, Step(tier, -c.value if tier.minimize else c.value, c.reported))
        for tier in TierName
        for c in found[tier]
    ]
    if policy.extras is ExtrasPolicy.WITH_PRIORITY:
        of_priorities = [step for step in steps if step[0] is not None]
        of_priorities.sort(key=lambda step: step[0] or 0, reverse=True)
        steps = of_priorities + [step for step in steps if step[0] is None]
    return tuple(step for _, step in steps)


def _gang_scores(outcome: Outcome) -> Iterator[GangScore]:
    question, scopes = outcome.question, outcome.scopes
    uses: list[list[ScopeUse]] = [[] for _ in outcome.gangs]
    found: dict[tuple[int, bool], ScopeUse] = {}
    for required in (True, False):
        for level, mine in scopes_by_level(question.scopes, required=required).items():
            those = np.zeros(len(question.scopes), dtype=bool)
            those[mine] = True
            scope_of, domain_of, values = scopes.uses(level, those)
            names: defaultdict[int, set[str]] = defaultdict(set)
            for s, d in zip(scope_of.tolist(), domain_of.tolist(), strict=True):
                names[s].add(values[d] if d < len(values) else "")
            counts = np.bincount(scope_of, minlength=len(those)).tolist()
            for s in mine:
                name = question.scopes[s].scope.name
                domains = tuple(sorted(names.get(s, ())))
                found[s, required] = ScopeUse(name, level, required, domains, counts[s])
    for s, (g, _) in enumerate(question.scopes):
        uses[g] += [found[s, required] for required in (True, False) if (s, required) in found]
    for gang, own in zip(outcome.gangs, uses, strict=True):
        yield GangScore(gang.gang.name, gang.placed, gang.new, tuple(own))


class _Tier(NamedTuple):
    """What a tier counts, and how many of its units make one reported unit."""

    measure: Callable[[Outcome, Policy], Counts]
    unit: int = 1


TIERS: Mapping[TierName, _Tier] = {
    TierName.ADMITTED: _Tier(admitted.count, MILLIONTHS),
    TierName.WAITING: _Tier(waiting.count),
    TierName.EXTRA: _Tier(extra.count),
    TierName.DISRUPTION: _Tier(disruption.count),
    TierName.TOPOLOGY: _Tier(topology.count, topology.DOMAIN),
    TierName.FRAGMENTATION: _Tier(fragmentation.count),
}
