"""What pods ask for, and the rules between them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from placement_service.entities.request import (
    CPU,
    HOSTNAME,
    PODS,
    Node,
    PodAffinityTerm,
    PodGang,
    PodTemplate,
    RunningPod,
    SpreadConstraint,
    Toleration,
)
from placement_service.entities.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
)
from tests.strategies.nodes import host_ports
from tests.strategies.words import APPS, GPU, NAMESPACE, Feature, rarely


@st.composite
def templates(draw: st.DrawFn, features: frozenset[Feature]) -> PodTemplate:
    """What one pod asks for; most ask for GPUs and nothing else."""
    gpus = draw(st.sampled_from([1, 2, 4, 8]))
    if Feature.CPU_ONLY in features and draw(st.booleans()):
        gpus = 0
    requests = {PODS: 1, CPU: draw(st.sampled_from([0, 1, 2])), GPU: gpus}
    template = PodTemplate(
        requests={name: amount for name, amount in requests.items() if amount},
        labels={"app": draw(st.sampled_from(APPS))},
    )
    if Feature.NODE_RULES in features:
        template = replace(
            template,
            node_selector=(("model", "new"),) if draw(rarely) else (),
            required_node_affinity=draw(st.one_of(st.none(), st.none(), _node_affinity)),
            tolerations=(Toleration("gpu", True, "", None),) if draw(st.booleans()) else (),
        )
    if Feature.HOST_PORTS in features and draw(st.booleans()):
        template = replace(template, host_ports=(draw(host_ports),))
    if Feature.ANTI_AFFINITY in features and draw(st.booleans()):
        terms = draw(st.lists(affinity_terms, min_size=1, max_size=2))
        template = replace(template, required_anti_affinity=tuple(terms))
    if Feature.AFFINITY in features and draw(st.booleans()):
        template = replace(template, required_affinity=(draw(affinity_terms),))
    if Feature.SPREAD in features and draw(st.booleans()):
        template = replace(template, spread_constraints=(draw(spread_constraints),))
    return template


_node_affinity = st.tuples(
    st.builds(
        lambda operator, value: NodeSelectorTerm((Requirement("model", operator, (value,)),)),
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.sampled_from(["old", "new"]),
    )
)
selectors = st.one_of(
    st.builds(lambda app: LabelSelector((("app", app),)), st.sampled_from(APPS)),
    st.just(LabelSelector()),
    st.just(LabelSelector(match_expressions=(Requirement("app", Operator.NOT_IN, ("a",)),))),
)
#: Levels of rules between pods: a node, a rack, or a key that no node has.
_keys = st.sampled_from([HOSTNAME, HOSTNAME, "rack", "rack", "block", "nowhere"])
affinity_terms = st.builds(
    PodAffinityTerm,
    selector=st.one_of(selectors, selectors, selectors, st.none()),
    topology_key=_keys,
    namespaces=st.sampled_from([(NAMESPACE,), (NAMESPACE,), ("other",)]),
    all_namespaces=rarely,
)
spread_constraints = st.builds(
    SpreadConstraint,
    max_skew=st.integers(1, 2),
    topology_key=_keys,
    selector=selectors,
    namespace=st.just(NAMESPACE),
    min_domains=st.integers(1, 3),
    ignore_node_affinity=st.booleans(),
    honor_taints=st.booleans(),
)


@st.composite
def running_pods(
    draw: st.DrawFn, nodes: tuple[Node, ...], gangs: list[PodGang]
) -> tuple[RunningPod, ...]:
    """Pods that rules between pods can see: all bound pods of gangs, and some others."""
    homes = [node.name for node in nodes] + ["nodes/gone"]
    where = [
        (pod.name, pod.node) for gang in gangs for group in gang.groups for pod in group.fixed_pods
    ]
    for index, node in enumerate(draw(st.lists(st.sampled_from(homes), max_size=2))):
        where.append((f"namespaces/{NAMESPACE}/pods/other-{index}", node))
    told = tuple(
        RunningPod(pod.name, pod.node, s.template.labels, s.template.required_anti_affinity)
        for gang in gangs
        for group in gang.groups
        for s in group.pod_sets
        for pod in s.bound_pods
    )
    return told + tuple(
        RunningPod(
            name=name,
            node=node,
            labels={"app": draw(st.sampled_from(APPS))},
            required_anti_affinity=(draw(affinity_terms),) if draw(rarely) else (),
        )
        for name, node in where
    )
