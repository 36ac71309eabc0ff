"""An instance as Kubernetes objects, so that `placementctl plan -f` can be asked the same.

What runs on a node besides gangs becomes pods on it: the first asks for all that they take, the
others only count. Exports what the families use: node rules, packing scopes, base gangs,
priorities, running gangs and which of them must not be disturbed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from placement_service.entities.request import (
    CPU,
    PODS,
    Node,
    PackingScope,
    PodGang,
    PodGroup,
    PodTemplate,
    Resources,
    Snapshot,
)
from placement_service.entities.selectors import Requirement

Object = dict[str, Any]

_LOAD_NAMESPACE = "running"


def kubernetes_list(snapshot: Snapshot) -> Object:
    """A ``List``; raises ValueError for what has no counterpart here."""
    if snapshot.running_pods:
        raise ValueError("pods with rules for others are not exported")
    return {"apiVersion": "v1", "kind": "List", "items": list(_objects(snapshot))}


def _objects(snapshot: Snapshot) -> Iterator[Object]:
    of_gangs = _of_gangs(snapshot.gangs)
    for node in snapshot.nodes:
        yield _node(node)
        yield from _running(node, of_gangs.get(node.name, Counter()))
    for priority in sorted({gang.priority for gang in snapshot.gangs} - {0}):
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": _class(priority)},
            "value": priority,
        }
    for gang in snapshot.gangs:
        yield _gang(gang)
        yield from _pods(gang)


def _node(node: Node) -> Object:
    spec: Object = {}
    if node.unschedulable:
        spec["unschedulable"] = True
    if node.taints:
        spec["taints"] = [
            {"key": t.key, "value": t.value, "effect": t.effect.value} for t in node.taints
        ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.short_name, "labels": dict(node.labels)},
        "spec": spec,
        "status": {
            "allocatable": _quantities(node.allocatable),
            "conditions": [{"type": "Ready", "status": str(node.ready)}],
        },
    }


def _of_gangs(gangs: Iterable[PodGang]) -> dict[str, Counter[str]]:
    """What pods of gangs take of each node."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for pod_set in (s for gang in gangs for group in gang.groups for s in group.pod_sets):
        for pod in pod_set.bound_pods:
            found[pod.node].update(pod_set.template.requests)
    return found


def _running(node: Node, of_gangs: Mapping[str, int]) -> Iterator[Object]:
    others = {name: amount - of_gangs.get(name, 0) for name, amount in node.requested.items()}
    for i in range(others.get(PODS, 0)):
        taken = {name: n for name, n in others.items() if name != PODS and n and i == 0}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": _LOAD_NAMESPACE, "name": f"{node.short_name}-{i}"},
            "spec": {"nodeName": node.short_name, "containers": [_container(taken)]},
            "status": {"phase": "Running"},
        }


def _gang(gang: PodGang) -> Object:
    if any(g.fixed_pods or g.gated_count for g in gang.groups) or gang.uninitialized:
        raise ValueError(f"{gang.name}: gated pods, or of unknown size, are not exported")
    if gang.queue or gang.start is not None or gang.minimum_run_time or gang.previous_nodes:
        raise ValueError(f"{gang.name}: queues, run times and wishes of gangs are not exported")
    everything = tuple(g.name for g in gang.groups)
    scopes = list(gang.packing_scopes)
    spec: Object = {}
    if scopes and scopes[0].groups == everything:
        spec["topologyConstraint"] = _constraint(scopes.pop(0))
    # A scope of one group stands at the group: schedulers refuse a config of a group's name.
    of_groups = {s.groups[0]: s for s in scopes if len(s.groups) == 1}
    configs = [s for s in scopes if s not in of_groups.values()]
    if configs:
        spec["topologyConstraintGroupConfigs"] = [
            {
                "name": f"scope-{i}",
                "podGroupNames": list(scope.groups),
                "topologyConstraint": _constraint(scope),
            }
            for i, scope in enumerate(configs)
        ]
    spec["podgroups"] = [_group(g, of_groups.get(g.name)) for g in gang.groups]
    if gang.priority:
        spec["priorityClassName"] = _class(gang.priority)
    namespace, name = _identity(gang.name)
    metadata: Object = {"namespace": namespace, "name": name}
    if gang.not_preemptible:
        metadata["labels"] = {"kai.scheduler/preemptibility": "non-preemptible"}
    if gang.created is not None:
        metadata["creationTimestamp"] = f"{datetime.fromtimestamp(gang.created, UTC):%FT%TZ}"
    return {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": metadata,
        "spec": spec,
    }


def _group(group: PodGroup, scope: PackingScope | None) -> Object:
    return {
        "name": group.name,
        "minReplicas": group.min_replicas,
        **({} if scope is None else {"topologyConstraint": _constraint(scope)}),
        "podReferences": [
            dict(zip(("namespace", "name"), _identity(pod), strict=True))
            for pod_set in group.pod_sets
            for pod in (*(p.name for p in pod_set.pods), *(p.name for p in pod_set.bound_pods))
        ],
    }


def _constraint(scope: PackingScope) -> Object:
    levels = {"required": scope.required_level, "preferred": scope.preferred_level}
    return {"packConstraint": {strength: level for strength, level in levels.items() if level}}


def _pods(gang: PodGang) -> Iterator[Object]:
    labels = {"grove.io/base-podgang": _identity(gang.base_gang)[1]} if gang.base_gang else {}
    for group in gang.groups:
        for pod_set in group.pod_sets:
            spec = _pod_spec(pod_set.template)
            pods: dict[str, Object] = {pod.name: {} for pod in pod_set.pods}
            pods |= {
                p.name: {"nodeName": p.node.removeprefix("nodes/")} for p in pod_set.bound_pods
            }
            for pod, where in pods.items():
                namespace, name = _identity(pod)
                yield {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"namespace": namespace, "name": name, "labels": labels},
                    "spec": spec | where,
                }


def _pod_spec(template: PodTemplate) -> Object:
    rules = (
        template.labels,
        template.tolerations,
        template.required_affinity,
        template.required_anti_affinity,
        template.host_ports,
        template.spread_constraints,
    )
    if any(rules):
        raise ValueError("pods with labels, tolerations or rules for others are not exported")
    spec: Object = {
        "containers": [_container({n: a for n, a in template.requests.items() if n != PODS})]
    }
    if template.node_selector:
        spec["nodeSelector"] = dict(template.node_selector)
    if template.required_node_affinity is not None:
        terms = [
            {
                "matchExpressions": [_requirement(r) for r in term.match_expressions],
                "matchFields": [_requirement(r) for r in term.match_fields],
            }
            for term in template.required_node_affinity
        ]
        spec["affinity"] = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
            }
        }
    return spec


def _requirement(requirement: Requirement) -> Object:
    return {
        "key": requirement.key,
        "operator": requirement.operator.value,
        "values": list(requirement.values),
    }


def _container(requests: Mapping[str, int]) -> Object:
    amounts = _quantities(requests)
    return {"name": "main", "resources": {"requests": amounts, "limits": amounts}}


def _quantities(resources: Resources) -> dict[str, str]:
    return {
        name: f"{amount}m" if name == CPU else str(amount) for name, amount in resources.items()
    }


def _class(priority: int) -> str:
    return f"priority-{priority}".replace("--", "-minus-")


def _identity(name: str) -> tuple[str, str]:
    """Namespace and name in ``namespaces/{namespace}/{plural}/{name}``."""
    _, namespace, _, short = name.split("/", 3)
    return namespace, short
