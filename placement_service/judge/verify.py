"""Whether a plan keeps every rule, judged from the raw snapshot alone.

Runs on every answer before it leaves the service. It shares no code with the
engine, no arrays and no shortcuts, so that an error there cannot hide here.
It says what is broken and does not mend it, nor whether a better plan exists.

`RULES` are small functions of one signature. The rules between pods look only
at terms that some pod carries; the others cost one pass over the plan.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from placement_service.entities.request import (
    EPHEMERAL_STORAGE,
    Binding,
    Node,
    PodAffinityTerm,
    PodTemplate,
    RunningPod,
    Snapshot,
    SpreadConstraint,
)
from placement_service.entities.selectors import Labels, Operator
from placement_service.judge.outcome import NewPod, Outcome, read


def verify(snapshot: Snapshot, bindings: Sequence[Binding]) -> tuple[str, ...]:
    """Every way in which the plan breaks a rule, in words; empty when it keeps all."""
    plan = Plan(tuple(bindings), read(snapshot, bindings))
    return tuple(violation for rule in RULES for violation in rule(plan))


@dataclass(frozen=True)  # no slots: cached_property keeps its value in the instance
class Plan:
    """The bindings as they came, and what they lead to."""

    bindings: tuple[Binding, ...]
    outcome: Outcome

    @property
    def snapshot(self) -> Snapshot:
        return self.outcome.snapshot

    @cached_property
    def new(self) -> tuple[NewPod, ...]:
        return self.outcome.new

    @cached_property
    def new_by_template(self) -> tuple[tuple[PodTemplate, tuple[NewPod, ...]], ...]:
        """New pods of one template object together; templates hold mappings, so by identity."""
        by_template: defaultdict[int, list[NewPod]] = defaultdict(list)
        for pod in self.new:
            by_template[id(pod.template)].append(pod)
        return tuple((pods[0].template, tuple(pods)) for pods in by_template.values())

    @cached_property
    def new_by_node(self) -> tuple[tuple[Node, tuple[NewPod, ...]], ...]:
        by_node: defaultdict[str, list[NewPod]] = defaultdict(list)
        for pod in self.new:
            by_node[pod.node.name].append(pod)
        return tuple((pods[0].node, tuple(pods)) for pods in by_node.values())

    @cached_property
    def nodes_by_label(self) -> dict[tuple[str, str], list[Node]]:
        """Nodes by each label that they have."""
        found: defaultdict[tuple[str, str], list[Node]] = defaultdict(list)
        for node in self.snapshot.nodes:
            for label in node.labels.items():
                found[label].append(node)
        return dict(found)

    @cached_property
    def crowd(self) -> Crowd:
        """Everyone whom the rules between pods can see; gathered when first asked for."""
        return Crowd(self)

    @cached_property
    def affinity_carriers(self) -> dict[PodAffinityTerm, set[Member]]:
        """The new pods that carry each required affinity term."""
        carriers: defaultdict[PodAffinityTerm, set[Member]] = defaultdict(set)
        for member in self.crowd.members:
            if member.template is not None:
                for term in member.template.required_affinity:
                    carriers[term].add(member)
        return dict(carriers)


def bindings_are_of_pending_pods_on_usable_nodes(plan: Plan) -> Iterator[str]:
    """Each binding is of a pending pod, once, and its node takes new pods."""
    pending = {
        pod.name: (gang.name, group.name, pod.uid)
        for gang in plan.snapshot.gangs
        for group in gang.groups
        for pod_set in group.pod_sets
        for pod in pod_set.pods
    }
    seen = set()
    for binding in plan.bindings:
        pod = binding.pod
        if pod not in pending:
            yield f"pod {pod} is bound but is not a pending pod of the request"
            continue
        if pod in seen:
            yield f"pod {pod} is bound twice"
            continue
        seen.add(pod)
        if (binding.gang, binding.group, binding.uid) != pending[pod]:
            gang, group, uid = pending[pod]
            yield (
                f"the binding of pod {pod} says gang {binding.gang}, group {binding.group}, "
                f"uid {binding.uid!r}; the request says gang {gang}, group {group}, uid {uid!r}"
            )
        node = plan.outcome.nodes.get(binding.node)
        if node is None:
            yield f"pod {pod} is bound to node {binding.node}, which the snapshot does not have"
        elif node.unschedulable:
            yield f"pod {pod} is bound to node {node.name}, which is unschedulable"
        elif not node.ready:
            yield f"pod {pod} is bound to node {node.name}, which is not ready"


def gangs_are_all_or_nothing(plan: Plan) -> Iterator[str]:
    """A gang with new pods may have some, and has every group's minimum."""
    gangs = {gang.gang.name: gang for gang in plan.outcome.gangs}
    for gang in plan.outcome.gangs:
        if not gang.has_new:
            continue
        name = gang.gang.name
        for group in gang.groups:
            if not group.has_minimum:
                yield (
                    f"gang {name}: group {group.group.name} has {group.count} pods, "
                    f"its minimum is {group.group.min_replicas}"
                )
        if gang.gang.uninitialized:
            yield f"gang {name} gets new pods but is not initialized"
        for what in gang.gang.unsupported:
            yield f"gang {name} gets new pods but uses {what}, which is not supported"
        if gang.gang.base_gang:
            base = gangs.get(gang.gang.base_gang)
            if base is None or not base.placed:
                yield f"gang {name} gets new pods but its base {gang.gang.base_gang} is not placed"


