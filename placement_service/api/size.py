"""How large a request may be, checked before it costs more than its own bytes.

`check_message` counts the lists of a message before anything is read.
`check_tables` looks at products (resource names by nodes, say), because the
stages keep a table for each: a small request can ask for a very large one.
Unlike the rules of `validation` these stop at the first fault: such a request is not worth reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from placement.v1 import placement_service_pb2
from placement_service.entities.errors import InvalidRequest, Violation
from placement_service.entities.request import PodTemplate, Request, Snapshot
from placement_service.entities.templates import numbered

MAX_NODES = 100_000
MAX_GANGS = 10_000
MAX_PODS = 1_000_000
MAX_QUEUES = 10_000
MAX_RESERVATIONS = 100_000
MAX_DISRUPTION_BUDGETS = 10_000

#: Groups, pod sets and packing scopes of all gangs.
MAX_PARTS = 200_000

#: Devices of all nodes, and host ports and taints of all nodes.
MAX_NODE_PARTS = 2_000_000

#: Numbers in one table, of eight bytes each.
MAX_CELLS = 20_000_000

#: Pod templates by nodes, of a byte each.
MAX_ELIGIBILITY = 250_000_000

#: Affinity terms, spread constraints and requirements of all different templates, and of
#: running pods.
MAX_TERMS = 500_000

#: Different terms between pods by nodes.
MAX_RULES = 100_000_000


def check_message(message: placement_service_pb2.ComputePlacementRequest) -> None:
    """Raises InvalidRequest when a list is longer than the service takes."""
    snapshot = message.snapshot
    _check(
        ("snapshot.nodes", len(snapshot.nodes), MAX_NODES),
        ("snapshot.pods", len(snapshot.pods), MAX_PODS),
        ("snapshot.queues", len(snapshot.queues), MAX_QUEUES),
        ("snapshot.reservations", len(snapshot.reservations), MAX_RESERVATIONS),
        ("snapshot.disruption_budgets", len(snapshot.disruption_budgets), MAX_DISRUPTION_BUDGETS),
        ("gangs", len(message.gangs), MAX_GANGS),
        ("pod_templates", len(message.pod_templates), MAX_PARTS),
        ("previous_placement", len(message.previous_placement), MAX_PODS),
    )
    groups = [group for gang in message.gangs for group in gang.groups]
    sets = [pod_set for group in groups for pod_set in group.pod_sets]
    pods = sum(len(group.bound_pods) for group in groups)
    pods += sum(len(pod_set.pods) + len(pod_set.bound_pods) for pod_set in sets)
    scopes = [scope for gang in message.gangs for scope in gang.packing_scopes]
    _check(
        ("gangs.groups", len(groups), MAX_PARTS),
        ("gangs.groups.pod_sets", len(sets), MAX_PARTS),
        ("gangs.groups.pod_sets.pods", pods, MAX_PODS),
        ("gangs.packing_scopes", len(scopes), MAX_PARTS),
        ("gangs.packing_scopes.groups", sum(len(scope.groups) for scope in scopes), MAX_PODS),
        ("gangs.previous_nodes", sum(len(g.previous_nodes) for g in message.gangs), MAX_PODS),
    )


def check_node_parts(*, devices: int, host_ports: int, taints: int) -> None:
    """Raises InvalidRequest when all nodes together have more of something than is taken."""
    _check(
        ("snapshot.nodes.devices", devices, MAX_NODE_PARTS),
        ("snapshot.nodes.taints", taints, MAX_NODE_PARTS),
        ("snapshot.nodes.host_ports", host_ports, MAX_NODE_PARTS),
    )


def _check(*lists: tuple[str, int, int]) -> None:
    problems = [
        Violation(field, f"holds {size:,} entries, at most {most:,}")
        for field, size, most in lists
        if size > most
    ]
    if problems:
        raise InvalidRequest(problems)


def check_tables(request: Request) -> None:
    """Raises InvalidRequest when a table of the stages would be larger than they keep."""
    problems = list(_tables(request))
    if problems:
        raise InvalidRequest(problems)


def _tables(request: Request) -> Iterator[Violation]:
    snapshot = request.snapshot
    templates = _templates(snapshot)
    terms = sum(map(_term_count, templates))
    terms += sum(len(pod.required_anti_affinity) for pod in snapshot.running_pods)
    if terms > MAX_TERMS:
        yield Violation(
            "gangs.groups.pod_sets.template",
            f"templates and running pods hold {terms:,} terms, at most {MAX_TERMS:,}",
        )
    nodes = len(snapshot.nodes)
    ports = {port for template in templates for port in template.host_ports}
    for field, count, what, most in (
        ("snapshot.nodes", _resource_names(snapshot, templates), "resource names", MAX_CELLS),
        ("gangs.packing_scopes", len(_levels(snapshot, templates)), "label keys", MAX_CELLS),
        ("gangs.groups.pod_sets.template.host_ports", len(ports), "host ports", MAX_CELLS),
        ("policy.gpu_resources", len(request.policy.gpu_resources), "GPU resources", MAX_CELLS),
        ("gangs.groups.pod_sets.template", len(templates), "templates", MAX_ELIGIBILITY),
        ("gangs.groups.pod_sets.template", _rules(templates), "terms between pods", MAX_RULES),
    ):
        if nodes * count > most:
            yield _too_many(field, nodes, count, what, most)


def check_amounts(nodes: int, names: int) -> None:
    """Raises InvalidRequest when nodes name too many resources for a table of all."""
    if nodes * names > MAX_CELLS:
        field = "snapshot.nodes"
        raise InvalidRequest([_too_many(field, nodes, names, "resource names", MAX_CELLS)])


def _too_many(field: str, nodes: int, count: int, what: str, most: int) -> Violation:
    return Violation(
        field, f"{nodes:,} nodes by {count:,} {what} are {nodes * count:,}, at most {most:,}"
    )


def _templates(snapshot: Snapshot) -> Sequence[PodTemplate]:
    """Different templates."""
    return numbered(
        pod_set.template
        for gang in snapshot.gangs
        for group in gang.groups
        for pod_set in group.pod_sets
    ).templates


def _term_count(template: PodTemplate) -> int:
    affinity = (*template.required_affinity, *template.required_anti_affinity)
    selectors = [
        *(term.selector for term in affinity),
        *(constraint.selector for constraint in template.spread_constraints),
    ]
    node_terms = template.required_node_affinity or ()
    return (
        len(template.tolerations)
        + len(template.node_selector)
        + sum(len(t.match_expressions) + len(t.match_fields) for t in node_terms)
        + len(affinity)
        + sum(len(term.namespaces) for term in affinity)
        + sum(len(s.match_labels) + len(s.match_expressions) for s in selectors if s)
        + len(template.spread_constraints)
        + len(template.host_ports)
    )


def _rules(templates: Iterable[PodTemplate]) -> int:
    """Different affinity terms and spread constraints."""
    found: set[object] = set()
    for template in templates:
        found.update(template.required_affinity, template.required_anti_affinity)
        found.update(template.spread_constraints)
    return len(found)


def _resource_names(snapshot: Snapshot, templates: Iterable[PodTemplate]) -> int:
    nodes = snapshot.columns
    names = {name for resources in nodes.allocatable.kinds for name in resources}
    names.update(nodes.requested)
    names.update(name for template in templates for name in template.requests)
    names.update(name for reservation in snapshot.reservations for name in reservation.held)
    running = (p for gang in snapshot.gangs for g in gang.groups for p in g.running_pods)
    names.update(name for pod in running for name in pod.held or ())
    return len(names)


def _levels(snapshot: Snapshot, templates: Iterable[PodTemplate]) -> set[str]:
    keys = {
        key
        for gang in snapshot.gangs
        for scope in gang.packing_scopes
        for key in (scope.required_level, scope.preferred_level)
        if key
    }
    for template in templates:
        for term in (*template.required_affinity, *template.required_anti_affinity):
            keys.add(term.topology_key)
        keys.update(constraint.topology_key for constraint in template.spread_constraints)
    keys.update(t.topology_key for pod in snapshot.running_pods for t in pod.required_anti_affinity)
    return keys
