"""Spread constraints with DoNotSchedule: domains that hold about as many pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from placement_service.entities.request import Node, PodTemplate, SpreadConstraint
from placement_service.judge.plan import Plan, first_on_each_node


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