def required_levels_hold_scopes_together(plan: Plan) -> Iterator[str]:
    """All pods of a scope, running ones too, are in one domain of its required level."""
    for gang in plan.outcome.gangs:
        if not gang.has_new:
            continue
        for scope in gang.gang.packing_scopes:
            level = scope.required_level
            if not level:
                continue
            domains = {
                node: plan.outcome.domain(node, level) for node in gang.node_names(scope.groups)
            }
            where = f"gang {gang.gang.name}: scope {scope.name} requires one {level}"
            for node in sorted(node for node, domain in domains.items() if domain is None):
                yield f"{where} but has pods on node {node}, which is in none"
            used = sorted({domain for domain in domains.values() if domain is not None})
            if len(used) > 1:
                yield f"{where} but uses {len(used)}: {', '.join(used)}"


def nodes_are_not_overfilled(plan: Plan) -> Iterator[str]:
    """New pods ask for no more than what a node has left."""
    for node, pods in plan.new_by_node:
        asked: Counter[str] = Counter()
        for pod in pods:
            for resource, amount in pod.template.requests.items():
                asked[resource] += amount
        for resource, amount in sorted(asked.items()):
            if amount > 0 and amount > _left(node, resource):
                yield (
                    f"node {node.name}: {len(pods)} new pods ask for {amount} {resource}, "
                    f"{_left(node, resource)} are free"
                )


def _left(node: Node, resource: str) -> float:
    """What the pods on a node leave of a resource.

    Kubernetes does not limit ephemeral storage on a node that reports none.
    """
    total = node.allocatable.get(resource, 0)
    if resource == EPHEMERAL_STORAGE and not total:
        return float("inf")
    return total - node.requested.get(resource, 0)


def pods_go_where_their_template_allows(plan: Plan) -> Iterator[str]:
    """Node selector, required node affinity and taints."""
    for template, pods in plan.new_by_template:
        for pod in _first_on_each_node(pods):
            if not template.selects(pod.node):
                yield (
                    f"pod {pod.name} is on node {pod.node.name}, "
                    "which its node selector or affinity excludes"
                )
            if not template.tolerates(pod.node):
                yield (
                    f"pod {pod.name} is on node {pod.node.name}, whose taints it does not tolerate"
                )


def host_ports_are_taken_once(plan: Plan) -> Iterator[str]:
    """No new pod asks for a host port that is in use or asked for by another new pod."""
    for node, pods in plan.new_by_node:
        asking = [pod for pod in pods if pod.template.host_ports]
        for pod in asking:
            for port in pod.template.host_ports:
                if any(port.conflicts(used) for used in node.host_ports):
                    yield (
                        f"pod {pod.name} asks for host port {port.port}/{port.protocol}, "
                        f"which is in use on node {node.name}"
                    )
        for one, other in combinations(asking, 2):
            for port in one.template.host_ports:
                if any(port.conflicts(taken) for taken in other.template.host_ports):
                    yield (
                        f"pods {one.name} and {other.name} both ask for host port "
                        f"{port.port}/{port.protocol} on node {node.name}"
                    )


