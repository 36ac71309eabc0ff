"""The best of all plans, gang by gang."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from placement_service.entities.eviction import Eviction, EvictionKind, EvictionPolicy
from placement_service.entities.naming.reservation_users import use_reservations
from placement_service.entities.queues import GPUS
from placement_service.entities.request import Binding, Policy, Snapshot
from placement_service.entities.solution import TierName
from placement_service.judge.plan import Plan
from placement_service.judge.score import TIERS, Score
from placement_service.judge.verify import RULES
from tests.brute.options import Asked, Option, TooLarge, Vector, gang_options, gang_plans, rank

#: By the place of a step, what is enough of it: later ones may spend the rest.
Floors = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Peak:
    """The best of a tier of which later ones may spend some, as if they did not.

    `rank` is that of a plan that has it, with no more of any step than is enough by `floors`,
    those of the tiers before.
    """

    counts: tuple[int, ...]
    rank: Vector
    floors: Floors


@dataclass(frozen=True, slots=True)
class Optimum:
    """The counts of the best plan, as in `Score`, and a plan that reaches them.

    `peaks` are those of the tiers of which the policy lets later ones spend some, and `floors`
    what is enough of these.
    """

    counts: Mapping[TierName, tuple[int, ...]]
    rank: Vector
    plan: tuple[Binding, ...]
    evictions: tuple[Eviction, ...] = ()
    peaks: Mapping[TierName, Peak] = field(default_factory=dict)
    floors: Floors = field(default_factory=dict)

    def value(self, tier: TierName) -> float:
        """The optimal value of a tier that is optimised, as it is reported."""
        if not tier.provable:
            raise ValueError(f"{tier.value} is not optimised here")
        return sum(self.counts[tier]) / TIERS[tier].unit


def optimum(snapshot: Snapshot, policy: Policy, *, max_steps: int = 20_000) -> Optimum:
    """The lexicographic optimum of all tiers that a bound is claimed for.

    Raises TooLarge when a gang alone, or the search, takes more than `max_steps`.
    """
    search = _Search(snapshot, policy, max_steps)
    peaks: dict[TierName, Peak] = {}
    floors: Floors = {}
    for tier in (t for t in TierName if policy.tolerance(t.value) > 0):
        peak = search.run(floors)
        peaks[tier] = Peak(peak.counts[tier], clamped(rank(peak), floors), floors)
        floors = dict(floors) | {
            i: step.value - int(policy.tolerance(tier.value) * abs(step.value))
            for i, step in enumerate(peak.steps)
            if step.tier is tier and step.reported
        }
    best = search.run(floors)
    enough = clamped(rank(best), floors)
    return Optimum(best.counts, enough, search.plan, search.evictions, peaks, floors)


def clamped(vector: Vector, floors: Floors) -> Vector:
    """The vector with no more of any step than is enough."""
    return tuple(min(v, floors[i]) if i in floors else v for i, v in enumerate(vector))


def fewest_domains(
    snapshot: Snapshot, policy: Policy, gang: int, *, max_steps: int = 20_000
) -> int | None:
    """The fewest domains, summed over preferred scopes, of one gang on its own.

    None when it cannot be placed alone or has no preferred scope.
    """
    alone = replace(snapshot.gangs[gang], base_gang="")
    asked = Asked(replace(snapshot, gangs=(alone,)), policy)
    rules, counts = _Rules(asked), []
    for plan in gang_plans(asked.snapshot, alone, max_steps):
        result = asked.score(plan, ()).gangs[0]
        if not result.placed or result.preferred_domains is None:
            continue
        given = asked.devices.give(use_reservations(asked.snapshot, plan))
        if given is not None and rules.are_kept(given.bindings):
            counts.append(result.preferred_domains)
    return min(counts, default=None)


class _Search:
    """Gang by gang, every option of each, the most promising first."""

    def __init__(self, snapshot: Snapshot, policy: Policy, max_steps: int) -> None:
        self._asked = Asked(snapshot, policy)
        self._rules = _Rules(self._asked)
        self._steps_left = max_steps
        self._nothing = self._asked.score((), ())
        # The share of a gang is what it adds to nothing.
        assert not any(rank(self._nothing))
        self._sums_up = _sums_up(snapshot)
        # What matters first is settled first.
        order = sorted(
            range(len(snapshot.gangs)), key=lambda g: snapshot.gangs[g].priority, reverse=True
        )
        self._options = [gang_options(self._asked, g, max_steps) for g in order]
        hopes = [[self._hope_of(option) for option in options] for options in self._options]
        self._hopes = hopes
        # What the gangs from here on could give back at most, and who of them may go.
        self._back: list[dict[tuple[str, str], int]] = [{}]
        self._may_go: list[tuple[Eviction, ...]] = [()]
        # What the gangs from here on could add at the very best, tier by tier.
        self._hope = [rank(self._nothing)]
        for g, options, worths in zip(order[::-1], self._options[::-1], hopes[::-1], strict=True):
            back = dict(self._back[0])
            for key in {key for option in options for key, _ in option.demand}:
                least = min(dict(option.demand).get(key, 0) for option in options)
                back[key] = back.get(key, 0) - min(0, least)
            self._back.insert(0, back)
            self._may_go.insert(0, self._may_go[0] + self._asked.may_go[g])
            self._hope.insert(0, _add(_best_conceivable(worths), self._hope[0]))
        self.plan: tuple[Binding, ...] = ()
        self.evictions: tuple[Eviction, ...] = ()
        self.best = rank(self._nothing)
        self._floors: Floors = {}

    def run(self, floors: Floors) -> Score:
        """The best plan, where later steps may spend what is above the floors."""
        self.plan, self.evictions, self._floors = (), (), dict(floors)
        self.best = self._enough(rank(self._nothing))
        self._descend(0, (), (), {}, rank(self._nothing))
        return self._asked.score(self.plan, self.evictions)

    def _enough(self, vector: Vector) -> Vector:
        return clamped(vector, self._floors) + vector if self._floors else vector

    def _hope_of(self, option: Option) -> Vector:
        """What the option adds to any plan at the very best."""
        if self._sums_up.guarantees:
            return option.worth
        # What goes may have lain outside what is guaranteed once others have come.
        steps = self._nothing.steps
        return tuple(
            value if step.reported else max(0, value)
            for value, step in zip(option.worth, steps, strict=False)
        )

    def _descend(
        self,
        depth: int,
        plan: tuple[Binding, ...],
        evictions: tuple[Eviction, ...],
        used: dict[tuple[str, str], int],
        worth: Vector,
    ) -> None:
        """Try all options of the gangs from `depth` on after the partial plan."""
        self._steps_left -= 1
        if self._steps_left < 0:
            raise TooLarge
        if depth == len(self._options):
            self._take_if_better(plan, evictions, worth)
            return
        hope, back, may_go = self._hope[depth + 1], self._back[depth + 1], self._may_go[depth + 1]
        for option, own in zip(self._options[depth], self._hopes[depth], strict=True):
            here = _add(worth, own)
            if self._enough(_add(here, hope)) <= self.best:
                continue
            after = dict(used)
            for key, amount in option.demand:
                after[key] = after.get(key, 0) + amount
            if any(
                after[key] > self._asked.free[key] + back.get(key, 0)
                for key, amount in option.demand
                if amount > 0
            ):
                continue
            whole, gone = plan + option.plan, evictions + option.evictions
            if depth and not self._has_devices(option, whole, gone, may_go):
                continue
            self._descend(depth + 1, whole, gone, after, here)

    def _has_devices(
        self,
        option: Option,
        plan: tuple[Binding, ...],
        gone: tuple[Eviction, ...],
        may_go: tuple[Eviction, ...],
    ) -> bool:
        touched = {b.node for b in option.plan} | {e.to_node for e in option.evictions}
        devices = self._asked.devices
        return all(devices.could_serve(node, plan, gone, may_go) for node in touched)

    def _take_if_better(
        self, plan: tuple[Binding, ...], evictions: tuple[Eviction, ...], worth: Vector
    ) -> None:
        asked = self._asked
        exact = (
            worth
            if self._sums_up.sets and self._sums_up.guarantees
            else rank(asked.score(plan, evictions))
        )
        found = self._enough(exact)
        if found <= self.best:
            return
        for named in _with_winners(asked, plan, evictions):
            # Who uses a reservation depends on who may use the room of victims.
            given = asked.devices.give(use_reservations(asked.snapshot, plan, named), named)
            if given is not None and self._rules.are_kept(given.bindings, given.evictions):
                self.best, self.plan, self.evictions = found, given.bindings, given.evictions
                return


@dataclass(frozen=True, slots=True)
class _SumsUp:
    """Whether a plan is worth what its gangs are worth alone, as far as each goes."""

    sets: bool
    guarantees: bool


def _sums_up(snapshot: Snapshot) -> _SumsUp:
    return _SumsUp(
        sets=not any(gang.base_gang for gang in snapshot.gangs),
        guarantees=not any(queue.guaranteed.get(GPUS) for queue in snapshot.queues),
    )


class _Rules:
    """All rules, those first that refused a plan last: what breaks one breaks many like it."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._rules = [*RULES]

    def are_kept(self, bindings: tuple[Binding, ...], evictions: tuple[Eviction, ...] = ()) -> bool:
        outcome = self._asked.outcome(bindings, evictions)
        plan = Plan(self._asked.policy, bindings, evictions, outcome)
        for number, rule in enumerate(self._rules):
            if any(rule(plan)):
                self._rules.insert(0, self._rules.pop(number))
                return False
        return True


