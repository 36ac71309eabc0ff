"""Nodes: which of them take which pods."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from placement_service.entities.node import HOSTNAME
from placement_service.entities.nodes import Bools, Ints
from placement_service.entities.request import PodTemplate
from placement_service.judge.outcome import NewPod
from placement_service.judge.plan import Plan, first_on_each_node


def bindings_are_of_pending_pods_on_usable_nodes(plan: Plan) -> Iterator[str]:
    """Each binding is of a pending pod, once, and its node takes new pods."""
    outcome, question = plan.outcome, plan.outcome.question
    rows = outcome.bound_pod
    seen = np.zeros(len(question.pods), dtype=bool)
    seen[rows[rows >= 0]] = True
    set_of_binding = question.set_of_pod[rows[rows >= 0]]
    bad = (rows < 0) | (outcome.bound_node < 0)
    if np.count_nonzero(seen) < np.count_nonzero(rows >= 0):
        bad[:] = True
    bad[rows >= 0] |= _told_otherwise(plan, rows[rows >= 0], set_of_binding)
    yield from _bad_bindings(plan, np.flatnonzero(bad).tolist())
    closed = question.nodes.unschedulable | ~question.nodes.ready
    for node, pods in plan.new_on(closed):
        for new in pods:
            verb = "moved" if new.moved else "bound"
            if node.unschedulable:
                yield f"pod {new.name} is {verb} to node {node.name}, which is unschedulable"
            elif not node.ready:
                yield f"pod {new.name} is {verb} to node {node.name}, which is not ready"


def _told_otherwise(plan: Plan, pods: Ints, sets: Ints) -> Bools:
    """Which bindings of pending pods say another gang, group or uid than the request."""
    question = plan.outcome.question
    names = [(gang.name, group.name) for gang in plan.snapshot.gangs for group in gang.groups]
    want = zip(question.group_of_set[sets].tolist(), pods.tolist(), strict=True)
    told = itertools.compress(plan.bindings, (plan.outcome.bound_pod >= 0).tolist())
    return np.fromiter(
        (
            b.uid != question.uids[p] or b.group != names[g][1] or b.gang != names[g][0]
            for b, (g, p) in zip(told, want, strict=True)
        ),
        dtype=bool,
        count=len(pods),
    )


def _bad_bindings(plan: Plan, chosen: Iterable[int]) -> Iterator[str]:
    """What is wrong with some bindings."""
    outcome, question = plan.outcome, plan.outcome.question
    seen = set()
    for i in chosen:
        binding, row = plan.bindings[i], int(outcome.bound_pod[i])
        pod = binding.pod
        if row < 0:
            yield f"pod {pod} is bound but is not a pending pod of the request"
            continue
        if row in seen:
            yield f"pod {pod} is bound twice"
            continue
        seen.add(row)
        number = int(question.set_of_pod[row])
        gang = question.gang_of_set(number).name
        group = question.groups[int(question.group_of_set[number])].name
        uid = question.uids[row]
        if (binding.gang, binding.group, binding.uid) != (gang, group, uid):
            yield (
                f"the binding of pod {pod} says gang {binding.gang}, group {binding.group}, "
                f"uid {binding.uid!r}; the request says gang {gang}, group {group}, uid {uid!r}"
            )
        if outcome.bound_node[i] < 0:
            yield f"pod {pod} is bound to node {binding.node}, which the snapshot does not have"


def pods_go_where_their_template_allows(plan: Plan) -> Iterator[str]:
    """Node selector, required node affinity and taints.

    Asked once for each template on nodes that are alike in labels and taints; on every node
    where a template names nodes.
    """
    question, outcome = plan.outcome.question, plan.outcome
    nodes = question.nodes
    template = question.template_of_set[outcome.set_of_new]
    by_label = np.array(
        [bool(t.node_selector) or t.required_node_affinity is not None for t in question.templates],
        dtype=bool,
    )
    by_name = np.array([_names_nodes(t) for t in question.templates], dtype=bool)
    labels = nodes.labels.number[outcome.node_of_new] + 1
    alike = nodes.taints.number[outcome.node_of_new]
    # To a template that asks for no labels all of them are the same.
    alike = alike + len(nodes.taints.kinds) * np.where(by_label[template], labels, 0)
    kind = np.where(by_name[template], int(alike.max(initial=0)) + 1 + outcome.node_of_new, alike)
    key = kind * len(question.templates) + template
    _, first, member = np.unique(key, return_index=True, return_inverse=True)
    for k, i in enumerate(first.tolist()):
        node, t = nodes[int(outcome.node_of_new[i])], question.templates[int(template[i])]
        selects, tolerates = t.selects(node), t.tolerates(node)
        for pod in () if selects and tolerates else _firsts(plan, member == k):
            if not selects:
                yield (
                    f"pod {pod.name} is on node {pod.node.name}, "
                    "which its node selector or affinity excludes"
                )
            if not tolerates:
                yield (
                    f"pod {pod.name} is on node {pod.node.name}, whose taints it does not tolerate"
                )


def _firsts(plan: Plan, which: Bools) -> Iterable[NewPod]:
    return first_on_each_node(plan.outcome.new_where(which))


def _names_nodes(template: PodTemplate) -> bool:
    """Whether a template may distinguish nodes that differ only in their names."""
    terms = template.required_node_affinity or ()
    return any(key == HOSTNAME for key, _ in template.node_selector) or any(
        term.match_fields or any(e.key == HOSTNAME for e in term.match_expressions)
        for term in terms
    )
