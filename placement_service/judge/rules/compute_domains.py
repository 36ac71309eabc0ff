"""ComputeDomains: a node serves pods of one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from placement_service.judge.plan import Plan


def nodes_serve_one_compute_domain(plan: Plan) -> Iterator[str]:
    """Pods of no ComputeDomain do not matter; those that run and stay do.

    The domain of a node ends where all of its pods there are evicted.
    """
    if not any(template.compute_domain for template in plan.templates):
        return
    running = _running(plan)
    for node, pods in plan.new_by_node:
        new = {pod.template.compute_domain for pod in pods} - {""}
        gone = sum(
            victim.template.compute_domain == node.compute_domain
            for victim in plan.evicted_by_node.get(node.name, ())
        )
        ends = 0 < node.compute_domain_pods <= gone
        there = ({"" if ends else node.compute_domain} | running.get(node.name, set())) - {""}
        if new and len(new | there) > 1:
            yield (
                f"node {node.name} would serve the compute domains {', '.join(sorted(new | there))}"
            )


def _running(plan: Plan) -> Mapping[str, set[str]]:
    """The domains of running pods that stay, by node."""
    gone = {evicted.pod.name for evicted in plan.evicted}
    found: dict[str, set[str]] = {}
    for gang in plan.snapshot.gangs:
        for group in gang.groups:
            for pod_set in group.pod_sets:
                domain = pod_set.template.compute_domain
                for pod in pod_set.bound_pods if domain else ():
                    if pod.name not in gone:
                        found.setdefault(pod.node, set()).add(domain)
    return found
