"""Messages to values and back: where the wire ends.

`parse_request` and `request_to_proto` are inverses of each other, up to what
the value fills in: defaults, the groups of a scope that names none, and the
namespaces of a term that names none. What a value cannot hold (an unspecified
operator, say) is noticed here; all other rules are in `validation`, and
`parse_request` reports the violations of both together. Positions are kept:
the third node of the message is the third node of the snapshot.

Nothing is decided here, and nothing outside this module, `status`, `service`
and `server` sees a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TypeVar

from google.protobuf import duration_pb2

from placement.v1 import cluster_pb2, placement_pb2, placement_service_pb2, workload_pb2
from placement_service.api import validation
from placement_service.entities.errors import InvalidRequest, Violation
from placement_service.entities.placement import (
    GangResult,
    Placement,
    Progress,
    Reason,
    ReasonCode,
    ReasonState,
    ScopeUse,
    Stats,
    Termination,
)
from placement_service.entities.request import (
    CPU,
    DEFAULT_GPU_RESOURCES,
    DEFAULT_POD_LIMIT,
    EPHEMERAL_STORAGE,
    HOSTNAME,
    MEMORY,
    PODS,
    Binding,
    BoundPod,
    Effect,
    HostPort,
    LabelSelector,
    Node,
    NodeSelectorTerm,
    Operator,
    PackingScope,
    Pod,
    PodAffinityTerm,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Request,
    Requirement,
    Resources,
    RunningPod,
    Snapshot,
    SpreadConstraint,
    Taint,
    Toleration,
)
from placement_service.entities.solution import Limit, Tier, TierName

OPERATORS: Mapping[cluster_pb2.SelectorOperator, Operator] = {
    cluster_pb2.SELECTOR_OPERATOR_IN: Operator.IN,
    cluster_pb2.SELECTOR_OPERATOR_NOT_IN: Operator.NOT_IN,
    cluster_pb2.SELECTOR_OPERATOR_EXISTS: Operator.EXISTS,
    cluster_pb2.SELECTOR_OPERATOR_DOES_NOT_EXIST: Operator.DOES_NOT_EXIST,
    cluster_pb2.SELECTOR_OPERATOR_GT: Operator.GT,
    cluster_pb2.SELECTOR_OPERATOR_LT: Operator.LT,
}

EFFECTS: Mapping[cluster_pb2.TaintEffect, Effect] = {
    cluster_pb2.TAINT_EFFECT_NO_SCHEDULE: Effect.NO_SCHEDULE,
    cluster_pb2.TAINT_EFFECT_PREFER_NO_SCHEDULE: Effect.PREFER_NO_SCHEDULE,
    cluster_pb2.TAINT_EFFECT_NO_EXECUTE: Effect.NO_EXECUTE,
}

#: Whether only the key is compared.
TOLERATION_OPERATORS: Mapping[workload_pb2.TolerationOperator, bool] = {
    workload_pb2.TOLERATION_OPERATOR_UNSPECIFIED: False,
    workload_pb2.TOLERATION_OPERATOR_EQUAL: False,
    workload_pb2.TOLERATION_OPERATOR_EXISTS: True,
}

LIMITS: Mapping[Limit, placement_pb2.TerminationLimit] = {
    Limit.NONE: placement_pb2.TERMINATION_LIMIT_UNSPECIFIED,
    Limit.TIME: placement_pb2.TERMINATION_LIMIT_TIME,
    Limit.EFFORT: placement_pb2.TERMINATION_LIMIT_EFFORT,
    Limit.SOLVER_LOST: placement_pb2.TERMINATION_LIMIT_SOLVER_LOST,
}

REASON_CODES: Mapping[ReasonCode, placement_pb2.ReasonCode] = {
    code: getattr(placement_pb2, f"REASON_CODE_{code.value}") for code in ReasonCode
}

REASON_STATES: Mapping[ReasonState, placement_pb2.ReasonState] = {
    state: getattr(placement_pb2, f"REASON_STATE_{state.value}") for state in ReasonState
}

_K = TypeVar("_K")
_V = TypeVar("_V")


def _inverse(table: Mapping[_K, _V]) -> dict[_V, _K]:
    return {value: key for key, value in table.items()}


OPERATOR_NUMBERS = _inverse(OPERATORS)
EFFECT_NUMBERS = _inverse(EFFECTS)

#: Where violations go while a part of the message is read: (path, description)
#: with the path relative to that part, so that paths cost nothing when all is well.
_Found = list[tuple[str, str]]


# --- Request ---


def parse_request(message: placement_service_pb2.ComputePlacementRequest) -> Request:
    """The question in a message; raises InvalidRequest with every violation."""
    snapshot = message.snapshot
    validation.check_size("snapshot.nodes", len(snapshot.nodes), validation.MAX_NODES)
    validation.check_size("snapshot.pods", len(snapshot.pods), validation.MAX_PODS)
    validation.check_size("gangs", len(message.gangs), validation.MAX_GANGS)
    validation.check_size("gangs.groups", _count_pods(message), validation.MAX_PODS)
    validation.check_size(
        "previous_placement", len(message.previous_placement), validation.MAX_PODS
    )
    found: list[Violation] = []
    request = Request(
        snapshot=Snapshot(
            nodes=tuple(_parse_nodes(snapshot.nodes, found)),
            gangs=tuple(_parse_gangs(message.gangs, found)),
            running_pods=tuple(_parse_running_pods(snapshot.pods, found)),
            revision=snapshot.revision,
        ),
        policy=Policy(
            gpu_resources=tuple(message.policy.gpu_resources) or DEFAULT_GPU_RESOURCES,
            deterministic=message.policy.deterministic,
        ),
        time_limit_seconds=_seconds(message.time_limit) if message.HasField("time_limit") else None,
        previous=tuple(_parse_binding(b) for b in message.previous_placement),
        validate_only=message.validate_only,
        label=message.label,
    )
    first, count = validation.first_violations(chain(found, validation.violations(request)))
    if count:
        raise InvalidRequest(first, count)
    return request


def request_to_proto(request: Request) -> placement_service_pb2.ComputePlacementRequest:
    """The message that `parse_request` reads as this request."""
    message = placement_service_pb2.ComputePlacementRequest(
        snapshot=cluster_pb2.ClusterSnapshot(
            revision=request.snapshot.revision,
            nodes=map(_node_to_proto, request.snapshot.nodes),
            pods=map(_running_pod_to_proto, request.snapshot.running_pods),
        ),
        gangs=map(_gang_to_proto, request.snapshot.gangs),
        policy=placement_service_pb2.Policy(
            gpu_resources=request.policy.gpu_resources,
            deterministic=request.policy.deterministic,
        ),
        previous_placement=map(_binding_to_proto, request.previous),
        validate_only=request.validate_only,
        label=request.label,
    )
    if request.time_limit_seconds is not None:
        message.time_limit.CopyFrom(_duration(request.time_limit_seconds))
    return message


def _add(violations: list[Violation], path: str, found: _Found) -> None:
    violations.extend(Violation(f"{path}.{field}", what) for field, what in found)


def _count_pods(message: placement_service_pb2.ComputePlacementRequest) -> int:
    return sum(
        len(group.bound_pods) + sum(len(pod_set.pods) for pod_set in group.pod_sets)
        for gang in message.gangs
        for group in gang.groups
    )


# --- Nodes and running pods ---


def _parse_nodes(
    messages: Iterable[cluster_pb2.Node], violations: list[Violation]
) -> Iterable[Node]:
    # Machines come in few kinds: equal resources become one object, found by
    # their bytes, which is several times faster than reading them again.
    kinds: dict[tuple[str, bytes], tuple[Resources, _Found]] = {}
    for i, message in enumerate(messages):
        found: _Found = []
        name = message.name
        labels = dict(message.labels)
        if HOSTNAME not in labels:
            labels[HOSTNAME] = name.removeprefix("nodes/")
        amounts = []
        for field, part in (
            ("allocatable", message.allocatable),
            ("requested", message.requested),
        ):
            key = (field, part.SerializeToString(deterministic=True))
            known = kinds.get(key)
            if known is None:
                problems: _Found = []
                resources = _parse_resources(part, problems)
                if field == "allocatable" and not resources.get(PODS):
                    resources[PODS] = DEFAULT_POD_LIMIT
                known = kinds[key] = (resources, problems)
            amounts.append(known[0])
            found.extend((f"{field}.{path}", what) for path, what in known[1])
        allocatable, requested = amounts
        yield Node(
            name=name,
            labels=labels,
            allocatable=allocatable,
            requested=requested,
            taints=_parse_taints(message.taints, found) if message.taints else (),
            unschedulable=message.unschedulable,
            ready=not message.not_ready,
            host_ports=_parse_host_ports(message.host_ports) if message.host_ports else (),
        )
        if found:
            _add(violations, f"snapshot.nodes[{i}]", found)


def _node_to_proto(node: Node) -> cluster_pb2.Node:
    return cluster_pb2.Node(
        name=node.name,
        labels=node.labels,
        allocatable=_resources_to_proto(node.allocatable),
        requested=_resources_to_proto(node.requested),
        taints=[
            cluster_pb2.Taint(key=t.key, value=t.value, effect=_effect_to_proto(t.effect))
            for t in node.taints
        ],
        unschedulable=node.unschedulable,
        not_ready=not node.ready,
        host_ports=map(_host_port_to_proto, node.host_ports),
    )


def _parse_running_pods(
    messages: Iterable[cluster_pb2.RunningPod], violations: list[Violation]
) -> Iterable[RunningPod]:
    for i, message in enumerate(messages):
        found: _Found = []
        terms = message.required_anti_affinity
        yield RunningPod(
            name=message.name,
            node=message.node,
            labels=dict(message.labels),
            required_anti_affinity=_parse_affinity_terms(
                terms, "required_anti_affinity", validation.namespace_in(message.name), found
            )
            if terms
            else (),
        )
        if found:
            _add(violations, f"snapshot.pods[{i}]", found)


def _running_pod_to_proto(pod: RunningPod) -> cluster_pb2.RunningPod:
    return cluster_pb2.RunningPod(
        name=pod.name,
        node=pod.node,
        labels=pod.labels,
        required_anti_affinity=map(_affinity_term_to_proto, pod.required_anti_affinity),
    )


def _parse_resources(message: cluster_pb2.Resources, found: _Found) -> dict[str, int]:
    named = {
        CPU: message.cpu_millis,
        MEMORY: message.memory_bytes,
        EPHEMERAL_STORAGE: message.ephemeral_storage_bytes,
        PODS: message.pod_count,
    }
    extended = dict(message.extended)
    for name, field in validation.RESOURCE_FIELDS.items():
        if extended.pop(name, None) is not None:
            found.append((validation.extended_path(name), f"has a field of its own, {field}"))
    return {name: amount for name, amount in chain(named.items(), extended.items()) if amount}


def _resources_to_proto(resources: Resources) -> cluster_pb2.Resources:
    own = validation.RESOURCE_FIELDS
    return cluster_pb2.Resources(
        cpu_millis=resources.get(CPU, 0),
        memory_bytes=resources.get(MEMORY, 0),
        ephemeral_storage_bytes=resources.get(EPHEMERAL_STORAGE, 0),
        pod_count=resources.get(PODS, 0),
        extended={name: amount for name, amount in resources.items() if amount and name not in own},
    )


def _parse_taints(messages: Iterable[cluster_pb2.Taint], found: _Found) -> tuple[Taint, ...]:
    taints = []
    for i, message in enumerate(messages):
        effect = EFFECTS.get(message.effect)
        if effect is None:
            found.append((f"taints[{i}].effect", _unspecified(message.effect)))
            effect = Effect.NO_SCHEDULE
        taints.append(Taint(message.key, message.value, effect))
    return tuple(taints)


def _effect_to_proto(effect: Effect | None) -> cluster_pb2.TaintEffect:
    return cluster_pb2.TAINT_EFFECT_UNSPECIFIED if effect is None else EFFECT_NUMBERS[effect]


def _parse_host_ports(messages: Iterable[cluster_pb2.HostPort]) -> tuple[HostPort, ...]:
    return tuple(
        HostPort(
            message.port,
            message.protocol or "TCP",
            "" if message.host_ip == "0.0.0.0" else message.host_ip,
        )
        for message in messages
    )


def _host_port_to_proto(port: HostPort) -> cluster_pb2.HostPort:
    return cluster_pb2.HostPort(port=port.port, protocol=port.protocol, host_ip=port.host_ip)


# --- Selectors ---


def _unspecified(number: int) -> str:
    return "must be specified" if number == 0 else f"has no member {number}"


def _parse_requirements(
    messages: Iterable[cluster_pb2.SelectorRequirement], path: str, found: _Found
) -> tuple[Requirement, ...]:
    requirements = []
    for i, message in enumerate(messages):
        operator = OPERATORS.get(message.operator)
        if operator is None:
            found.append((f"{path}[{i}].operator", _unspecified(message.operator)))
            # A stand-in that the rules on values accept, so that the one fault
            # is reported once.
            operator = Operator.IN if message.values else Operator.EXISTS
        requirements.append(Requirement(message.key, operator, tuple(message.values)))
    return tuple(requirements)


def _requirement_to_proto(requirement: Requirement) -> cluster_pb2.SelectorRequirement:
    return cluster_pb2.SelectorRequirement(
        key=requirement.key,
        operator=OPERATOR_NUMBERS[requirement.operator],
        values=requirement.values,
    )


def _parse_selector(message: cluster_pb2.LabelSelector, path: str, found: _Found) -> LabelSelector:
    return LabelSelector(
        match_labels=tuple(sorted(message.match_labels.items())),
        match_expressions=_parse_requirements(
            message.match_expressions, f"{path}.match_expressions", found
        ),
    )


def _selector_to_proto(selector: LabelSelector | None) -> cluster_pb2.LabelSelector | None:
    if selector is None:
        return None
    return cluster_pb2.LabelSelector(
        match_labels=dict(selector.match_labels),
        match_expressions=map(_requirement_to_proto, selector.match_expressions),
    )


def _parse_affinity_terms(
    messages: Iterable[cluster_pb2.PodAffinityTerm], path: str, namespace: str, found: _Found
) -> tuple[PodAffinityTerm, ...]:
    return tuple(
        PodAffinityTerm(
            selector=_parse_selector(message.selector, f"{path}[{i}].selector", found)
            if message.HasField("selector")
            else None,
            topology_key=message.topology_key,
            namespaces=tuple(message.namespaces)
            or (() if message.all_namespaces else (namespace,)),
            all_namespaces=message.all_namespaces,
        )
        for i, message in enumerate(messages)
    )


def _affinity_term_to_proto(term: PodAffinityTerm) -> cluster_pb2.PodAffinityTerm:
    return cluster_pb2.PodAffinityTerm(
        selector=_selector_to_proto(term.selector),
        topology_key=term.topology_key,
        namespaces=term.namespaces,
        all_namespaces=term.all_namespaces,
    )


def _parse_node_selector(
    message: workload_pb2.NodeSelector, found: _Found
) -> tuple[NodeSelectorTerm, ...]:
    path = "required_node_affinity.terms"
    return tuple(
        NodeSelectorTerm(
            _parse_requirements(term.match_expressions, f"{path}[{i}].match_expressions", found),
            _parse_requirements(term.match_fields, f"{path}[{i}].match_fields", found),
        )
        for i, term in enumerate(message.terms)
    )


def _node_selector_to_proto(
    terms: tuple[NodeSelectorTerm, ...] | None,
) -> workload_pb2.NodeSelector | None:
    if terms is None:
        return None
    return workload_pb2.NodeSelector(
        terms=[
            workload_pb2.NodeSelectorTerm(
                match_expressions=map(_requirement_to_proto, term.match_expressions),
                match_fields=map(_requirement_to_proto, term.match_fields),
            )
            for term in terms
        ]
    )


# --- Gangs ---


class _Templates:
    """Templates by their bytes: equal ones are read once and are one object."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, str], tuple[PodTemplate, _Found]] = {}

    def get(self, message: workload_pb2.PodTemplate, namespace: str) -> tuple[PodTemplate, _Found]:
        key = (message.SerializeToString(deterministic=True), namespace)
        known = self._known.get(key)
        if known is None:
            found: _Found = []
            known = self._known[key] = (_parse_template(message, namespace, found), found)
        return known


