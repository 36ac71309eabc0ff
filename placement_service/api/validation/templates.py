"""Rules on what a pod asks for: (path below the template, problem)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from placement_service.api.validation.names import (
    MAX_KEY,
    MAX_TEXT,
    MAX_VALUE,
    RESERVATION,
    Lengths,
    Problem,
    too_long,
)
from placement_service.api.validation.parts import (
    affinity_problems,
    host_port_problems,
    key_problems,
    node_term_problems,
    resource_problems,
    selector_problems,
)
from placement_service.entities.request import PodTemplate, Policy

#: A whole device, in thousandths.
WHOLE = 1000

#: More devices than any node has.
MAX_DEVICES = 1024


def requests_are_in_range(
    template: PodTemplate, policy: Policy, lengths: Lengths
) -> Iterator[Problem]:
    for path, problem in resource_problems(template.requests):
        yield f"requests.{path}", problem


def labels_and_selectors_are_short(
    template: PodTemplate, policy: Policy, lengths: Lengths
) -> Iterator[Problem]:
    yield from lengths.labels("labels", template.labels)
    yield from lengths.labels("node_selector", dict(template.node_selector))
    problem = lengths.problem(template.compute_domain, MAX_KEY)
    if problem:
        yield "compute_domain", problem
    for i, toleration in enumerate(template.tolerations):
        for field, text, most in (
            ("key", toleration.key, MAX_KEY),
            ("value", toleration.value, MAX_VALUE),
        ):
            problem = lengths.problem(text, most)
            if problem:
                yield f"tolerations[{i}].{field}", problem


def node_requirements_are_sound(
    template: PodTemplate, policy: Policy, lengths: Lengths
) -> Iterator[Problem]:
    for i, term in enumerate(template.required_node_affinity or ()):
        yield from node_term_problems(f"required_node_affinity.terms[{i}]", term, lengths)


def affinity_terms_are_sound(
    template: PodTemplate, policy: Policy, lengths: Lengths
) -> Iterator[Problem]:
    yield from affinity_problems("required_affinity", template.required_affinity, lengths)
    yield from affinity_problems("required_anti_affinity", template.required_anti_affinity, lengths)


def requested_host_ports_exist(
    template: PodTemplate, policy: Policy, lengths: Lengths
) -> Iterator[Problem]:
    return host_port_problems(template.host_ports)


def spread_constraints_are_sound(
    template: PodTemplate, policy: Policy, lengths: Lengths
) -> Iterator[Problem]:
    for i, constraint in enumerate(template.spread_constraints):
        path = f"spread_constraints[{i}]"
        if constraint.max_skew < 1:
            yield f"{path}.max_skew", f"must be at least 1, is {constraint.max_skew}"
        if constraint.min_domains < 1:
            yield f"{path}.min_domains", f"must not be negative, is {constraint.min_domains}"
        yield from key_problems(f"{path}.topology_key", constraint.topology_key, lengths)
        yield from selector_problems(f"{path}.selector", constraint.selector, lengths)


def network_devices_are_beside_gpus(
    template: PodTemplate, policy: Policy, lengths: Lengths
) -> Iterator[Problem]:
    nics = template.same_pcie_nics
    if nics < 0:
        yield "same_pcie_nics", f"must not be negative, is {nics}"
    if nics > MAX_DEVICES:
        yield "same_pcie_nics", f"must be at most {MAX_DEVICES}, is {nics}"
    if nics > 0 and template.device_share is None and not policy.whole_gpus(template.requests):
        yield "same_pcie_nics", "must be absent where no GPUs are asked for"


def required_partitions_are_of_whole_gpus(
    template: PodTemplate, policy: Policy, lengths: Lengths
) -> Iterator[Problem]:
    required = template.required_partition
    if required is None:
        return
    if not policy.whole_gpus(template.requests):
        yield "required_partition", "must be absent where no whole GPUs are asked for"
    if required.ring_bandwidth < 0:
        yield (
            "required_partition.ring_bandwidth",
            f"must not be negative, is {required.ring_bandwidth}",
        )


def device_shares_are_sound(
    template: PodTemplate, policy: Policy, lengths: Lengths
) -> Iterator[Problem]:
    share = template.device_share
    if share is None:
        return
    for field, milli in (
        ("compute_milli", share.compute_milli),
        ("memory_milli", share.memory_milli),
    ):
        if not 0 <= milli <= WHOLE:
            yield f"device_share.{field}", f"must be from 0 to 1000, is {milli}"
    if share.memory_bytes < 0:
        yield "device_share.memory_bytes", f"must not be negative, is {share.memory_bytes}"
    if share.memory_bytes and share.memory_milli:
        yield "device_share.memory_bytes", "must be absent where memory_milli is set"
    if not (share.compute_milli or share.memory_milli or share.memory_bytes):
        yield "device_share", "must ask for something"
    if not 1 <= share.count <= MAX_DEVICES:
        yield "device_share.count", f"must be from 0 to {MAX_DEVICES}, is {share.count}"
    whole = policy.whole_gpus(template.requests)
    if whole:
        yield "device_share", f"must be absent where whole GPUs are asked for, here {whole}"


def required_reservations_are_sound(
    template: PodTemplate, policy: Policy, lengths: Lengths
) -> Iterator[Problem]:
    wanted = template.required_reservation
    if wanted is None:
        return
    problem = RESERVATION.problem(wanted.name) if wanted.name else ""
    if problem:
        yield "required_reservation.name", problem
    for i, term in enumerate(wanted.terms):
        yield from node_term_problems(f"required_reservation.terms[{i}]", term, lengths)


def what_is_unsupported_is_said_briefly(
    template: PodTemplate, policy: Policy, lengths: Lengths
) -> Iterator[Problem]:
    for n, words in enumerate(template.unsupported):
        problem = too_long(words, MAX_TEXT)
        if problem:
            yield f"unsupported[{n}]", problem


RULES: tuple[Callable[[PodTemplate, Policy, Lengths], Iterator[Problem]], ...] = (
    requests_are_in_range,
    labels_and_selectors_are_short,
    node_requirements_are_sound,
    affinity_terms_are_sound,
    requested_host_ports_exist,
    spread_constraints_are_sound,
    network_devices_are_beside_gpus,
    required_partitions_are_of_whole_gpus,
    device_shares_are_sound,
    required_reservations_are_sound,
    what_is_unsupported_is_said_briefly,
)