def anti_affinity_keeps_pods_apart(plan: Plan) -> Iterator[str]:
    """No pod shares a domain with a pod that its term, or whose term, keeps away.

    Terms of running pods bind new pods just the same. Two running pods are not
    the plan's concern.
    """
    if not _any_anti_affinity(plan):
        return
    carriers: defaultdict[PodAffinityTerm, list[Member]] = defaultdict(list)
    for member in plan.crowd.members:
        for term in dict.fromkeys(member.anti_affinity):
            carriers[term].append(member)
    for term, carrying in carriers.items():
        matching = _by_domain(plan.crowd.matching(term), term.topology_key)
        for domain, here in _by_domain(carrying, term.topology_key).items():
            pair = _first_pair_with_a_new_pod(here, matching.get(domain, []))
            if pair is not None:
                one, other = pair
                yield (
                    f"required anti-affinity of pod {one.name} keeps pod {other.name} away, "
                    f"but both are in {term.topology_key}={domain}"
                )


def affinity_brings_pods_together(plan: Plan) -> Iterator[str]:
    """Each term of a new pod finds a matching pod in the pod's domain.

    Pods that carry the term themselves do not help each other, for none could
    come first; only if nobody else matches in any domain may they start one,
    all of them the same.
    """
    for template, pods in plan.new_by_template:
        for term in dict.fromkeys(template.required_affinity):
            key = term.topology_key
            carriers = plan.affinity_carriers[term]
            helpers = [
                m
                for m in plan.crowd.matching(term)
                if m not in carriers and m.domain(key) is not None
            ]
            helped = {helper.domain(key) for helper in helpers}
            start_together = not helpers and len({m.domain(key) for m in carriers}) == 1
            for pod in _first_on_each_node(pods):
                domain = pod.node.labels.get(key)
                starts = start_together and term.matches(pod.namespace, template.labels)
                if domain is None:
                    yield (
                        f"pod {pod.name} requires affinity at {key}, "
                        f"but its node {pod.node.name} has no such label"
                    )
                elif domain not in helped and not starts:
                    yield (
                        f"pod {pod.name} requires affinity to a pod in {key}={domain}, "
                        "but no pod there matches"
                    )


def spread_stays_within_the_skew(plan: Plan) -> Iterator[str]:
    """No domain that gets a new pod holds too many more matching pods than the emptiest."""
    eligible: dict[object, set[str]] = {}
    for template, pods in plan.new_by_template:
        for constraint in dict.fromkeys(template.spread_constraints):
            key = constraint.topology_key
            counts = Counter(m.domain(key) for m in plan.crowd.matching(constraint))
            for pod in _first_on_each_node(pods):
                domain = pod.node.labels.get(key)
                itself = constraint.matches(pod.namespace, template.labels)
                count = counts[domain] + (not itself)
                if domain is None:
                    yield (
                        f"pod {pod.name} is to be spread over {key}, "
                        f"but its node {pod.node.name} has no such label"
                    )
                # So few are within the skew however empty another domain is.
                elif count > constraint.max_skew:
                    question = _eligibility(template, constraint)
                    if question not in eligible:
                        eligible[question] = _eligible_domains(plan, template, constraint)
                    fewest = _fewest(counts, eligible[question], constraint)
                    if count - fewest > constraint.max_skew:
                        yield (
                            f"pod {pod.name} is in {key}={domain} with {count} pods to be "
                            f"spread, the emptiest has {fewest} and the skew may be "
                            f"{constraint.max_skew}"
                        )


#: Every rule, in the order of the documentation. A rule tells each way in which a plan breaks it.
RULES: tuple[Callable[[Plan], Iterable[str]], ...] = (
    bindings_are_of_pending_pods_on_usable_nodes,
    gangs_are_all_or_nothing,
    required_levels_hold_scopes_together,
    nodes_are_not_overfilled,
    pods_go_where_their_template_allows,
    host_ports_are_taken_once,
    anti_affinity_keeps_pods_apart,
    affinity_brings_pods_together,
    spread_stays_within_the_skew,
)


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: one pod, one member
class Member:
    """A pod that rules between pods can see; only a new one has a `template`."""

    name: str
    namespace: str
    labels: Labels
    node: Node | None
    template: PodTemplate | None
    anti_affinity: tuple[PodAffinityTerm, ...]

    def domain(self, key: str) -> str | None:
        return None if self.node is None else self.node.labels.get(key)


