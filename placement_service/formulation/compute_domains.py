"""ComputeDomains (rule 17): a node serves pods of one at a time.

Expressed in rules that every stage knows: the domain becomes a label of pods and of the nodes that
serve it, and pods of different domains repel each other on a host. The label key cannot occur in
Kubernetes. Nodes that serve another domain are closed by `node_eligibility`: if node affinity
closed them, topology spread would not count them.
"""

from __future__ import annotations

from dataclasses import replace

from placement_service.entities.request import (
    HOSTNAME,
    Node,
    PodAffinityTerm,
    PodTemplate,
    Snapshot,
)
from placement_service.entities.selectors import LabelSelector, Operator, Requirement

KEY = "compute domain"

#: The label of a node where pods of several domains run already; no pod may join them.
SEVERAL = "several compute domains"


#: Avoids the pods of every domain on a host.
AVOIDS_ALL = PodAffinityTerm(
    LabelSelector(match_expressions=(Requirement(KEY, Operator.EXISTS),)),
    HOSTNAME,
    (),
    all_namespaces=True,
)


def with_compute_domains(snapshot: Snapshot) -> Snapshot:
    """The snapshot with the rule as labels and rules of pods; itself where there is none."""
    sets = [s for gang in snapshot.gangs for group in gang.groups for s in group.pod_sets]
    if not any(s.template.compute_domain for s in sets):
        return snapshot
    serves: dict[str, set[str]] = {
        name: {parts.compute_domain} - {""}
        for name, parts in zip(snapshot.columns.names, snapshot.columns.parts, strict=True)
    }
    for s in sets:
        for pod in s.bound_pods if s.template.compute_domain else ():
            if pod.node in serves:
                serves[pod.node].add(s.template.compute_domain)
    here = {n: next(iter(d)) if len(d) == 1 else SEVERAL for n, d in serves.items() if d}
    return replace(
        snapshot,
        nodes=tuple(_labelled(n, here.get(n.name, "")) for n in snapshot.nodes),
        gangs=tuple(
            replace(
                gang,
                groups=tuple(
                    replace(
                        group,
                        pod_sets=tuple(
                            replace(s, template=_ruled(s.template)) for s in group.pod_sets
                        ),
                    )
                    for group in gang.groups
                ),
            )
            for gang in snapshot.gangs
        ),
    )


def repels_domains(term: PodAffinityTerm) -> bool:
    """Whether a term of pods says that domains share no node."""
    selector = term.selector
    return selector is not None and any(one.key == KEY for one in selector.match_expressions)


def _labelled(node: Node, domain: str) -> Node:
    return replace(node, labels={**node.labels, KEY: domain}) if domain else node


def _ruled(template: PodTemplate) -> PodTemplate:
    mine = template.compute_domain
    if not mine:
        return template
    others = Requirement(KEY, Operator.NOT_IN, (mine,))
    repelled = PodAffinityTerm(
        LabelSelector(match_expressions=(Requirement(KEY, Operator.EXISTS), others)),
        HOSTNAME,
        (),
        all_namespaces=True,
    )
    return replace(
        template,
        labels={**template.labels, KEY: mine},
        required_anti_affinity=(*template.required_anti_affinity, repelled),
    )
