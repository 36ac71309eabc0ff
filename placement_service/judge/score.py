"""What a plan is worth: the tiers of the objective, recomputed from its bindings.

The tiers that a caller sees are computed here, from the raw snapshot, never taken from the engine.
It gives no bounds, which only the engine can prove, and does not say whether the plan is allowed:
`verify` does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placement_service.entities.eviction import Eviction, EvictionPolicy
from placement_service.entities.nodes import Bools
from placement_service.entities.queues import GPUS, in_millis
from placement_service.entities.request import (
    HOSTNAME,
    PODS,
    Binding,
    ExtrasPolicy,
    PodGang,
    Policy,
    Snapshot,
)
from placement_service.entities.solution import TierName
from placement_service.judge.gang_value import MILLIONTHS
from placement_service.judge.outcome import GangOutcome, Outcome
from placement_service.judge.question import GangScope, Question
from placement_service.judge.scopes import Scopes

#: One domain too many, in the thousandths that the topology tier counts in.
DOMAIN = 1000

#: One new pod away from the nodes that its gang used before, in thousandths.
AWAY = 1


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
    one for each priority of the request from the highest to the lowest, in thousandths of a
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


class Count(NamedTuple):
    """One number of a tier, of gangs of one priority or of all.

    What is not reported only decides which gangs come first.
    """

    value: int
    priority: int | None = None
    reported: bool = True


Counts = tuple[Count, ...]


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


def _by_priorities(outcome: Outcome) -> dict[int, list[GangOutcome]]:
    """The gangs of each priority, from high to low."""
    found: dict[int, list[GangOutcome]] = {p: [] for p in _priorities(outcome)}
    for gang in outcome.gangs:
        found[gang.gang.priority].append(gang)
    return found


def _priorities(outcome: Outcome) -> list[int]:
    """From high to low."""
    return sorted({gang.gang.priority for gang in outcome.gangs}, reverse=True)


def _admitted(outcome: Outcome, policy: Policy) -> Counts:
    values = outcome.question.values
    bands = _bands(outcome, policy)
    inside = _inside_guarantees(outcome, policy)
    counts = []
    for priority, mine in _by_priorities(outcome).items():
        met = [g.gang for g in mine if g.gang.is_pending and g.placed]
        # It ran, and had to go.
        lost = sum(values[g.gang.name] for g in mine if not g.gang.is_pending and not g.placed)
        made_whole = [g for g in met if any(group.running_count for group in g.groups)]
        first = [_sum(values, made_whole) - lost]
        for seconds in bands:
            first.append(_sum(values, [g for g in met if _waited(outcome, g) > seconds]))
        # With RECLAIM other gangs may have to go for it.
        reclaims = policy.eviction is EvictionPolicy.RECLAIM
        first = [inside[priority], *first] if reclaims else [*first, inside[priority]]
        counts += [Count(value, priority, reported=False) for value in first]
        counts.append(Count(_sum(values, met) - lost, priority))
    return tuple(counts)


def _sum(values: Mapping[str, int], gangs: Iterable[PodGang]) -> int:
    return sum(values[gang.name] for gang in gangs)


def _inside_guarantees(outcome: Outcome, policy: Policy) -> dict[int, int]:
    """Thousandths of guaranteed GPUs that queues use beyond what they use without the plan, by
    priority. It counts in the queue that a gang names, and of new pods only the minimums of this
    priority and above.
    """
    guaranteed = {q.name: in_millis(q.guaranteed).get(GPUS, 0) for q in outcome.snapshot.queues}
    used = {q.name: in_millis(q.used).get(GPUS, 0) for q in outcome.snapshot.queues}
    for gang in outcome.gangs:
        if gang.gang.queue in used:
            used[gang.gang.queue] += sum(
                len(s.bound_pods) * policy.milli_gpus(s.template)
                for group in gang.groups
                for s in group.group.pod_sets
            )
    found = {}
    total = 0
    for priority, gangs in _by_priorities(outcome).items():
        for gang in gangs:
            queue = gang.gang.queue
            if queue in used:
                before = used[queue]
                used[queue] += _minimums_added(gang, policy)
                most = guaranteed[queue]
                total += min(most, used[queue]) - min(most, before)
        found[priority] = total
    return found


def _minimums_added(gang: GangOutcome, policy: Policy) -> int:
    """Thousandths of GPUs in the minimum of a gang that is placed, less where it had to go."""
    pending = gang.gang.is_pending
    # It ran and had to go; its extras do not count.
    counts = int(gang.placed) if pending else -int(not gang.placed)
    if not counts:
        return 0
    added = 0
    for group in gang.groups:
        sets = [s for s in group.group.pod_sets if s.pods or not pending]
        pods = group.group.missing if pending else group.group.min_replicas
        added += pods * min((policy.milli_gpus(s.template) for s in sets), default=0)
    return counts * added


def _bands(outcome: Outcome, policy: Policy) -> list[int]:
    """Waiting times that some gang has exceeded: the starvation time, four times that, and so on.

    The longest first.
    """
    if policy.starvation_after is None:
        return []
    longest = max((_waited(outcome, gang.gang) for gang in outcome.gangs), default=0)
    bands = [policy.starvation_after]
    while bands[-1] < longest:
        bands.append(max(1, bands[-1] * 4))
    return bands[::-1]


def _waited(outcome: Outcome, gang: PodGang) -> int:
    """Seconds from the gang's creation to the time of the snapshot."""
    now = outcome.snapshot.as_of
    if now is None or gang.created is None:
        return 0
    return max(0, now - gang.created)