class Crowd:
    """All new and running pods, found by label."""

    def __init__(self, plan: Plan) -> None:
        self.members: tuple[Member, ...] = (
            *(_running(pod, plan.outcome) for pod in plan.snapshot.running_pods),
            *(_new(pod) for pod in plan.new),
        )
        self._by_label: defaultdict[tuple[str, str], list[Member]] = defaultdict(list)
        for member in self.members:
            for label in member.labels.items():
                self._by_label[label].append(member)
        self._matching: dict[PodAffinityTerm | SpreadConstraint, tuple[Member, ...]] = {}

    def matching(self, term: PodAffinityTerm | SpreadConstraint) -> tuple[Member, ...]:
        """The members that a term's selector and namespaces match."""
        if term not in self._matching:
            self._matching[term] = tuple(
                m for m in self._candidates(term) if term.matches(m.namespace, m.labels)
            )
        return self._matching[term]

    def _candidates(self, term: PodAffinityTerm | SpreadConstraint) -> Sequence[Member]:
        """At least the matching members: those with the rarest label that is demanded."""
        if term.selector is None:
            return ()
        demanded = [
            *term.selector.match_labels,
            *(
                (e.key, e.values[0])
                for e in term.selector.match_expressions
                if e.operator is Operator.IN and len(e.values) == 1
            ),
        ]
        return min((self._by_label.get(d, []) for d in demanded), key=len, default=self.members)


def _running(pod: RunningPod, outcome: Outcome) -> Member:
    node = outcome.nodes.get(pod.node)
    return Member(pod.name, pod.namespace, pod.labels, node, None, pod.required_anti_affinity)


def _new(pod: NewPod) -> Member:
    template = pod.template
    terms = template.required_anti_affinity
    return Member(pod.name, pod.namespace, pod.labels, pod.node, template, terms)


def _any_anti_affinity(plan: Plan) -> bool:
    return any(template.required_anti_affinity for template, _ in plan.new_by_template) or any(
        pod.required_anti_affinity for pod in plan.snapshot.running_pods
    )


def _by_domain(members: Iterable[Member], key: str) -> dict[str, list[Member]]:
    """Members by domain; those in no domain are left out."""
    found: defaultdict[str, list[Member]] = defaultdict(list)
    for member in members:
        domain = member.domain(key)
        if domain is not None:
            found[domain].append(member)
    return found


def _first_pair_with_a_new_pod(
    carrying: Sequence[Member], matching: Sequence[Member]
) -> tuple[Member, Member] | None:
    """Two different pods, not both running; looks at few pairs however many pods there are."""
    new = [m for m in matching if m.template is not None]
    for one in carrying:
        # A new pod is kept from all others, a running pod from new ones only. Of the
        # candidates at most one is the pod itself, so this ends at the second.
        for other in matching if one.template is not None else new:
            if other is not one:
                return one, other
    return None


def _first_on_each_node(pods: Iterable[NewPod]) -> Iterator[NewPod]:
    """One of several like pods on a node: what holds for it holds for all."""
    seen = set()
    for pod in pods:
        # Templates are shared across namespaces, and selectors look at those.
        place = (pod.node.name, pod.namespace)
        if place not in seen:
            seen.add(place)
            yield pod


def _eligibility(template: PodTemplate, constraint: SpreadConstraint) -> object:
    """What `_eligible_domains` depends on, to ask it once for like templates."""
    return (
        constraint.topology_key,
        None
        if constraint.ignore_node_affinity
        else (template.node_selector, template.required_node_affinity),
        template.tolerations if constraint.honor_taints else None,
    )


def _eligible_domains(plan: Plan, template: PodTemplate, constraint: SpreadConstraint) -> set[str]:
    """Values of the constraint's key on the nodes that count for it."""
    nodes: Sequence[Node] = plan.snapshot.nodes
    if template.node_selector and not constraint.ignore_node_affinity:
        # At least the selected nodes: those with the rarest label that is demanded.
        nodes = min((plan.nodes_by_label.get(d, []) for d in template.node_selector), key=len)
    return {
        node.labels[constraint.topology_key]
        for node in nodes
        if constraint.topology_key in node.labels
        and (constraint.ignore_node_affinity or template.selects(node))
        and (not constraint.honor_taints or template.tolerates(node))
    }


def _fewest(
    counts: Mapping[str | None, int], domains: set[str], constraint: SpreadConstraint
) -> int:
    """Pods in the emptiest of the domains that count, 0 when there are too few of those."""
    # Where there are more domains than pods lie in, one of them has none.
    if len(domains) < constraint.min_domains or len(domains) > len(counts):
        return 0
    return min((counts.get(domain, 0) for domain in domains), default=0)