def _parse_gangs(
    messages: Iterable[workload_pb2.PodGang], violations: list[Violation]
) -> Iterable[PodGang]:
    templates = _Templates()
    for i, message in enumerate(messages):
        path = f"gangs[{i}]"
        name = message.name
        groups = tuple(
            _parse_group(
                group, templates, validation.namespace_in(name), f"{path}.groups[{j}]", violations
            )
            for j, group in enumerate(message.groups)
        )
        every = tuple(group.name for group in groups)
        yield PodGang(
            name=name,
            groups=groups,
            priority=message.priority,
            packing_scopes=tuple(
                PackingScope(
                    name=scope.name,
                    groups=tuple(scope.groups) or every,
                    required_level=scope.required_level,
                    preferred_level=scope.preferred_level,
                )
                for scope in message.packing_scopes
            ),
            base_gang=message.base_gang,
            uninitialized=message.uninitialized,
            previous_nodes=tuple(message.previous_nodes),
            unsupported=tuple(message.unsupported),
        )


def _parse_group(
    message: workload_pb2.PodGroup,
    templates: _Templates,
    namespace: str,
    path: str,
    violations: list[Violation],
) -> PodGroup:
    pod_sets = []
    for k, pod_set in enumerate(message.pod_sets):
        template, found = templates.get(pod_set.template, namespace)
        if found:
            _add(violations, f"{path}.pod_sets[{k}].template", found)
        pods = tuple(
            [
                Pod(pod.name, pod.uid, pod.rank if pod.HasField("rank") else None)
                for pod in pod_set.pods
            ]
        )
        pod_sets.append(PodSet(template, pods))
    return PodGroup(
        name=message.name,
        min_replicas=message.min_replicas,
        pod_sets=tuple(pod_sets),
        bound_pods=tuple([BoundPod(pod.name, pod.node) for pod in message.bound_pods]),
        gated_count=message.gated_count,
    )