def _waiting(outcome: Outcome, policy: Policy) -> Counts:
    totals = dict.fromkeys(_priorities(outcome), 0)
    for gang in outcome.gangs:
        if gang.gang.is_pending and gang.placed:
            totals[gang.gang.priority] += max(1, _waited(outcome, gang.gang) // 60)
    return _by_priority(totals, policy)


def _extra(outcome: Outcome, policy: Policy) -> Counts:
    totals = dict.fromkeys(_priorities(outcome), 0)
    for gang in outcome.gangs:
        totals[gang.gang.priority] += sum(g.extra for g in gang.groups)
    return _by_priority(totals, policy)


def _by_priority(totals: Mapping[int, int], policy: Policy) -> Counts:
    """The sum of all, or one count for each priority where extras go with their priority."""
    if policy.extras is ExtrasPolicy.WITH_PRIORITY:
        return tuple(Count(total, priority) for priority, total in totals.items())
    return (Count(sum(totals.values())),)


def _disruption(outcome: Outcome, policy: Policy) -> Counts:
    """Running pods that have to go, or that run elsewhere."""
    return (Count(len(outcome.evicted)),)


def _topology(outcome: Outcome, policy: Policy) -> Counts:
    question, scopes = outcome.question, outcome.scopes
    # A moved pod costs nothing where it goes: it ran before.
    counts = np.array([gang.placed and gang.has_bound for gang in outcome.gangs], dtype=bool)
    total = 0
    for level, mine in _scopes_by_level(question.scopes, required=False).items():
        those = np.zeros(len(question.scopes), dtype=bool)
        those[[s for s in mine if counts[question.scopes[s].gang]]] = True
        used = scopes.uses(level, those).counts(len(those))
        total += int(np.maximum(used - 1, 0).sum()) * DOMAIN
    total += _away(outcome, counts) * AWAY
    return (Count(total + sum(_set_splits(outcome, scopes)) * DOMAIN),)


def _scopes_by_level(scopes: Sequence[GangScope], *, required: bool) -> dict[str, list[int]]:
    """Scopes that have a level, by that level."""
    found: dict[str, list[int]] = {}
    for s, (_, scope) in enumerate(scopes):
        level = scope.required_level if required else scope.preferred_level
        if level:
            found.setdefault(level, []).append(s)
    return found


def _away(outcome: Outcome, counts: Bools) -> int:
    """New pods of some gangs that are on none of the nodes that their gang used before.

    Only where some of those nodes still exist.
    """
    question, total = outcome.question, 0
    rows = question.nodes.row_of
    gang_of_new = question.gang_of_group[question.group_of_set[outcome.set_of_new]]
    for g, gang in enumerate(outcome.snapshot.gangs):
        previous = [rows[n] for n in gang.previous_nodes if n in rows] if counts[g] else []
        if previous:
            mine = outcome.node_of_new[(gang_of_new == g) & (outcome.binding_of_new >= 0)]
            total += int(np.count_nonzero(~np.isin(mine, previous)))
    return total


def _set_splits(outcome: Outcome, scopes: Scopes) -> Iterator[int]:
    """For each base with placed scaled gangs: how many domains too many the whole set uses."""
    bases = {gang.gang.name: g for g, gang in enumerate(outcome.gangs)}
    scaled: defaultdict[int, list[int]] = defaultdict(list)
    for g, gang in enumerate(outcome.gangs):
        if gang.gang.base_gang in bases and gang.placed:
            scaled[bases[gang.gang.base_gang]].append(g)
    for base, followers in scaled.items():
        level = set_level(outcome.gangs[base].gang)
        members = [base, *followers] if outcome.gangs[base].placed else followers
        if level and any(outcome.gangs[g].has_bound for g in members):
            groups = np.flatnonzero(np.isin(outcome.question.gang_of_group, members))
            nodes = scopes.nodes_of_groups(groups)
            yield max(0, scopes.count_domains(nodes, level) - 1)


def set_level(base: PodGang) -> str:
    """The level at which a base gang and the gangs based on it belong together.

    It is the required level, else the preferred level, of the first packing
    scope that covers the whole base and has one; empty when none does.
    """
    everything = {group.name for group in base.groups}
    whole = [scope for scope in base.packing_scopes if everything <= set(scope.groups)]
    levels = (*(s.required_level for s in whole), *(s.preferred_level for s in whole))
    return next((level for level in levels if level), "")


def _gang_scores(outcome: Outcome) -> Iterator[GangScore]:
    question, scopes = outcome.question, outcome.scopes
    uses: list[list[ScopeUse]] = [[] for _ in outcome.gangs]
    found: dict[tuple[int, bool], ScopeUse] = {}
    for required in (True, False):
        for level, mine in _scopes_by_level(question.scopes, required=required).items():
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


def _fragmentation(outcome: Outcome, policy: Policy) -> Counts:
    """Nodes with GPUs in wholly free domains that a new pod breaks into.

    Plus the new pods without GPUs on nodes with GPUs, but not those that only get other devices
    of their node. In a cluster without any GPU all nodes and pods count as if they had some.
    """
    nodes = outcome.snapshot.columns
    has_gpus = nodes.allocatable.where(lambda resources: policy.gpus(resources) > 0)
    gpu_cluster = bool(has_gpus.any())
    if gpu_cluster:
        used = nodes.total_requested(r for r in nodes.requested if policy.gpus({r: 1}))
    else:
        used = nodes.total_requested((PODS,))
        has_gpus = ~has_gpus

    question = outcome.question
    asking = np.array(
        [not gpu_cluster or policy.gpus(t.requests) > 0 for t in question.templates], dtype=bool
    )
    asks = asking[question.template_of_set[outcome.set_of_new]]
    broken = np.zeros(len(nodes), dtype=bool)
    broken[outcome.node_of_new[asks]] = True
    misplaced = ~asks & ~outcome.stays_on_node
    total = int(np.count_nonzero(has_gpus[outcome.node_of_new[misplaced]]))
    for level in _levels(outcome.snapshot) if broken.any() else ():
        if level == HOSTNAME:
            # A node is its own domain.
            total += int(np.count_nonzero(broken & has_gpus & (used == 0)))
            continue
        domain, values = question.domains.of(level)
        known = domain >= 0
        size = np.bincount(domain[known & has_gpus], minlength=len(values))
        taken = np.bincount(domain[known & has_gpus & (used != 0)], minlength=len(values)) > 0
        lost = np.bincount(domain[known & broken], minlength=len(values)) > 0
        total += int(size[lost & ~taken].sum())
    return (Count(total),)


def _levels(snapshot: Snapshot) -> list[str]:
    """Every level that a scope of the request names, and always the node itself."""
    levels = {HOSTNAME}
    for gang in snapshot.gangs:
        for scope in gang.packing_scopes:
            levels.update(level for level in (scope.required_level, scope.preferred_level) if level)
    return sorted(levels)


class _Tier(NamedTuple):
    """What a tier counts, and how many of its units make one reported unit."""

    measure: Callable[[Outcome, Policy], Counts]
    unit: int = 1


TIERS: Mapping[TierName, _Tier] = {
    TierName.ADMITTED: _Tier(_admitted, MILLIONTHS),
    TierName.WAITING: _Tier(_waiting),
    TierName.EXTRA: _Tier(_extra),
    TierName.DISRUPTION: _Tier(_disruption),
    TierName.TOPOLOGY: _Tier(_topology, DOMAIN),
    TierName.FRAGMENTATION: _Tier(_fragmentation),
}
