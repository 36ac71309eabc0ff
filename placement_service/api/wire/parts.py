"""Selectors, resources, taints and ports: the parts that other messages are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TypeVar

from placement.v1 import cluster_pb2, workload_pb2
from placement_service.api.validation.parts import RESOURCE_FIELDS, extended_path
from placement_service.entities.errors import Violation
from placement_service.entities.request import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Effect,
    HostPort,
    PodAffinityTerm,
    Resources,
    Taint,
)
from placement_service.entities.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
)

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

_K = TypeVar("_K")
_V = TypeVar("_V")


def inverse(table: Mapping[_K, _V]) -> dict[_V, _K]:
    return {value: key for key, value in table.items()}


OPERATOR_NUMBERS = inverse(OPERATORS)
EFFECT_NUMBERS = inverse(EFFECTS)

#: Where violations go while a part of the message is read: (path, description)
#: with the path relative to that part, so that paths cost nothing when all is well.
Found = list[tuple[str, str]]


def add_violations(violations: list[Violation], path: str, found: Found) -> None:
    violations.extend(Violation(f"{path}.{field}", what) for field, what in found)


def parse_resources(message: cluster_pb2.Resources, found: Found) -> dict[str, int]:
    named = {
        CPU: message.cpu_millis,
        MEMORY: message.memory_bytes,
        EPHEMERAL_STORAGE: message.ephemeral_storage_bytes,
        PODS: message.pod_count,
    }
    extended = dict(message.extended)
    for name in RESOURCE_FIELDS:
        if extended.pop(name, None) is not None:
            found.append(has_own_field(name))
    return {name: amount for name, amount in chain(named.items(), extended.items()) if amount}


def has_own_field(name: str) -> tuple[str, str]:
    """The problem of an extended resource that has a field of its own."""
    return extended_path(name), f"has a field of its own, {RESOURCE_FIELDS[name]}"


def resources_to_proto(resources: Resources) -> cluster_pb2.Resources:
    own = RESOURCE_FIELDS
    return cluster_pb2.Resources(
        cpu_millis=resources.get(CPU, 0),
        memory_bytes=resources.get(MEMORY, 0),
        ephemeral_storage_bytes=resources.get(EPHEMERAL_STORAGE, 0),
        pod_count=resources.get(PODS, 0),
        extended={name: amount for name, amount in resources.items() if amount and name not in own},
    )


def parse_taints(messages: Iterable[cluster_pb2.Taint], found: Found) -> tuple[Taint, ...]:
    taints = []
    for i, message in enumerate(messages):
        effect = EFFECTS.get(message.effect)
        if effect is None:
            found.append((f"taints[{i}].effect", unspecified(message.effect)))
            effect = Effect.NO_SCHEDULE
        taints.append(Taint(message.key, message.value, effect))
    return tuple(taints)


def effect_to_proto(effect: Effect | None) -> cluster_pb2.TaintEffect:
    return cluster_pb2.TAINT_EFFECT_UNSPECIFIED if effect is None else EFFECT_NUMBERS[effect]


def parse_host_ports(messages: Iterable[cluster_pb2.HostPort]) -> tuple[HostPort, ...]:
    return tuple(
        HostPort(
            message.port,
            message.protocol or "TCP",
            "" if message.host_ip == "0.0.0.0" else message.host_ip,
        )
        for message in messages
    )


def host_port_to_proto(port: HostPort) -> cluster_pb2.HostPort:
    return cluster_pb2.HostPort(port=port.port, protocol=port.protocol, host_ip=port.host_ip)


def unspecified(number: int) -> str:
    return "must be specified" if number == 0 else f"has no member {number}"


def parse_requirements(
    messages: Iterable[cluster_pb2.SelectorRequirement], path: str, found: Found
) -> tuple[Requirement, ...]:
    requirements = []
    for i, message in enumerate(messages):
        operator = OPERATORS.get(message.operator)
        if operator is None:
            found.append((f"{path}[{i}].operator", unspecified(message.operator)))
            # A replacement that the rules on values accept, so that the fault is reported only
            # once.
            operator = Operator.IN if message.values else Operator.EXISTS
        requirements.append(Requirement(message.key, operator, tuple(message.values)))
    return tuple(requirements)


def requirement_to_proto(requirement: Requirement) -> cluster_pb2.SelectorRequirement:
    return cluster_pb2.SelectorRequirement(
        key=requirement.key,
        operator=OPERATOR_NUMBERS[requirement.operator],
        values=requirement.values,
    )


def parse_selector(message: cluster_pb2.LabelSelector, path: str, found: Found) -> LabelSelector:
    return LabelSelector(
        match_labels=tuple(sorted(message.match_labels.items())),
        match_expressions=parse_requirements(
            message.match_expressions, f"{path}.match_expressions", found
        ),
    )


def selector_to_proto(selector: LabelSelector | None) -> cluster_pb2.LabelSelector | None:
    if selector is None:
        return None
    return cluster_pb2.LabelSelector(
        match_labels=dict(selector.match_labels),
        match_expressions=map(requirement_to_proto, selector.match_expressions),
    )


def parse_affinity_terms(
    messages: Iterable[cluster_pb2.PodAffinityTerm], path: str, namespace: str, found: Found
) -> tuple[PodAffinityTerm, ...]:
    return tuple(
        PodAffinityTerm(
            selector=parse_selector(message.selector, f"{path}[{i}].selector", found)
            if message.HasField("selector")
            else None,
            topology_key=message.topology_key,
            namespaces=tuple(message.namespaces)
            or (() if message.all_namespaces else (namespace,)),
            all_namespaces=message.all_namespaces,
        )
        for i, message in enumerate(messages)
    )


def affinity_term_to_proto(term: PodAffinityTerm) -> cluster_pb2.PodAffinityTerm:
    return cluster_pb2.PodAffinityTerm(
        selector=selector_to_proto(term.selector),
        topology_key=term.topology_key,
        namespaces=term.namespaces,
        all_namespaces=term.all_namespaces,
    )


def parse_node_selector_terms(
    messages: Iterable[workload_pb2.NodeSelectorTerm], path: str, found: Found
) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        NodeSelectorTerm(
            parse_requirements(term.match_expressions, f"{path}[{i}].match_expressions", found),
            parse_requirements(term.match_fields, f"{path}[{i}].match_fields", found),
        )
        for i, term in enumerate(messages)
    )


def node_selector_term_to_proto(term: NodeSelectorTerm) -> workload_pb2.NodeSelectorTerm:
    return workload_pb2.NodeSelectorTerm(
        match_expressions=map(requirement_to_proto, term.match_expressions),
        match_fields=map(requirement_to_proto, term.match_fields),
    )
