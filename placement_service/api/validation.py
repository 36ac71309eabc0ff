"""What a request must keep to be answerable, one small function per rule.

Each rule of `RULES` reads the whole request and yields a violation, with the
field path as in the message, for every place where it is broken: a caller sees
all faults at once. What a value cannot hold in the first place is found in
`wire`. A gang that cannot be placed is not a fault, and neither is a reference
that a cluster in motion may leave behind: running pods on nodes that are gone,
previous nodes and previous placements that no longer exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice

from placement_service.api import not_yet
from placement_service.entities.errors import MAX_VIOLATIONS, InvalidRequest, Violation
from placement_service.entities.request import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    BoundPod,
    HostPort,
    PodAffinityTerm,
    PodGroup,
    PodTemplate,
    Request,
    Resources,
)
from placement_service.entities.selectors import LabelSelector, Operator, Requirement

MAX_NODES = 100_000
MAX_GANGS = 10_000
MAX_PODS = 1_000_000

#: Above this, sums of amounts over a cluster could leave 64 bits.
MAX_AMOUNT = 2**53

#: The range of google.protobuf.Duration.
MAX_DURATION_SECONDS = 315_576_000_000

#: The field of `Resources` that holds a resource; all others are in `extended`.
RESOURCE_FIELDS: Mapping[str, str] = {
    CPU: "cpu_millis",
    MEMORY: "memory_bytes",
    EPHEMERAL_STORAGE: "ephemeral_storage_bytes",
    PODS: "pod_count",
}

PROTOCOLS = ("TCP", "UDP", "SCTP")

# One segment of a name. Wider than Kubernetes (capitals, underscores), because
# other schedulers name things too; narrow enough to print and to split.
_SEGMENT = r"[A-Za-z0-9](?:[-A-Za-z0-9._]{0,251}[A-Za-z0-9])?"
_NODE = re.compile(f"nodes/{_SEGMENT}")
_POD = re.compile(f"namespaces/{_SEGMENT}/pods/{_SEGMENT}")
_GANG = re.compile(f"namespaces/{_SEGMENT}/podgangs/{_SEGMENT}")
_GROUP = re.compile(_SEGMENT)
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")

_NODE_FORM = 'must have the form "nodes/{node}"'
_POD_FORM = 'must have the form "namespaces/{namespace}/pods/{pod}"'
_GANG_FORM = 'must have the form "namespaces/{namespace}/podgangs/{podgang}"'

#: Characters of a bad name that an error message repeats.
_SHOWN = 60


def check_size(field: str, size: int, maximum: int) -> None:
    """Raises InvalidRequest when a list is longer than the service takes.

    Unlike the rules it stops at once: such a request is not worth reading.
    """
    if size > maximum:
        raise InvalidRequest([Violation(field, f"holds {size:,} entries, at most {maximum:,}")])


def violations(request: Request) -> Iterator[Violation]:
    """Every violation of every rule."""
    return chain.from_iterable(rule(request) for rule in (*RULES, *not_yet.RULES))


def first_violations(every: Iterable[Violation]) -> tuple[tuple[Violation, ...], int]:
    """The first violations, at most MAX_VIOLATIONS, and how many there are in all."""
    rest = iter(every)
    first = tuple(islice(rest, MAX_VIOLATIONS))
    return first, len(first) + sum(1 for _ in rest)


def namespace_in(name: str) -> str:
    """The namespace in a resource name, "" when the name is malformed."""
    parts = name.split("/", 2)
    return parts[1] if len(parts) == 3 else ""


def extended_path(name: str) -> str:
    """The path of an extended resource below its `Resources`."""
    return f"extended[{_show(name)}]"


def _show(text: str) -> str:
    """Text for an error message: quoted, printable, of bounded length."""
    return ascii(text if len(text) <= _SHOWN else text[:_SHOWN] + "...").replace("'", '"')


# --- Rules on the whole request ---


def node_names_are_well_formed_and_unique(request: Request) -> Iterator[Violation]:
    seen: dict[str, int] = {}
    for i, node in enumerate(request.snapshot.nodes):
        if not _NODE.fullmatch(node.name):
            yield Violation(f"snapshot.nodes[{i}].name", f"{_NODE_FORM}, is {_show(node.name)}")
        first = seen.setdefault(node.name, i)
        if first != i:
            yield Violation(
                f"snapshot.nodes[{i}].name",
                f"{_show(node.name)} is also the name of snapshot.nodes[{first}]",
            )


def gang_names_are_well_formed_and_unique(request: Request) -> Iterator[Violation]:
    seen: dict[str, int] = {}
    for i, gang in enumerate(request.snapshot.gangs):
        if not _GANG.fullmatch(gang.name):
            yield Violation(f"gangs[{i}].name", f"{_GANG_FORM}, is {_show(gang.name)}")
        first = seen.setdefault(gang.name, i)
        if first != i:
            yield Violation(
                f"gangs[{i}].name", f"{_show(gang.name)} is also the name of gangs[{first}]"
            )


def groups_are_there_and_well_named(request: Request) -> Iterator[Violation]:
    for i, gang in enumerate(request.snapshot.gangs):
        if not gang.groups:
            yield Violation(f"gangs[{i}].groups", "must hold at least one group")
        seen: dict[str, int] = {}
        for j, group in enumerate(gang.groups):
            path = f"gangs[{i}].groups[{j}].name"
            if not _GROUP.fullmatch(group.name):
                yield Violation(path, f"must be a name, is {_show(group.name)}")
            first = seen.setdefault(group.name, j)
            if first != j:
                yield Violation(
                    path, f"{_show(group.name)} is also the name of gangs[{i}].groups[{first}]"
                )


def pod_counts_are_not_negative(request: Request) -> Iterator[Violation]:
    for i, gang in enumerate(request.snapshot.gangs):
        for j, group in enumerate(gang.groups):
            for field, count in (
                ("min_replicas", group.min_replicas),
                ("gated_count", group.gated_count),
            ):
                if count < 0:
                    yield Violation(
                        f"gangs[{i}].groups[{j}].{field}", f"must not be negative, is {count}"
                    )


def pod_sets_hold_pods(request: Request) -> Iterator[Violation]:
    for i, gang in enumerate(request.snapshot.gangs):
        for j, group in enumerate(gang.groups):
            for k, pod_set in enumerate(group.pod_sets):
                if not pod_set.pods and not pod_set.bound_pods:
                    yield Violation(
                        f"gangs[{i}].groups[{j}].pod_sets[{k}].pods", "must hold at least one pod"
                    )


def pods_are_well_named_and_once_in_the_request(request: Request) -> Iterator[Violation]:
    """Pending and bound pods of all gangs; a pod lives in its gang's namespace.

    Rules between pods are about namespaces, and a template speaks for all pods
    of its set, so they must share one.
    """
    seen: set[str] = set()
    for i, gang in enumerate(request.snapshot.gangs):
        home = f"namespaces/{namespace_in(gang.name)}/"
        for j, group in enumerate(gang.groups):
            for k, pod_set in enumerate(group.pod_sets):
                for n, pod in enumerate(pod_set.pods):
                    problem = _pod_problem(pod.name, home, seen)
                    if problem:
                        path = f"gangs[{i}].groups[{j}].pod_sets[{k}].pods[{n}].name"
                        yield Violation(path, problem)
            for path, bound in bound_pods(group):
                problem = _pod_problem(bound.name, home, seen)
                if problem:
                    yield Violation(f"gangs[{i}].groups[{j}].{path}.name", problem)


def bound_pods(group: PodGroup) -> Iterator[tuple[str, BoundPod]]:
    """Every running pod of a group with its path in the group."""
    for k, pod_set in enumerate(group.pod_sets):
        for n, pod in enumerate(pod_set.bound_pods):
            yield f"pod_sets[{k}].bound_pods[{n}]", pod
    for n, pod in enumerate(group.fixed_pods):
        yield f"bound_pods[{n}]", pod


def _pod_problem(name: str, home: str, seen: set[str]) -> str:
    if not _POD.fullmatch(name):
        return f"{_POD_FORM}, is {_show(name)}"
    if name in seen:
        return f"{_show(name)} is in the request already"
    seen.add(name)
    if not name.startswith(home):
        return f"must be in the namespace of its gang, {_show(home[11:-1])}"
    return ""


def bound_pods_name_a_node(request: Request) -> Iterator[Violation]:
    """The node need not be in the snapshot."""
    for i, gang in enumerate(request.snapshot.gangs):
        for j, group in enumerate(gang.groups):
            for path, pod in bound_pods(group):
                if not _NODE.fullmatch(pod.node):
                    yield Violation(
                        f"gangs[{i}].groups[{j}].{path}.node",
                        f"{_NODE_FORM}, is {_show(pod.node)}",
                    )


def previous_nodes_are_well_formed(request: Request) -> Iterator[Violation]:
    """The nodes need not be in the snapshot."""
    for i, gang in enumerate(request.snapshot.gangs):
        for n, node in enumerate(gang.previous_nodes):
            if not _NODE.fullmatch(node):
                yield Violation(
                    f"gangs[{i}].previous_nodes[{n}]", f"{_NODE_FORM}, is {_show(node)}"
                )


def scopes_name_groups_of_their_gang(request: Request) -> Iterator[Violation]:
    for i, gang in enumerate(request.snapshot.gangs):
        names = {group.name for group in gang.groups}
        for j, scope in enumerate(gang.packing_scopes):
            for n, group_name in enumerate(scope.groups):
                if group_name not in names:
                    yield Violation(
                        f"gangs[{i}].packing_scopes[{j}].groups[{n}]",
                        f"{_show(group_name)} is not a group of this gang",
                    )


def base_gangs_are_known_and_have_no_base(request: Request) -> Iterator[Violation]:
    bases = {gang.name: gang.base_gang for gang in request.snapshot.gangs}
    for i, gang in enumerate(request.snapshot.gangs):
        base = gang.base_gang
        if not base:
            continue
        if base == gang.name:
            problem = "a gang must not be its own base"
        elif base not in bases:
            problem = f"{_show(base)} is not a gang of this request"
        elif bases[base]:
            problem = f"{_show(base)} has a base gang itself"
        else:
            continue
        yield Violation(f"gangs[{i}].base_gang", problem)


def running_pods_are_well_named_unique_and_not_pending(request: Request) -> Iterator[Violation]:
    if not request.snapshot.running_pods:
        return
    pending = {
        pod.name
        for gang in request.snapshot.gangs
        for group in gang.groups
        for pod_set in group.pod_sets
        for pod in pod_set.pods
    }
    seen: dict[str, int] = {}
    for i, pod in enumerate(request.snapshot.running_pods):
        path = f"snapshot.pods[{i}]"
        if not _POD.fullmatch(pod.name):
            yield Violation(f"{path}.name", f"{_POD_FORM}, is {_show(pod.name)}")
        if not _NODE.fullmatch(pod.node):
            yield Violation(f"{path}.node", f"{_NODE_FORM}, is {_show(pod.node)}")
        first = seen.setdefault(pod.name, i)
        if first != i:
            yield Violation(
                f"{path}.name", f"{_show(pod.name)} is also the name of snapshot.pods[{first}]"
            )
        if pod.name in pending:
            yield Violation(f"{path}.name", f"{_show(pod.name)} is to be placed as well")


def resources_of_nodes_are_in_range(request: Request) -> Iterator[Violation]:
    # Machines of one kind share the object, see `wire`.
    known: dict[int, tuple[tuple[str, str], ...]] = {}
    for i, node in enumerate(request.snapshot.nodes):
        for field, resources in (("allocatable", node.allocatable), ("requested", node.requested)):
            problems = known.get(id(resources))
            if problems is None:
                problems = known[id(resources)] = tuple(_resource_problems(resources))
            for path, problem in problems:
                yield Violation(f"snapshot.nodes[{i}].{field}.{path}", problem)


def host_ports_of_nodes_exist(request: Request) -> Iterator[Violation]:
    for i, node in enumerate(request.snapshot.nodes):
        for path, problem in _host_port_problems(node.host_ports):
            yield Violation(f"snapshot.nodes[{i}].{path}", problem)


def terms_of_running_pods_are_sound(request: Request) -> Iterator[Violation]:
    for i, pod in enumerate(request.snapshot.running_pods):
        for path, problem in _affinity_problems(
            "required_anti_affinity", pod.required_anti_affinity
        ):
            yield Violation(f"snapshot.pods[{i}].{path}", problem)


def templates_are_sound(request: Request) -> Iterator[Violation]:
    known: dict[int, tuple[tuple[str, str], ...]] = {}
    for i, gang in enumerate(request.snapshot.gangs):
        for j, group in enumerate(gang.groups):
            for k, pod_set in enumerate(group.pod_sets):
                template = pod_set.template
                problems = known.get(id(template))
                if problems is None:
                    problems = known[id(template)] = tuple(
                        chain.from_iterable(rule(template) for rule in TEMPLATE_RULES)
                    )
                for path, problem in problems:
                    yield Violation(
                        f"gangs[{i}].groups[{j}].pod_sets[{k}].template.{path}", problem
                    )


def gpu_resources_have_names(request: Request) -> Iterator[Violation]:
    for i, name in enumerate(request.policy.gpu_resources):
        if not name:
            yield Violation(f"policy.gpu_resources[{i}]", "must not be empty")


def the_time_limit_is_positive_and_a_duration(request: Request) -> Iterator[Violation]:
    limit = request.time_limit_seconds
    if limit is not None and limit <= 0:
        yield Violation("time_limit", f"must be positive, is {limit:g} s")
    elif limit is not None and limit > MAX_DURATION_SECONDS:
        yield Violation("time_limit", f"is no duration of at most 10,000 years: {limit:g} s")


RULES: tuple[Callable[[Request], Iterator[Violation]], ...] = (
    node_names_are_well_formed_and_unique,
    resources_of_nodes_are_in_range,
    host_ports_of_nodes_exist,
    running_pods_are_well_named_unique_and_not_pending,
    terms_of_running_pods_are_sound,
    gang_names_are_well_formed_and_unique,
    groups_are_there_and_well_named,
    pod_counts_are_not_negative,
    pod_sets_hold_pods,
    pods_are_well_named_and_once_in_the_request,
    bound_pods_name_a_node,
    templates_are_sound,
    scopes_name_groups_of_their_gang,
    base_gangs_are_known_and_have_no_base,
    previous_nodes_are_well_formed,
    gpu_resources_have_names,
    the_time_limit_is_positive_and_a_duration,
)


# --- Rules on one template: (path below the template, problem) ---


def requests_are_in_range(template: PodTemplate) -> Iterator[tuple[str, str]]:
    for path, problem in _resource_problems(template.requests):
        yield f"requests.{path}", problem


def node_requirements_are_sound(template: PodTemplate) -> Iterator[tuple[str, str]]:
    for i, term in enumerate(template.required_node_affinity or ()):
        path = f"required_node_affinity.terms[{i}]"
        for n, requirement in enumerate(term.match_expressions):
            yield from _requirement_problems(f"{path}.match_expressions[{n}]", requirement)
        for n, requirement in enumerate(term.match_fields):
            at = f"{path}.match_fields[{n}]"
            if requirement.key != "metadata.name":
                yield f"{at}.key", f'must be "metadata.name", is {_show(requirement.key)}'
            if requirement.operator not in (Operator.IN, Operator.NOT_IN):
                yield f"{at}.operator", "must be IN or NOT_IN on a field"
            else:
                yield from _requirement_problems(at, requirement)


def affinity_terms_are_sound(template: PodTemplate) -> Iterator[tuple[str, str]]:
    yield from _affinity_problems("required_affinity", template.required_affinity)
    yield from _affinity_problems("required_anti_affinity", template.required_anti_affinity)


def requested_host_ports_exist(template: PodTemplate) -> Iterator[tuple[str, str]]:
    return _host_port_problems(template.host_ports)


def spread_constraints_are_sound(template: PodTemplate) -> Iterator[tuple[str, str]]:
    for i, constraint in enumerate(template.spread_constraints):
        path = f"spread_constraints[{i}]"
        if constraint.max_skew < 1:
            yield f"{path}.max_skew", f"must be at least 1, is {constraint.max_skew}"
        if constraint.min_domains < 1:
            yield f"{path}.min_domains", f"must not be negative, is {constraint.min_domains}"
        if not constraint.topology_key:
            yield f"{path}.topology_key", "must not be empty"
        yield from _selector_problems(f"{path}.selector", constraint.selector)


TEMPLATE_RULES: tuple[Callable[[PodTemplate], Iterator[tuple[str, str]]], ...] = (
    requests_are_in_range,
    node_requirements_are_sound,
    affinity_terms_are_sound,
    requested_host_ports_exist,
    spread_constraints_are_sound,
)


# --- Parts ---


def _resource_problems(resources: Resources) -> Iterator[tuple[str, str]]:
    for name, amount in resources.items():
        path = RESOURCE_FIELDS.get(name) or extended_path(name)
        if not name:
            yield path, "must have a name"
        if amount < 0:
            yield path, f"must not be negative, is {amount}"
        elif amount > MAX_AMOUNT:
            yield path, f"must be at most 2**53, is {amount}"


def _host_port_problems(ports: tuple[HostPort, ...]) -> Iterator[tuple[str, str]]:
    for i, port in enumerate(ports):
        if not 1 <= port.port <= 65535:
            yield f"host_ports[{i}].port", f"must be from 1 to 65535, is {port.port}"
        if port.protocol not in PROTOCOLS:
            yield (
                f"host_ports[{i}].protocol",
                f"must be TCP, UDP or SCTP, is {_show(port.protocol)}",
            )


def _affinity_problems(field: str, terms: tuple[PodAffinityTerm, ...]) -> Iterator[tuple[str, str]]:
    for i, term in enumerate(terms):
        if not term.topology_key:
            yield f"{field}[{i}].topology_key", "must not be empty"
        yield from _selector_problems(f"{field}[{i}].selector", term.selector)


def _selector_problems(path: str, selector: LabelSelector | None) -> Iterator[tuple[str, str]]:
    for n, requirement in enumerate(selector.match_expressions if selector else ()):
        at = f"{path}.match_expressions[{n}]"
        if requirement.operator in (Operator.GT, Operator.LT):
            yield f"{at}.operator", "GT and LT are for nodes only"
        else:
            yield from _requirement_problems(at, requirement)


def _requirement_problems(path: str, requirement: Requirement) -> Iterator[tuple[str, str]]:
    if not requirement.key:
        yield f"{path}.key", "must not be empty"
    values = requirement.values
    match requirement.operator:
        case Operator.IN | Operator.NOT_IN:
            if not values:
                yield f"{path}.values", "must hold at least one value"
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            if values:
                yield f"{path}.values", "must be empty for EXISTS and DOES_NOT_EXIST"
        case Operator.GT | Operator.LT:
            if len(values) != 1 or not _INTEGER.fullmatch(values[0]):
                yield f"{path}.values", "must hold exactly one integer for GT and LT"