def _with_winners(
    asked: Asked, plan: tuple[Binding, ...], evictions: tuple[Eviction, ...]
) -> Iterator[tuple[Eviction, ...]]:
    """Every way to say for whom the pods of each gang go, and as what."""
    victims = list(dict.fromkeys(e.gang for e in evictions if e.kind is not EvictionKind.MOVE))
    gangs = {gang.name: gang for gang in asked.snapshot.gangs}
    winners = list(dict.fromkeys(b.gang for b in plan))
    able = [name for name in winners if not gangs[name].never_preempts]
    ways: list[tuple[EvictionKind, str]] = []
    if able:
        # Whom the first of them may not preempt, none of them may.
        first = max(able, key=lambda name: gangs[name].priority)
        ways.append((EvictionKind.PREEMPT, first))
    if asked.policy.eviction is EvictionPolicy.RECLAIM:
        ways += [(EvictionKind.RECLAIM, name) for name in winners]
    for choice in product(ways, repeat=len(victims)):
        said = dict(zip(victims, choice, strict=True))
        yield tuple(
            replace(e, kind=said[e.gang][0], for_gang=said[e.gang][1]) if e.gang in said else e
            for e in evictions
        )


def _add(one: Vector, other: Vector) -> Vector:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _best_conceivable(worths: Sequence[Vector]) -> Vector:
    """The best of each count, whether or not one option has them all."""
    return tuple(max(counts) for counts in zip(*worths, strict=True))