def _gang_to_proto(gang: PodGang) -> workload_pb2.PodGang:
    return workload_pb2.PodGang(
        name=gang.name,
        priority=gang.priority,
        groups=[
            workload_pb2.PodGroup(
                name=group.name,
                min_replicas=group.min_replicas,
                pod_sets=[
                    workload_pb2.PodSet(
                        template=_template_to_proto(pod_set.template),
                        pods=[
                            workload_pb2.Pod(name=p.name, uid=p.uid, rank=p.rank)
                            for p in pod_set.pods
                        ],
                    )
                    for pod_set in group.pod_sets
                ],
                bound_pods=[
                    workload_pb2.BoundPod(name=p.name, node=p.node) for p in group.bound_pods
                ],
                gated_count=group.gated_count,
            )
            for group in gang.groups
        ],
        packing_scopes=[
            workload_pb2.PackingScope(
                name=scope.name,
                groups=scope.groups,
                required_level=scope.required_level,
                preferred_level=scope.preferred_level,
            )
            for scope in gang.packing_scopes
        ],
        base_gang=gang.base_gang,
        uninitialized=gang.uninitialized,
        previous_nodes=gang.previous_nodes,
        unsupported=gang.unsupported,
    )


def _parse_template(
    message: workload_pb2.PodTemplate, namespace: str, found: _Found
) -> PodTemplate:
    resources_found: _Found = []
    requests = _parse_resources(message.requests, resources_found)
    found.extend((f"requests.{path}", what) for path, what in resources_found)
    return PodTemplate(
        # Every pod counts as one, whatever the sender made of it, unless it is
        # nonsense that `validation` shall see.
        requests={**requests, PODS: 1} if requests.get(PODS, 0) >= 0 else requests,
        labels=dict(message.labels),
        node_selector=tuple(sorted(message.node_selector.items())),
        required_node_affinity=_parse_node_selector(message.required_node_affinity, found)
        if message.HasField("required_node_affinity")
        else None,
        tolerations=tuple(
            _parse_toleration(toleration, f"tolerations[{i}]", found)
            for i, toleration in enumerate(message.tolerations)
        ),
        required_affinity=_parse_affinity_terms(
            message.required_affinity, "required_affinity", namespace, found
        ),
        required_anti_affinity=_parse_affinity_terms(
            message.required_anti_affinity, "required_anti_affinity", namespace, found
        ),
        host_ports=_parse_host_ports(message.host_ports),
        spread_constraints=tuple(
            SpreadConstraint(
                max_skew=constraint.max_skew,
                topology_key=constraint.topology_key,
                selector=_parse_selector(
                    constraint.selector, f"spread_constraints[{i}].selector", found
                )
                if constraint.HasField("selector")
                else None,
                namespace=namespace,
                min_domains=constraint.min_domains or 1,
                ignore_node_affinity=constraint.ignore_node_affinity,
                honor_taints=constraint.honor_taints,
            )
            for i, constraint in enumerate(message.spread_constraints)
        ),
    )


