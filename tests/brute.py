"""The optimum of tiny instances, by trying every plan.

The oracle that the engine's proofs are held against. It shares nothing with the
engine: `verify` says which complete plans are allowed and `score` what they are
worth. Plans are left out before that for plain reasons only: a gang below its
minimum, a node that the snapshot or the template closes to a pod, a resource
that is used up even if all who may go do, devices that no node has together, a gang that is
left with a part of its minimum, and partial plans that could not beat the best plan
found so far even if every gang that is left got its best at no cost to the others.

Good for about four nodes and six pending pods; the effort is that of all ways
to spread the pods over the nodes. The fragmentation tier is not optimised: the
service claims no bound for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product

from placement_service.entities.eviction import Eviction, EvictionKind, EvictionPolicy
from placement_service.entities.request import (
    Binding,
    BoundPod,
    Node,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.entities.reservation_users import use_reservations
from placement_service.entities.solution import Solution, TierName
from placement_service.judge.score import TIERS, Score, score
from placement_service.judge.verify import verify
from tests.giving import give_devices

#: Two values of a tier that are this close are equal.
EPSILON = 1e-6

#: How many pods of one set go to each node, in the snapshot's order.
Counts = tuple[int, ...]

#: The counts of all tiers that are optimised, one after another; larger is better throughout.
Vector = tuple[int, ...]


class TooLarge(Exception):
    """The instance has more plans than the caller wants to wait for."""


#: By the place of a step, what is enough of it: later ones may spend the rest.
Floors = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Optimum:
    """The counts of the best plan, as in `Score`, and a plan that reaches them.

    `peaks` are the best counts of the tiers of which the policy lets later ones spend some,
    and `floors` what is enough of these.
    """

    counts: Mapping[TierName, tuple[int, ...]]
    rank: Vector
    plan: tuple[Binding, ...]
    evictions: tuple[Eviction, ...] = ()
    peaks: Mapping[TierName, tuple[int, ...]] = field(default_factory=dict)
    floors: Floors = field(default_factory=dict)

    def value(self, tier: TierName) -> float:
        """The optimal value of a tier that is optimised, as it is reported."""
        if not tier.provable:
            raise ValueError(f"{tier.value} is not optimised here")
        return sum(self.counts[tier]) / TIERS[tier].unit


def rank(result: Score) -> Vector:
    """What is optimised, as a vector in which larger is better throughout."""
    return result.rank[:-1]


def optimum(snapshot: Snapshot, policy: Policy, *, max_steps: int = 20_000) -> Optimum:
    """The lexicographic optimum of all tiers that a bound is claimed for.

    Raises TooLarge when a gang alone, or the search, takes more than `max_steps`.
    """
    search = _Search(snapshot, policy, max_steps)
    peaks: dict[TierName, tuple[int, ...]] = {}
    floors: dict[int, int] = {}
    for tier in (t for t in TierName if policy.tolerance(t.value) > 0):
        peak = search.run(floors)
        peaks[tier] = peak.counts[tier]
        floors |= {
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


def no_bound_cuts_off(best: Optimum, solution: Solution, reached: Score) -> None:
    """Every bound leaves room for the optimum, and every proof has met it.

    A bound of a later tier speaks of plans that are as good in the tiers before,
    so it is judged only where those have reached the optimum.
    """
    mine = clamped(rank(reached), best.floors)
    steps = zip(reached.steps, mine, best.rank, strict=False)
    #: The tier that is the first to miss the optimum. Where extras come with their priority a
    #: tier that they stand in the midst of may have more of its own than the optimum.
    first_missed = next((step.tier for step, a, b in steps if a != b), None)
    # Also in what only decides who comes first.
    assert best.peaks or not solution.proven or mine == best.rank
    for tier in solution.tiers:
        if not tier.name.provable:
            continue
        have, want = reached.counts[tier.name], best.counts[tier.name]
        optimal = best.value(tier.name)
        if tier.name in best.peaks:
            # The bound, and the tiers after it, do not depend on what may be spent.
            peak = best.peaks[tier.name]
            optimal = sum(peak) / TIERS[tier.name].unit
            if tier.proven:
                assert have == peak, tier
            if first_missed is tier.name:
                return
            have = want
        if tier.bound is not None:
            if tier.name.minimize:
                assert tier.bound <= optimal + EPSILON, tier
            else:
                assert tier.bound >= optimal - EPSILON, tier
        if tier.proven and first_missed in (None, tier.name):
            assert have == want, tier
        if have != want:
            break


def fewest_domains(
    snapshot: Snapshot, policy: Policy, gang: int, *, max_steps: int = 20_000
) -> int | None:
    """The fewest domains, summed over preferred scopes, of one gang on its own.

    None when it cannot be placed alone or has no preferred scope.
    """
    alone = replace(snapshot.gangs[gang], base_gang="")
    only_it = replace(snapshot, gangs=(alone,))
    counts = []
    for plan in _plans(only_it, alone, max_steps):
        result = score(only_it, policy, plan).gangs[0]
        if not result.placed or result.preferred_domains is None:
            continue
        given = give_devices(only_it, policy, use_reservations(only_it, plan))
        if given is not None and not verify(only_it, policy, *given):
            counts.append(result.preferred_domains)
    return min(counts, default=None)


@dataclass(frozen=True, slots=True)
class _Option:
    """One way to place one gang, what it takes, and its own share of the tiers.

    `demand` is negative where pods of the gang go. Their evictions name no winner yet.
    """

    plan: tuple[Binding, ...]
    evictions: tuple[Eviction, ...]
    demand: tuple[tuple[str, str, int], ...]
    worth: Vector


class _Search:
    """Gang by gang, every option of each, the most promising first."""

    def __init__(self, snapshot: Snapshot, policy: Policy, max_steps: int) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._steps_left = max_steps
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._options = [_gang_options(snapshot, policy, g, max_steps) for g in snapshot.gangs]
        # What the gangs from here on could give back at most.
        self._back: list[dict[tuple[str, str], int]] = [{}]
        for options in reversed(self._options):
            back = dict(self._back[0])
            for key in {(n, r) for o in options for n, r, _ in o.demand}:
                least = min(
                    sum(a for n, r, a in option.demand if (n, r) == key) for option in options
                )
                back[key] = back.get(key, 0) - min(0, least)
            self._back.insert(0, back)
        self.plan: tuple[Binding, ...] = ()
        self.evictions: tuple[Eviction, ...] = ()
        self._nothing = score(snapshot, policy, ())
        self.best = rank(self._nothing)
        self._floors: Floors = {}
        # What the gangs from here on could add at the very best, tier by tier.
        self._hope = [self.best]
        for options in reversed(self._options):
            best = _best_conceivable([option.worth for option in options])
            self._hope.insert(0, _add(best, self._hope[0]))

    def run(self, floors: Floors) -> Score:
        """The best plan, where later steps may spend what is above the floors."""
        self.plan, self.evictions, self._floors = (), (), dict(floors)
        self.best = self._enough(rank(self._nothing))
        self.descend(0, (), (), {}, rank(self._nothing))
        return score(self._snapshot, self._policy, self.plan, self.evictions)

    def _enough(self, vector: Vector) -> Vector:
        return clamped(vector, self._floors) + vector if self._floors else vector

    def descend(
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
            found = self._enough(rank(score(self._snapshot, self._policy, plan, evictions)))
            if found > self.best:
                given = give_devices(
                    self._snapshot, self._policy, use_reservations(self._snapshot, plan), evictions
                )
                if given is None:
                    return
                bound, gone = given
                for named in _with_winners(self._snapshot, self._policy, plan, gone):
                    if not verify(self._snapshot, self._policy, bound, named):
                        self.best, self.plan, self.evictions = found, bound, named
                        break
            return
        for option in self._options[depth]:
            here = _add(worth, option.worth)
            if self._enough(_add(here, self._hope[depth + 1])) <= self.best:
                continue
            after = dict(used)
            for node, resource, amount in option.demand:
                after[node, resource] = after.get((node, resource), 0) + amount
            back = self._back[depth + 1]
            if all(
                after[n, r] <= self._nodes[n].free(r) + back.get((n, r), 0)
                for n, r, amount in option.demand
                if amount > 0
            ):
                gone = evictions + option.evictions
                self.descend(depth + 1, plan + option.plan, gone, after, here)


def _gang_options(
    snapshot: Snapshot, policy: Policy, gang: PodGang, max_steps: int
) -> list[_Option]:
    requests = {
        name: pod_set.template.requests
        for _, pod_set in _sets(gang)
        for name in (*(p.name for p in pod_set.pods), *(p.name for p in pod_set.bound_pods))
    }
    # The topology of a set of gangs is nobody's own share; leaving it out only adds hope.
    without_sets = replace(snapshot, gangs=tuple(replace(g, base_gang="") for g in snapshot.gangs))
    options = []
    freed = _may_be_freed(snapshot, policy)
    departures = list(islice(_departures(snapshot, policy, gang), max_steps + 1))
    for step, (plan, gone) in enumerate(
        product(_plans(snapshot, gang, max_steps, freed), departures)
    ):
        if step >= max_steps:
            raise TooLarge
        demand: dict[tuple[str, str], int] = {}
        places: list[tuple[str, str, int]] = [(b.pod, b.node, 1) for b in plan]
        places += [(e.pod, e.node, -1) for e in gone]
        places += [(e.pod, e.to_node, 1) for e in gone if e.to_node]
        for pod, node, sign in places:
            for resource, amount in requests[pod].items():
                demand[node, resource] = demand.get((node, resource), 0) + sign * amount
        taken = tuple((node, resource, n) for (node, resource), n in demand.items() if n)
        worth = rank(score(without_sets, policy, plan, gone))
        options.append(_Option(plan, gone, taken, worth))
    return sorted(options, key=lambda option: option.worth, reverse=True)


#: What running pods may leave at most, by node and resource.
Freed = Mapping[tuple[str, str], int]


def _may_be_freed(snapshot: Snapshot, policy: Policy) -> Freed:
    freed: dict[tuple[str, str], int] = {}
    if policy.eviction is not EvictionPolicy.NONE:
        for gang in snapshot.gangs:
            for _, pod_set in _sets(gang):
                for pod in pod_set.bound_pods:
                    for resource, amount in pod_set.template.requests.items():
                        key = pod.node, resource
                        freed[key] = freed.get(key, 0) + amount
    return freed


def _departures(
    snapshot: Snapshot, policy: Policy, gang: PodGang
) -> Iterator[tuple[Eviction, ...]]:
    """Every way to take pods of a gang away, as far as it leaves none of its minimum short."""
    if policy.eviction is EvictionPolicy.NONE or gang.not_preemptible:
        yield ()
        return
    moves = policy.eviction is EvictionPolicy.REPACK
    told = [pod for _, pod_set in _sets(gang) for pod in pod_set.bound_pods]
    nodes = [node.name for node in snapshot.nodes]
    ways: list[list[Eviction | None]] = [
        [None, *(_leaves(gang, pod, to) for to in (nodes if moves else [""]))] for pod in told
    ]
    for choice in product(*ways):
        gone = tuple(eviction for eviction in choice if eviction is not None)
        names = {eviction.pod for eviction in gone}
        left = [sum(p.name not in names for p in g.running_pods) for g in gang.groups]
        short = any(n < g.min_replicas for n, g in zip(left, gang.groups, strict=True))
        if not gone or not any(left) or not short:
            yield gone


def _leaves(gang: PodGang, pod: BoundPod, to: str) -> Eviction:
    kind = EvictionKind.MOVE if to else EvictionKind.PREEMPT
    return Eviction(pod.name, gang.name, pod.node, kind, to_node=to)


def _with_winners(
    snapshot: Snapshot,
    policy: Policy,
    plan: tuple[Binding, ...],
    evictions: tuple[Eviction, ...],
) -> Iterator[tuple[Eviction, ...]]:
    """Every way to say for whom the pods of each gang go, and as what."""
    victims = list(dict.fromkeys(e.gang for e in evictions if e.kind is not EvictionKind.MOVE))
    gangs = {gang.name: gang for gang in snapshot.gangs}
    winners = list(dict.fromkeys(b.gang for b in plan))
    able = [name for name in winners if not gangs[name].never_preempts]
    ways: list[tuple[EvictionKind, str]] = []
    if able:
        # Whom the first of them may not preempt, none of them may.
        first = max(able, key=lambda name: gangs[name].priority)
        ways.append((EvictionKind.PREEMPT, first))
    if policy.eviction is EvictionPolicy.RECLAIM:
        ways += [(EvictionKind.RECLAIM, name) for name in winners]
    for choice in product(ways, repeat=len(victims)):
        said = dict(zip(victims, choice, strict=True))
        yield tuple(
            replace(e, kind=said[e.gang][0], for_gang=said[e.gang][1]) if e.gang in said else e
            for e in evictions
        )


def _plans(
    snapshot: Snapshot, gang: PodGang, max_steps: int, freed: Freed | None = None
) -> Iterator[tuple[Binding, ...]]:
    """Every way to place none of a gang, or at least its minimum; pods of a set are alike."""
    yield ()
    if gang.uninitialized or gang.unsupported:
        return
    sets = _sets(gang)
    ways = [
        list(
            islice(
                _ways(
                    [_room(node, s.template, freed or {}) for node in snapshot.nodes], len(s.pods)
                ),
                max_steps,
            )
        )
        for _, s in sets
    ]
    for step, choice in enumerate(product(*ways)):
        if step >= max_steps or any(len(w) == max_steps for w in ways):
            raise TooLarge
        new = {group.name: 0 for group in gang.groups}
        for (group, _), counts in zip(sets, choice, strict=True):
            new[group.name] += sum(counts)
        if any(new.values()) and all(new[group.name] >= group.missing for group in gang.groups):
            yield tuple(_bindings(snapshot, gang, choice))


def _sets(gang: PodGang) -> list[tuple[PodGroup, PodSet]]:
    return [(group, pod_set) for group in gang.groups for pod_set in group.pod_sets]


def _room(node: Node, template: PodTemplate, freed: Freed) -> int:
    """How many such pods the node takes when it gets nothing else and all go that may."""
    if node.unschedulable or not node.ready:
        return 0
    if not template.selects(node) or not template.tolerates(node):
        return 0
    return min(
        max(0, node.free(resource) + freed.get((node.name, resource), 0)) // amount
        for resource, amount in template.requests.items()
        if amount > 0
    )


def _ways(room: Sequence[int], most: int) -> Iterator[Counts]:
    """Every way to spread at most so many like pods over nodes with that much room."""
    if not room:
        yield ()
        return
    for here in range(min(room[0], most) + 1):
        for rest in _ways(room[1:], most - here):
            yield (here, *rest)


def _bindings(snapshot: Snapshot, gang: PodGang, choice: tuple[Counts, ...]) -> Iterator[Binding]:
    for (group, pod_set), counts in zip(_sets(gang), choice, strict=True):
        pods = iter(pod_set.pods)
        for node, count in zip(snapshot.nodes, counts, strict=True):
            for pod in islice(pods, count):
                yield Binding(pod.name, node.name, gang.name, group.name, pod.uid)


def _add(one: Vector, other: Vector) -> Vector:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _best_conceivable(worths: Sequence[Vector]) -> Vector:
    """The best of each count, whether or not one option has them all."""
    return tuple(max(counts) for counts in zip(*worths, strict=True))
