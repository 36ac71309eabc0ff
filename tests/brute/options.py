"""Every way to place one gang and to take its pods away, and what each is worth alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from placement_service.judge.outcome import Outcome
from placement_service.judge.plan import Plan
from placement_service.judge.question import Question
from placement_service.judge.rules import (
    anti_affinity,
    compute_domains,
    evictions,
    host_ports,
    queues,
    required_levels,
)
from placement_service.judge.score import Score, score_of
from tests.brute.devices import Devices

#: How many pods of one set go to each node, in the snapshot's order.
Counts = tuple[int, ...]

#: The counts of all tiers that are optimised, one after another; larger is better throughout.
Vector = tuple[int, ...]

#: Amounts by node and resource.
Amounts = Mapping[tuple[str, str], int]

#: Rules that more pods never mend, nor pods that stay.
STAY_BROKEN = (
    required_levels.required_levels_hold_scopes_together,
    queues.queues_are_known,
    queues.limits_hold,
    queues.guaranteed_amounts_hold_what_is_not_preemptible,
    host_ports.host_ports_are_taken_once,
    anti_affinity.anti_affinity_keeps_pods_apart,
    compute_domains.nodes_serve_one_compute_domain,
)

#: Rules that more evictions never mend, whatever they are for.
NEVER_DISTURBED = (evictions.disruption_budgets_hold,)

#: The same, where each eviction is of the one kind that there is.
NEVER_DISTURBED_SO = (*NEVER_DISTURBED, evictions.gangs_run_for_their_minimum_time)


class TooLarge(Exception):
    """The instance has more plans than the caller wants to wait for."""


@dataclass(frozen=True, slots=True)
class Option:
    """One way to place one gang, what it takes, and its own share of the tiers.

    `demand` is negative where pods of the gang go. Their evictions name no winner yet.
    """

    plan: tuple[Binding, ...]
    evictions: tuple[Eviction, ...]
    demand: tuple[tuple[tuple[str, str], int], ...]
    worth: Vector


class Asked:
    """A question, and what is asked of it again and again."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.question = Question(snapshot, policy)
        # Domains of a set of gangs cannot be counted for one gang alone; an estimate without them
        # is only better.
        alone = tuple(replace(gang, base_gang="") for gang in snapshot.gangs)
        self._without_sets = Question(replace(snapshot, gangs=alone), policy)
        self.devices = Devices(snapshot, policy)
        self.free = {
            (node.name, resource): node.free(resource)
            for node in snapshot.nodes
            for resource in _resources(snapshot)
        }
        self.requests = {
            name: s.template.requests
            for gang in snapshot.gangs
            for _, s in _sets(gang)
            for name in (*(p.name for p in s.pods), *(p.name for p in s.bound_pods))
        }
        #: What each running pod leaves.
        self.holds = {
            pod.name: pod.holds(s.template)
            for gang in snapshot.gangs
            for _, s in _sets(gang)
            for pod in s.bound_pods
        }
        #: The pods of each gang that may go.
        self.may_go = [
            tuple(_leaves(gang, pod) for _, s in _sets(gang) for pod in s.bound_pods)
            if may_be_disturbed(gang, policy)
            else ()
            for gang in snapshot.gangs
        ]

    def outcome(self, plan: Sequence[Binding], gone: Sequence[Eviction]) -> Outcome:
        """The cluster after a plan."""
        return Outcome(self.question, plan, gone)

    def score(self, plan: Sequence[Binding], gone: Sequence[Eviction]) -> Score:
        """What a plan is worth."""
        return score_of(self.outcome(plan, gone))

    def alone(self, plan: Sequence[Binding], gone: Sequence[Eviction]) -> Vector:
        """What the pods of one gang are worth, sets aside."""
        return rank(score_of(Outcome(self._without_sets, plan, gone)))

    def given_back(self, gone: Sequence[Eviction]) -> Amounts:
        """What some pods leave."""
        back: dict[tuple[str, str], int] = {}
        for eviction in gone:
            for resource, amount in self.holds[eviction.pod].items():
                key = eviction.node, resource
                back[key] = back.get(key, 0) + amount
        return back


def rank(result: Score) -> Vector:
    """What is optimised, as a vector in which larger is better throughout."""
    return result.rank[:-1]


def may_be_disturbed(gang: PodGang, policy: Policy) -> bool:
    """Whether pods of a gang may go at all."""
    return policy.eviction is not EvictionPolicy.NONE and not gang.not_preemptible