def _parse_toleration(message: workload_pb2.Toleration, path: str, found: _Found) -> Toleration:
    exists = TOLERATION_OPERATORS.get(message.operator)
    if exists is None:
        found.append((f"{path}.operator", _unspecified(message.operator)))
        exists = False
    effect = EFFECTS.get(message.effect)
    if effect is None and message.effect != cluster_pb2.TAINT_EFFECT_UNSPECIFIED:
        found.append((f"{path}.effect", _unspecified(message.effect)))
    return Toleration(message.key, exists, message.value, effect)


def _template_to_proto(template: PodTemplate) -> workload_pb2.PodTemplate:
    return workload_pb2.PodTemplate(
        requests=_resources_to_proto(template.requests),
        labels=template.labels,
        node_selector=dict(template.node_selector),
        required_node_affinity=_node_selector_to_proto(template.required_node_affinity),
        tolerations=[
            workload_pb2.Toleration(
                key=t.key,
                operator=workload_pb2.TOLERATION_OPERATOR_EXISTS
                if t.exists
                else workload_pb2.TOLERATION_OPERATOR_EQUAL,
                value=t.value,
                effect=_effect_to_proto(t.effect),
            )
            for t in template.tolerations
        ],
        required_affinity=map(_affinity_term_to_proto, template.required_affinity),
        required_anti_affinity=map(_affinity_term_to_proto, template.required_anti_affinity),
        host_ports=map(_host_port_to_proto, template.host_ports),
        spread_constraints=[
            workload_pb2.SpreadConstraint(
                max_skew=c.max_skew,
                topology_key=c.topology_key,
                selector=_selector_to_proto(c.selector),
                min_domains=c.min_domains,
                ignore_node_affinity=c.ignore_node_affinity,
                honor_taints=c.honor_taints,
            )
            for c in template.spread_constraints
        ],
    )


