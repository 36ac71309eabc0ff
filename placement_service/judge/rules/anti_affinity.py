"""Required anti-affinity: pods that share no domain, with the term in either of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from placement_service.entities.request import (
    PodAffinityTerm,
)
from placement_service.judge.plan import Member, Plan


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