def gang_options(asked: Asked, index: int, max_steps: int) -> list[Option]:
    """The ways to place one gang that some plan may hold, the most valuable first."""
    gang = asked.snapshot.gangs[index]
    others = [e for g, gone in enumerate(asked.may_go) if g != index for e in gone]
    freed = asked.given_back([*others, *asked.may_go[index]])
    left_by_others = asked.given_back(others)
    departures = [
        gone
        for gone in islice(_departures(asked, gang), max_steps + 1)
        if not _are_protected(asked, gone)
    ]
    options = []
    step = 0
    for plan in gang_plans(asked.snapshot, gang, max_steps, freed):
        for gone in departures:
            step += 1
            if step > max_steps:
                raise TooLarge
            demand = _demand(asked, plan, gone)
            if any(
                amount > asked.free[key] + left_by_others.get(key, 0)
                for key, amount in demand
                if amount > 0
            ):
                continue
            if _is_hopeless(asked, plan, gone, others):
                continue
            options.append(Option(plan, gone, demand, asked.alone(plan, gone)))
    return sorted(options, key=lambda option: option.worth, reverse=True)


def _demand(
    asked: Asked, plan: Sequence[Binding], gone: Sequence[Eviction]
) -> tuple[tuple[tuple[str, str], int], ...]:
    demand: dict[tuple[str, str], int] = {}
    places = [(b.node, asked.requests[b.pod], 1) for b in plan]
    places += [(e.node, asked.holds[e.pod], -1) for e in gone]
    places += [(e.to_node, asked.requests[e.pod], 1) for e in gone if e.to_node]
    for node, amounts, sign in places:
        for resource, amount in amounts.items():
            demand[node, resource] = demand.get((node, resource), 0) + sign * amount
    return tuple((key, amount) for key, amount in demand.items() if amount)


def _are_protected(asked: Asked, gone: Sequence[Eviction]) -> bool:
    """Whether no plan may disturb these pods."""
    if not gone:
        return False
    plan = Plan(asked.policy, (), tuple(gone), asked.outcome((), gone))
    either = asked.policy.eviction is EvictionPolicy.RECLAIM
    rules = NEVER_DISTURBED if either else NEVER_DISTURBED_SO
    return any(broken for rule in rules for broken in rule(plan))


def _is_hopeless(
    asked: Asked, plan: Sequence[Binding], gone: Sequence[Eviction], others: Sequence[Eviction]
) -> bool:
    """Whether a gang breaks a rule by itself, even if all others that may go do."""
    if not plan and not any(e.to_node for e in gone):
        return False
    everyone = (*gone, *others)
    judged = Plan(asked.policy, plan, everyone, asked.outcome(plan, everyone))
    if any(broken for rule in STAY_BROKEN for broken in rule(judged)):
        return True
    touched = {b.node for b in plan} | {e.to_node for e in gone if e.to_node}
    return not all(asked.devices.could_serve(node, plan, gone, others) for node in touched)


def _departures(asked: Asked, gang: PodGang) -> Iterator[tuple[Eviction, ...]]:
    """Every way to take pods of a gang away, as far as it leaves none of its minimum short."""
    if not may_be_disturbed(gang, asked.policy):
        yield ()
        return
    moves = asked.policy.eviction is EvictionPolicy.REPACK
    running = [(pod, s.template) for _, s in _sets(gang) for pod in s.bound_pods]
    ways: list[list[Eviction | None]] = [
        [
            None,
            *(
                _leaves(gang, pod, to)
                for to in (_homes(asked.snapshot, template) if moves else [""])
            ),
        ]
        for pod, template in running
    ]
    for choice in product(*ways):
        gone = tuple(eviction for eviction in choice if eviction is not None)
        names = {eviction.pod for eviction in gone}
        left = [sum(p.name not in names for p in g.running_pods) for g in gang.groups]
        short = any(n < g.min_replicas for n, g in zip(left, gang.groups, strict=True))
        if not gone or not any(left) or not short:
            yield gone


def _homes(snapshot: Snapshot, template: PodTemplate) -> list[str]:
    return [node.name for node in snapshot.nodes if _admits(node, template)]


def _leaves(gang: PodGang, pod: BoundPod, to: str = "") -> Eviction:
    kind = EvictionKind.MOVE if to else EvictionKind.PREEMPT
    return Eviction(pod.name, gang.name, pod.node, kind, to_node=to)


def gang_plans(
    snapshot: Snapshot, gang: PodGang, max_steps: int, freed: Amounts | None = None
) -> Iterator[tuple[Binding, ...]]:
    """Every way to place none of a gang, or at least its minimum; pods of a set are alike."""
    yield ()
    if gang.uninitialized or gang.refusals:
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


def _resources(snapshot: Snapshot) -> list[str]:
    found = {r for gang in snapshot.gangs for _, s in _sets(gang) for r in s.template.requests}
    return sorted(found)


def _admits(node: Node, template: PodTemplate) -> bool:
    """Whether the node takes such pods, however full it is."""
    parts = template.device_share or template.same_pcie_nics or template.required_partition
    if node.unschedulable or not node.ready or (parts and not node.devices):
        return False
    return template.selects(node) and template.tolerates(node)


def _room(node: Node, template: PodTemplate, freed: Amounts) -> int:
    """How many such pods the node takes when it gets nothing else and all go that may."""
    if not _admits(node, template):
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