# --- Answers ---


def placement_to_proto(placement: Placement) -> placement_pb2.Placement:
    """The message that says what the placement says."""
    message = placement_pb2.Placement(
        revision=placement.revision,
        label=placement.label,
        bindings=map(_binding_to_proto, placement.bindings),
        gangs=map(_gang_result_to_proto, placement.gangs),
        tiers=map(_tier_to_proto, placement.tiers),
    )
    if placement.termination is not None:
        message.termination.CopyFrom(_termination_to_proto(placement.termination))
    if placement.stats is not None:
        message.stats.CopyFrom(_stats_to_proto(placement.stats))
    return message


def parse_placement(message: placement_pb2.Placement) -> Placement:
    """The inverse of `placement_to_proto`; trusts a message that this service wrote."""
    codes, states, limits = _inverse(REASON_CODES), _inverse(REASON_STATES), _inverse(LIMITS)
    return Placement(
        revision=message.revision,
        label=message.label,
        bindings=tuple(map(_parse_binding, message.bindings)),
        gangs=tuple(
            GangResult(
                name=gang.name,
                placed=gang.placed,
                placement_score=_optional(gang, "placement_score"),
                reasons=tuple(
                    Reason(
                        code=codes[reason.code],
                        message=reason.message,
                        level=reason.level,
                        domain=reason.domain,
                        asked=reason.asked,
                        found=reason.found,
                        state=states[reason.state],
                    )
                    for reason in gang.reasons
                ),
                scopes=tuple(
                    ScopeUse(use.name, use.level, use.required, tuple(use.domains))
                    for use in gang.scopes
                ),
            )
            for gang in message.gangs
        ),
        tiers=tuple(map(_parse_tier, message.tiers)),
        termination=Termination(
            optimal=message.termination.reason == placement_pb2.TERMINATION_REASON_OPTIMAL,
            limit=limits[message.termination.limit],
            gap=_optional(message.termination, "gap"),
            detail=message.termination.detail,
        )
        if message.HasField("termination")
        else None,
        stats=Stats(
            elapsed_seconds=_seconds(message.stats.elapsed),
            first_answer_seconds=_seconds(message.stats.first_answer),
            proof_seconds=_seconds(message.stats.proof)
            if message.stats.HasField("proof")
            else None,
            first_tiers=tuple(map(_parse_tier, message.stats.first_tiers)),
            engine=message.stats.engine,
            deterministic=message.stats.deterministic,
            solver_memory_bytes=message.stats.solver_memory_bytes,
        )
        if message.HasField("stats")
        else None,
    )


