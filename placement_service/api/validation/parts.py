"""The parts that other messages are made of: resources, ports, selectors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from placement_service.api.validation.names import (
    MAX_AMOUNT,
    MAX_KEY,
    MAX_VALUE,
    Lengths,
    Problem,
    show,
    too_long,
)
from placement_service.entities.queues import Amounts
from placement_service.entities.request import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    HostPort,
    PodAffinityTerm,
    Resources,
)
from placement_service.entities.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
)

#: The field of `Resources` that holds a resource; all others are in `extended`.
RESOURCE_FIELDS: Mapping[str, str] = {
    CPU: "cpu_millis",
    MEMORY: "memory_bytes",
    EPHEMERAL_STORAGE: "ephemeral_storage_bytes",
    PODS: "pod_count",
}

PROTOCOLS = ("TCP", "UDP", "SCTP")

#: Addresses are short; this one is "ffff:" eight times with a zone.
MAX_ADDRESS = 64

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


def extended_path(name: str) -> str:
    """The path of an extended resource below its `Resources`."""
    return f"extended[{show(name)}]"


def resource_problems(resources: Resources) -> Iterator[Problem]:
    for name, amount in resources.items():
        path = RESOURCE_FIELDS.get(name) or extended_path(name)
        yield from _amount_problems(path, name, amount)


def amount_problems(field: str, amounts: Amounts) -> Iterator[Problem]:
    """Of a queue."""
    for name, amount in amounts.items():
        yield from _amount_problems(f"{field}[{show(name)}]", name, amount)


def _amount_problems(path: str, name: str, amount: int) -> Iterator[Problem]:
    if not name:
        yield path, "must have a name"
    long = too_long(name, MAX_KEY)
    if long:
        yield path, f"the name {long}"
    if amount < 0:
        yield path, f"must not be negative, is {amount}"
    elif amount > MAX_AMOUNT:
        yield path, f"must be at most 2**53, is {amount}"


def host_port_problems(ports: tuple[HostPort, ...]) -> Iterator[Problem]:
    for i, port in enumerate(ports):
        if not 1 <= port.port <= 65535:
            yield f"host_ports[{i}].port", f"must be from 1 to 65535, is {port.port}"
        if port.protocol not in PROTOCOLS:
            yield f"host_ports[{i}].protocol", f"must be TCP, UDP or SCTP, is {show(port.protocol)}"
        long = too_long(port.host_ip, MAX_ADDRESS)
        if long:
            yield f"host_ports[{i}].host_ip", long


def affinity_problems(
    field: str, terms: tuple[PodAffinityTerm, ...], lengths: Lengths
) -> Iterator[Problem]:
    for i, term in enumerate(terms):
        yield from key_problems(f"{field}[{i}].topology_key", term.topology_key, lengths)
        yield from selector_problems(f"{field}[{i}].selector", term.selector, lengths)
        for n, namespace in enumerate(term.namespaces):
            long = lengths.problem(namespace, MAX_VALUE)
            if long:
                yield f"{field}[{i}].namespaces[{n}]", long


def selector_problems(
    path: str, selector: LabelSelector | None, lengths: Lengths
) -> Iterator[Problem]:
    if selector is None:
        return
    yield from lengths.labels(f"{path}.match_labels", dict(selector.match_labels))
    for n, requirement in enumerate(selector.match_expressions):
        at = f"{path}.match_expressions[{n}]"
        if requirement.operator in (Operator.GT, Operator.LT):
            yield f"{at}.operator", "GT and LT are for nodes only"
        else:
            yield from requirement_problems(at, requirement, lengths)


def node_term_problems(path: str, term: NodeSelectorTerm, lengths: Lengths) -> Iterator[Problem]:
    for n, requirement in enumerate(term.match_expressions):
        yield from requirement_problems(f"{path}.match_expressions[{n}]", requirement, lengths)
    for n, requirement in enumerate(term.match_fields):
        at = f"{path}.match_fields[{n}]"
        if requirement.key != "metadata.name":
            yield f"{at}.key", f'must be "metadata.name", is {show(requirement.key)}'
        if requirement.operator not in (Operator.IN, Operator.NOT_IN):
            yield f"{at}.operator", "must be IN or NOT_IN on a field"
        else:
            yield from requirement_problems(at, requirement, lengths)


def requirement_problems(
    path: str, requirement: Requirement, lengths: Lengths
) -> Iterator[Problem]:
    yield from key_problems(f"{path}.key", requirement.key, lengths)
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
    for n, value in enumerate(values):
        long = lengths.problem(value, MAX_VALUE)
        if long:
            yield f"{path}.values[{n}]", long


def key_problems(path: str, key: str, lengths: Lengths) -> Iterator[Problem]:
    """Of a label key that must be there."""
    if not key:
        yield path, "must not be empty"
    long = lengths.problem(key, MAX_KEY)
    if long:
        yield path, long
