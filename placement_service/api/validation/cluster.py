"""Rules on what is there: nodes, devices, running pods, queues, reservations, budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from placement_service.api.validation.names import (
    BUDGET,
    GANG,
    MAX_AMOUNT,
    MAX_KEY,
    MAX_TEXT,
    MAX_VALUE,
    NODE,
    POD,
    QUEUE,
    RESERVATION,
    SEGMENT,
    Lengths,
    Problem,
    duration_problem,
    named_and_unique,
    show,
    time_problem,
)
from placement_service.api.validation.parts import (
    affinity_problems,
    amount_problems,
    host_port_problems,
    resource_problems,
    selector_problems,
)
from placement_service.entities.devices import Device
from placement_service.entities.errors import Violation
from placement_service.entities.node import Taint
from placement_service.entities.nodes import KindColumn, Parts
from placement_service.entities.queues import GPUS, in_millis
from placement_service.entities.request import Request
from placement_service.entities.reservations import Reservation

#: More than any node has. What fits is found by trying, so there must be a limit.
MAX_DEVICES_OF_A_NODE = 256
MAX_PARTITIONS_OF_A_NODE = 1024

#: A whole device, in thousandths.
WHOLE = 1000

#: Queues from a root down. What runs is counted at each of them.
MAX_QUEUE_DEPTH = 100


def the_time_of_the_snapshot_is_a_time(request: Request) -> Iterator[Violation]:
    problem = time_problem(request.snapshot.as_of)
    if problem:
        yield Violation("snapshot.as_of", problem)


def node_names_are_well_formed_and_unique(request: Request) -> Iterator[Violation]:
    return named_and_unique("snapshot.nodes", request.snapshot.columns.names, NODE)


def resources_of_nodes_are_in_range(request: Request) -> Iterator[Violation]:
    nodes = request.snapshot.columns
    problems = list(_of_kinds(nodes.allocatable, resource_problems, "allocatable."))
    wrong = np.zeros(len(nodes), dtype=bool)
    for resource, amounts in nodes.requested.items():
        # An amount that is right tells whether the name is.
        named = not any(resource_problems({resource: 1}))
        wrong |= (amounts < 0) | (amounts > MAX_AMOUNT) if named else amounts != 0
    for i in np.flatnonzero(wrong).tolist():
        found = resource_problems(nodes[i].requested)
        problems += [_NodeProblem(i, f"requested.{path}", what) for path, what in found]
    return _in_order(problems)


def texts_of_nodes_are_short(request: Request) -> Iterator[Violation]:
    nodes, lengths = request.snapshot.columns, Lengths()

    def of_taints(taints: tuple[Taint, ...]) -> Iterator[Problem]:
        for n, taint in enumerate(taints):
            for field, text, most in (
                ("key", taint.key, MAX_KEY),
                ("value", taint.value, MAX_VALUE),
            ):
                problem = lengths.problem(text, most)
                if problem:
                    yield f"taints[{n}].{field}", problem

    def of_parts(parts: Parts) -> Iterator[Problem]:
        problem = lengths.problem(parts.compute_domain, MAX_KEY)
        if problem:
            yield "compute_domain", problem
        if parts.compute_domain_pods < 0:
            yield "compute_domain_pods", f"must not be negative, is {parts.compute_domain_pods}"
        problem = lengths.problem(parts.closed_because, MAX_TEXT)
        if problem:
            yield "closed_because", problem

    return _in_order(
        [
            *_of_kinds(nodes.labels, lambda labels: lengths.labels("labels", labels)),
            *_of_kinds(nodes.taints, of_taints),
            *_of_kinds(nodes.parts, of_parts),
        ]
    )


def host_ports_of_nodes_exist(request: Request) -> Iterator[Violation]:
    parts = request.snapshot.columns.parts
    return _in_order(_of_kinds(parts, lambda one: host_port_problems(one.host_ports)))


def devices_are_sound(request: Request) -> Iterator[Violation]:
    return _in_order(_of_kinds(request.snapshot.columns.parts, _device_parts_problems))


class _NodeProblem(NamedTuple):
    """Something wrong with a node; `path` is relative to it."""

    node: int
    path: str
    what: str


_K = TypeVar("_K")


def _of_kinds(
    column: KindColumn[_K], problems: Callable[[_K], Iterable[Problem]], prefix: str = ""
) -> Iterator[_NodeProblem]:
    """What is wrong with the nodes of each kind; a kind is looked at once."""
    for k, kind in enumerate(column.kinds):
        found = tuple(problems(kind))
        for i in np.flatnonzero(column.number == k).tolist() if found else ():
            yield from (_NodeProblem(i, prefix + path, what) for path, what in found)


def _in_order(problems: Iterable[_NodeProblem]) -> Iterator[Violation]:
    for i, path, what in sorted(problems, key=lambda problem: problem.node):
        yield Violation(f"snapshot.nodes[{i}].{path}", what)


def _device_parts_problems(node: Parts) -> Iterator[Problem]:
    for field, there, most in (
        ("devices", len(node.devices), MAX_DEVICES_OF_A_NODE),
        ("partitions", len(node.partitions), MAX_PARTITIONS_OF_A_NODE),
    ):
        if there > most:
            yield field, f"are {there:,}, at most {most:,}"
            return
    seen: dict[int, int] = {}
    for n, device in enumerate(node.devices):
        first = seen.setdefault(device.index, n)
        if first != n:
            yield f"devices[{n}].index", f"{device.index} is also the index of devices[{first}]"
        for field, problem in _device_problems(device):
            yield f"devices[{n}].{field}", problem
    for n, partition in enumerate(node.partitions):
        path = f"partitions[{n}].devices"
        if not partition.devices:
            yield path, "must hold at least one device"
        if len(set(partition.devices)) < len(partition.devices):
            yield path, "holds a device twice"
        if partition.ring_bandwidth < 0:
            yield (
                f"partitions[{n}].ring_bandwidth",
                f"must not be negative, is {partition.ring_bandwidth}",
            )
        for m, index in enumerate(partition.devices):
            if index not in seen:
                yield f"{path}[{m}]", f"{index} is not a device of this node"


def _device_problems(device: Device) -> Iterator[Problem]:
    if device.index < 0:
        yield "index", f"must not be negative, is {device.index}"
    for field, used in (
        ("used_milli", device.used_milli),
        ("used_memory_milli", device.used_memory_milli),
    ):
        if not 0 <= used <= WHOLE:
            yield field, f"must be from 0 to 1000, is {used}"
    for field, amount in (("memory_bytes", device.memory_bytes), ("nics", device.nics)):
        if amount < 0:
            yield field, f"must not be negative, is {amount}"
    if device.nics > MAX_DEVICES_OF_A_NODE:
        yield "nics", f"must be at most {MAX_DEVICES_OF_A_NODE}, is {device.nics}"
    if device.numa_node < -1:
        yield "numa_node", f"must be at least -1, is {device.numa_node}"
    if len(device.pcie_switch) > MAX_VALUE:
        yield "pcie_switch", f"has {len(device.pcie_switch):,} characters, at most {MAX_VALUE}"


def running_pods_are_well_named_and_unique(request: Request) -> Iterator[Violation]:
    yield from named_and_unique(
        "snapshot.pods", (p.name for p in request.snapshot.running_pods), POD
    )
    for i, pod in enumerate(request.snapshot.running_pods):
        problem = NODE.problem(pod.node)
        if problem:
            yield Violation(f"snapshot.pods[{i}].node", problem)


def pods_to_be_placed_do_not_run(request: Request) -> Iterator[Violation]:
    if not request.snapshot.running_pods:
        return
    running = {pod.name for pod in request.snapshot.running_pods}
    for i, gang in enumerate(request.snapshot.gangs):
        for j, group in enumerate(gang.groups):
            for k, pod_set in enumerate(group.pod_sets):
                for n, pod in enumerate(pod_set.pods):
                    if pod.name in running:
                        path = f"gangs[{i}].groups[{j}].pod_sets[{k}].pods[{n}].name"
                        yield Violation(path, f"{show(pod.name)} is a running pod as well")


def terms_of_running_pods_are_sound(request: Request) -> Iterator[Violation]:
    lengths = Lengths()
    for i, pod in enumerate(request.snapshot.running_pods):
        for path, problem in lengths.labels("labels", pod.labels):
            yield Violation(f"snapshot.pods[{i}].{path}", problem)
        for path, problem in affinity_problems(
            "required_anti_affinity", pod.required_anti_affinity, lengths
        ):
            yield Violation(f"snapshot.pods[{i}].{path}", problem)


def queue_names_are_well_formed_and_unique(request: Request) -> Iterator[Violation]:
    return named_and_unique("snapshot.queues", (q.name for q in request.snapshot.queues), QUEUE)


def queues_form_trees(request: Request) -> Iterator[Violation]:
    """Every parent exists, no queue is above itself, and no queue is too deep."""
    queues = request.snapshot.queues
    index = {queue.name: i for i, queue in enumerate(queues)}
    #: For each queue that was checked: how many queues there are from the root down to it.
    depth: dict[str, int] = {"": 0}
    for i, queue in enumerate(queues):
        if queue.parent and queue.parent not in index:
            yield Violation(
                f"snapshot.queues[{i}].parent",
                f"{show(queue.parent)} is not a queue of this snapshot",
            )
        way: dict[str, None] = {}
        name = queue.name
        while name in index and name not in depth and name not in way:
            way[name] = None
            name = queues[index[name]].parent
        if name in way:
            path = f"snapshot.queues[{index[name]}].parent"
            yield Violation(path, f"leads back to {show(name)}")
        below = depth.get(name, 0)
        for steps, passed in enumerate(reversed(way), start=1):
            depth[passed] = below + steps
            if depth[passed] == MAX_QUEUE_DEPTH + 1:
                path = f"snapshot.queues[{index[passed]}].parent"
                above = f"has {MAX_QUEUE_DEPTH} queues above it, at most {MAX_QUEUE_DEPTH - 1}"
                yield Violation(path, above)


def amounts_of_queues_are_in_range(request: Request) -> Iterator[Violation]:
    for i, queue in enumerate(request.snapshot.queues):
        for field, amounts in (
            ("limit", queue.limit),
            ("guaranteed", queue.guaranteed),
            ("used", queue.used),
            ("used_not_preemptible", queue.used_not_preemptible),
            ("kept", queue.kept),
        ):
            for path, problem in amount_problems(field, amounts):
                yield Violation(f"snapshot.queues[{i}].{path}", problem)
        used = in_millis(queue.used)
        for name, amount in in_millis(queue.used_not_preemptible).items():
            if amount > used.get(name, 0):
                one = 1000 if name == GPUS else 1
                there = f"{used.get(name, 0) / one:.15g} that is used"
                yield Violation(
                    f"snapshot.queues[{i}].used_not_preemptible[{show(name)}]",
                    f"{amount / one:.15g} is more than the {there}",
                )


def run_times_of_queues_are_times(request: Request) -> Iterator[Violation]:
    field = "minimum_run_time_before_reclaim"
    for i, queue in enumerate(request.snapshot.queues):
        if problem := duration_problem(queue.minimum_run_time_before_reclaim):
            yield Violation(f"snapshot.queues[{i}].{field}", problem)


def reservation_names_are_well_formed_and_unique(request: Request) -> Iterator[Violation]:
    reservations = request.snapshot.reservations
    return named_and_unique("snapshot.reservations", (r.name for r in reservations), RESERVATION)


def reservations_are_on_nodes_of_the_snapshot(request: Request) -> Iterator[Violation]:
    if not request.snapshot.reservations:
        return
    nodes = request.snapshot.columns
    for i, reservation in enumerate(request.snapshot.reservations):
        path = f"snapshot.reservations[{i}]"
        node = nodes.row_of.get(reservation.node)
        if node is None:
            yield Violation(
                f"{path}.node", f"{show(reservation.node)} is not a node of this snapshot"
            )
            continue
        there = {device.index for device in nodes.parts[node].devices}
        for n, index in enumerate(reservation.devices):
            if index not in there:
                yield Violation(
                    f"{path}.devices[{n}]", f"{index} is not a device of {show(reservation.node)}"
                )
        if len(set(reservation.devices)) < len(reservation.devices):
            yield Violation(f"{path}.devices", "holds a device twice")


def reservations_are_sound(request: Request) -> Iterator[Violation]:
    lengths = Lengths()
    for i, reservation in enumerate(request.snapshot.reservations):
        for path, problem in _reservation_problems(reservation, lengths):
            yield Violation(f"snapshot.reservations[{i}].{path}", problem)


def _reservation_problems(reservation: Reservation, lengths: Lengths) -> Iterator[Problem]:
    for path, problem in resource_problems({r: a for r, a in reservation.held.items() if a}):
        yield f"held.{path}", problem
    used_up = [name for name, amount in reservation.held.items() if not amount]
    for _, problem in resource_problems(dict.fromkeys(used_up, 0)):
        yield "used_up", problem
    yield from lengths.labels("labels", reservation.labels)
    for n, owner in enumerate(reservation.owners):
        at = f"owners[{n}]"
        if not (owner.gang or owner.pod or owner.namespace or owner.selector is not None):
            yield at, "must say something, else everybody is an owner"
        for field, name, form in (
            ("gang", owner.gang, GANG),
            ("pod", owner.pod, POD),
            ("namespace", owner.namespace, SEGMENT),
        ):
            problem = form.problem(name) if name else ""
            if problem:
                yield f"{at}.{field}", problem
        yield from selector_problems(f"{at}.selector", owner.selector, lengths)


def disruption_budgets_are_sound(request: Request) -> Iterator[Violation]:
    budgets = request.snapshot.disruption_budgets
    path = "snapshot.disruption_budgets"
    yield from named_and_unique(path, (b.name for b in budgets), BUDGET)
    lengths = Lengths()
    for i, budget in enumerate(budgets):
        if budget.allowed < 0:
            yield Violation(f"{path}[{i}].allowed", f"must not be negative, is {budget.allowed}")
        for field, problem in selector_problems("selector", budget.selector, lengths):
            yield Violation(f"{path}[{i}].{field}", problem)


RULES: tuple[Callable[[Request], Iterator[Violation]], ...] = (
    the_time_of_the_snapshot_is_a_time,
    node_names_are_well_formed_and_unique,
    resources_of_nodes_are_in_range,
    texts_of_nodes_are_short,
    host_ports_of_nodes_exist,
    devices_are_sound,
    running_pods_are_well_named_and_unique,
    terms_of_running_pods_are_sound,
    queue_names_are_well_formed_and_unique,
    queues_form_trees,
    amounts_of_queues_are_in_range,
    run_times_of_queues_are_times,
    reservation_names_are_well_formed_and_unique,
    reservations_are_sound,
    disruption_budgets_are_sound,
)

RULES_ACROSS: tuple[Callable[[Request], Iterator[Violation]], ...] = (
    pods_to_be_placed_do_not_run,
    reservations_are_on_nodes_of_the_snapshot,
)
