"""Required affinity: pods that need others in their domain."""

from __future__ import annotations

from collections.abc import Iterator

from placement_service.judge.plan import Plan, first_on_each_node


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