def progress_to_proto(progress: Progress) -> placement_service_pb2.Progress:
    """The message that says what the progress says."""
    return placement_service_pb2.Progress(
        elapsed=_duration(progress.elapsed_seconds),
        phase=progress.phase,
        tiers=map(_tier_to_proto, progress.tiers),
        placed_gang_count=progress.placed_gang_count,
    )


def parse_progress(message: placement_service_pb2.Progress) -> Progress:
    """The inverse of `progress_to_proto`."""
    return Progress(
        elapsed_seconds=_seconds(message.elapsed),
        phase=message.phase,
        tiers=tuple(map(_parse_tier, message.tiers)),
        placed_gang_count=message.placed_gang_count,
    )


def _binding_to_proto(binding: Binding) -> placement_pb2.Binding:
    return placement_pb2.Binding(
        pod=binding.pod,
        uid=binding.uid,
        node=binding.node,
        gang=binding.gang,
        group=binding.group,
    )


def _parse_binding(message: placement_pb2.Binding) -> Binding:
    return Binding(
        pod=message.pod,
        node=message.node,
        gang=message.gang,
        group=message.group,
        uid=message.uid,
    )


def _gang_result_to_proto(result: GangResult) -> placement_pb2.GangResult:
    return placement_pb2.GangResult(
        name=result.name,
        placed=result.placed,
        placement_score=result.placement_score,
        reasons=[
            placement_pb2.Reason(
                code=REASON_CODES[reason.code],
                message=reason.message,
                level=reason.level,
                domain=reason.domain,
                asked=reason.asked,
                found=reason.found,
                state=REASON_STATES[reason.state],
            )
            for reason in result.reasons
        ],
        scopes=[
            placement_pb2.ScopeUse(
                name=use.name, level=use.level, required=use.required, domains=use.domains
            )
            for use in result.scopes
        ],
    )


