"""Rules between pods: host ports, affinity and anti-affinity, spread."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from placement_service.entities.node import HostPort
from placement_service.entities.request import (
    Node,
    PodAffinityTerm,
    PodTemplate,
    SpreadConstraint,
)
from placement_service.judge.plan import Member, Plan, first_on_each_node


def host_ports_are_taken_once(plan: Plan) -> Iterator[str]:
    """No new pod asks for a host port that is in use or asked for by another new pod."""
    if not any(template.host_ports for template in plan.templates):
        return
    staying = _ports_of_pods_that_stay(plan) if plan.evicted else {}
    for node, pods in plan.new_by_node:
        asking = [pod for pod in pods if pod.template.host_ports]
        in_use = _ports_in_use(plan, node, staying) if asking else ()
        for pod in asking:
            for port in pod.template.host_ports:
                if any(port.conflicts(used) for used in in_use):
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

    Terms of running pods bind new pods as well. Two running pods are not checked.
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


def moved_pods_come_near_nobody_that_keeps_them_away(plan: Plan) -> Iterator[str]:
    """No pod is moved into a domain of a pod that stays and whose term keeps it away.

    The list of running pods need not tell terms that no waiting pod meets; the pod sets do.
    """
    if not any(evicted.moves for evicted in plan.evicted):
        return
    moved = [pod for pod in plan.new if pod.moved]
    gone = {evicted.pod.name for evicted in plan.evicted}
    node = plan.outcome.question.node
    kept_free: defaultdict[PodAffinityTerm, dict[str, str]] = defaultdict(dict)
    for pod_set in plan.outcome.question.sets:
        for term in pod_set.template.required_anti_affinity:
            for bound in pod_set.bound_pods:
                if bound.name not in gone and bound.node in node:
                    domain = node[bound.node].labels.get(term.topology_key)
                    if domain is not None:
                        kept_free[term][domain] = bound.name
    for term, pods in kept_free.items():
        for pod in moved:
            domain = pod.node.labels.get(term.topology_key, "")
            if domain in pods and term.matches(pod.namespace, pod.labels):
                yield (
                    f"required anti-affinity of pod {pods[domain]} keeps pod {pod.name} away, "
                    f"which is moved to {term.topology_key}={domain}"
                )


def affinity_brings_pods_together(plan: Plan) -> Iterator[str]:
    """Each term of a new pod finds a matching pod in the pod's domain.

    Pods that carry the term themselves do not help each other, because none could come first. Only
    if no other pod matches in any domain may they start one, all of them the same.
    """
    for template, pods in plan.new_of(lambda template: template.required_affinity):
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
            for pod in first_on_each_node(pods):
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
    for template, pods in plan.new_of(lambda template: template.spread_constraints):
        for constraint in dict.fromkeys(template.spread_constraints):
            key = constraint.topology_key
            counts = Counter(
                m.domain(key)
                for m in plan.crowd.matching(constraint)
                if m.node is not None and _counts(m.node, template, constraint)
            )
            for pod in first_on_each_node(pods):
                domain = pod.node.labels.get(key)
                count = counts[domain]
                if domain is None:
                    yield (
                        f"pod {pod.name} is to be spread over {key}, "
                        f"but its node {pod.node.name} has no such label"
                    )
                # So few are within the skew, however empty another domain is.
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


def _ports_in_use(
    plan: Plan, node: Node, staying: Mapping[str, Collection[HostPort]]
) -> tuple[HostPort, ...]:
    """The ports of a node less those of evicted pods; one that a pod which stays has is in use."""
    gone = Counter(
        port for v in plan.evicted_by_node.get(node.name, ()) for port in v.template.host_ports
    )
    listed, theirs = Counter(node.host_ports), staying.get(node.name, ())
    return tuple(p for p, count in listed.items() if count > gone[p] or p in theirs)


def _ports_of_pods_that_stay(plan: Plan) -> Mapping[str, Collection[HostPort]]:
    """Host ports of running pods in pod sets, by node, without those of evicted pods."""
    gone = {evicted.pod.name for evicted in plan.evicted}
    found: defaultdict[str, set[HostPort]] = defaultdict(set)
    for pod_set in plan.outcome.question.sets:
        for pod in pod_set.bound_pods if pod_set.template.host_ports else ():
            if pod.name not in gone:
                found[pod.node].update(pod_set.template.host_ports)
    return found


def _any_anti_affinity(plan: Plan) -> bool:
    return any(template.required_anti_affinity for template in plan.templates) or any(
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
        # A new pod is compared with all others, a running pod with new ones only. Of the
        # candidates at most one is the pod itself, so this ends at the second.
        for other in matching if one.template is not None else new:
            if other is not one:
                return one, other
    return None


def _eligibility(template: PodTemplate, constraint: SpreadConstraint) -> object:
    """What `_eligible_domains` depends on, to ask it once for templates that are alike."""
    return (
        constraint.topology_key,
        None
        if constraint.ignore_node_affinity
        else (template.node_selector, template.required_node_affinity),
        template.tolerations if constraint.honor_taints else None,
    )


def _counts(node: Node, template: PodTemplate, constraint: SpreadConstraint) -> bool:
    """Whether a constraint looks at a node: Kubernetes leaves out the pods of all others."""
    return (constraint.ignore_node_affinity or template.selects(node)) and (
        not constraint.honor_taints or template.tolerates(node)
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
        if constraint.topology_key in node.labels and _counts(node, template, constraint)
    }


def _fewest(
    counts: Mapping[str | None, int], domains: set[str], constraint: SpreadConstraint
) -> int:
    """Pods in the emptiest of the domains that count, 0 when there are too few of those."""
    # Where there are more domains than pods are in, one of them has none.
    if len(domains) < constraint.min_domains or len(domains) > len(counts):
        return 0
    return min((counts.get(domain, 0) for domain in domains), default=0)
