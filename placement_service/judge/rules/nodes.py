"""Nodes: which of them take which pods."""

from __future__ import annotations

from collections.abc import Iterator

from placement_service.judge.plan import Plan, first_on_each_node


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
    for node, pods in plan.new_by_node:
        for new in pods:
            verb = "moved" if new.moved else "bound"
            if node.unschedulable:
                yield f"pod {new.name} is {verb} to node {node.name}, which is unschedulable"
            elif not node.ready:
                yield f"pod {new.name} is {verb} to node {node.name}, which is not ready"


def pods_go_where_their_template_allows(plan: Plan) -> Iterator[str]:
    """Node selector, required node affinity and taints."""
    for template, pods in plan.new_by_template:
        for pod in first_on_each_node(pods):
            if not template.selects(pod.node):
                yield (
                    f"pod {pod.name} is on node {pod.node.name}, "
                    "which its node selector or affinity excludes"
                )
            if not template.tolerates(pod.node):
                yield (
                    f"pod {pod.name} is on node {pod.node.name}, whose taints it does not tolerate"
                )