def _tier_to_proto(tier: Tier) -> placement_pb2.ObjectiveTier:
    return placement_pb2.ObjectiveTier(
        name=tier.name.value, value=tier.value, bound=tier.bound, minimize=tier.name.minimize
    )


def _parse_tier(message: placement_pb2.ObjectiveTier) -> Tier:
    return Tier(TierName(message.name), message.value, _optional(message, "bound"))


def _termination_to_proto(termination: Termination) -> placement_pb2.Termination:
    return placement_pb2.Termination(
        reason=placement_pb2.TERMINATION_REASON_OPTIMAL
        if termination.optimal
        else placement_pb2.TERMINATION_REASON_FEASIBLE,
        limit=LIMITS[termination.limit],
        gap=termination.gap,
        detail=termination.detail,
    )


def _stats_to_proto(stats: Stats) -> placement_pb2.SolveStats:
    return placement_pb2.SolveStats(
        elapsed=_duration(stats.elapsed_seconds),
        first_answer=_duration(stats.first_answer_seconds),
        proof=None if stats.proof_seconds is None else _duration(stats.proof_seconds),
        first_tiers=map(_tier_to_proto, stats.first_tiers),
        engine=stats.engine,
        deterministic=stats.deterministic,
        solver_memory_bytes=stats.solver_memory_bytes,
    )


# --- Small things ---

_NANOS = 1_000_000_000


def _duration(seconds: float) -> duration_pb2.Duration:
    nanos = round(seconds * _NANOS)
    # The sign of a negative duration belongs to both parts.
    whole, part = divmod(abs(nanos), _NANOS)
    sign = -1 if nanos < 0 else 1
    return duration_pb2.Duration(seconds=sign * whole, nanos=sign * part)


def _seconds(message: duration_pb2.Duration) -> float:
    return (message.seconds * _NANOS + message.nanos) / _NANOS


def _optional(
    message: placement_pb2.GangResult | placement_pb2.ObjectiveTier | placement_pb2.Termination,
    field: str,
) -> float | None:
    if not message.HasField(field):
        return None
    value: float = getattr(message, field)
    return value
