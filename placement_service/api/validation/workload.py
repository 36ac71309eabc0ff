"""Rules on what is asked: gangs, their groups and pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np

from placement_service.api.validation import templates
from placement_service.api.validation.names import (
    GANG,
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
    namespace_in,
    show,
    template_path,
    time_problem,
    too_long,
)
from placement_service.api.validation.parts import resource_problems
from placement_service.entities.errors import Violation
from placement_service.entities.request import BoundPod, PodGroup, PodTemplate, Request
from placement_service.entities.templates import numbered


def gang_names_are_well_formed_and_unique(request: Request) -> Iterator[Violation]:
    return named_and_unique("gangs", (g.name for g in request.snapshot.gangs), GANG)


def groups_are_there_and_well_named(request: Request) -> Iterator[Violation]:
    for i, gang in enumerate(request.snapshot.gangs):
        if not gang.groups:
            yield Violation(f"gangs[{i}].groups", "must hold at least one group")
        yield from named_and_unique(f"gangs[{i}].groups", (g.name for g in gang.groups), SEGMENT)


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
    if _pods_are_sound(request):
        return
    seen: set[str] = set()
    for i, gang in enumerate(request.snapshot.gangs):
        home = f"namespaces/{namespace_in(gang.name)}/"
        for j, group in enumerate(gang.groups):
            for k, pod_set in enumerate(group.pod_sets):
                for n, pod in enumerate(pod_set.pods):
                    problem = _pod_problem(pod.name, home, seen)
                    path = f"gangs[{i}].groups[{j}].pod_sets[{k}].pods[{n}]"
                    if problem:
                        yield Violation(f"{path}.name", problem)
                    problem = too_long(pod.uid, MAX_VALUE)
                    if problem:
                        yield Violation(f"{path}.uid", problem)
            for path, bound in _bound_pods(group):
                problem = _pod_problem(bound.name, home, seen)
                if problem:
                    yield Violation(f"gangs[{i}].groups[{j}].{path}.name", problem)


def _pods_are_sound(request: Request) -> bool:
    """Whether nothing is wrong with any pod: asked of all at once, which is nearly always so."""
    count, every = 0, set[str]()
    for gang in request.snapshot.gangs:
        home = f"namespaces/{namespace_in(gang.name)}/"
        for group in gang.groups:
            names = [pod.name for pod in group.running_pods]
            for pod_set in group.pod_sets:
                names += [pod.name for pod in pod_set.pods]
                if any([len(pod.uid) > MAX_VALUE for pod in pod_set.pods]):
                    return False
            if not all(map(POD.pattern.fullmatch, names)):
                return False
            if not all([name.startswith(home) for name in names]):
                return False
            count += len(names)
            every.update(names)
    return len(every) == count


def _bound_pods(group: PodGroup) -> Iterator[tuple[str, BoundPod]]:
    """Every running pod of a group with its path in the group."""
    for k, pod_set in enumerate(group.pod_sets):
        for n, pod in enumerate(pod_set.bound_pods):
            yield f"pod_sets[{k}].bound_pods[{n}]", pod
    for n, pod in enumerate(group.fixed_pods):
        yield f"bound_pods[{n}]", pod


def _pod_problem(name: str, home: str, seen: set[str]) -> str:
    problem = POD.problem(name)
    if problem:
        return problem
    if name in seen:
        return f"{show(name)} is in the request already"
    seen.add(name)
    if not name.startswith(home):
        return f"must be in the namespace of its gang, {show(home[11:-1])}"
    return ""


def bound_pods_are_where_pods_can_be(request: Request) -> Iterator[Violation]:
    """The node need not be in the snapshot; if it is and lists devices, the pods' devices are among
    them. What they hold is in range.
    """
    if _bound_pods_are_plain(request):
        return
    nodes = request.snapshot.columns
    devices = {
        nodes.names[i]: {device.index for device in nodes.parts[i].devices}
        for i in np.flatnonzero(nodes.parts.where(lambda parts: parts.devices)).tolist()
    }
    for i, gang in enumerate(request.snapshot.gangs):
        for j, group in enumerate(gang.groups):
            for path, pod in _bound_pods(group):
                for field, problem in _bound_pod_problems(pod, devices.get(pod.node)):
                    yield Violation(f"gangs[{i}].groups[{j}].{path}.{field}", problem)


def _bound_pods_are_plain(request: Request) -> bool:
    """Whether all running pods are on nodes and use nothing else, which is mostly so: asked of all
    at once.
    """
    nodes: set[str] = set()
    for gang in request.snapshot.gangs:
        for group in gang.groups:
            pods = group.running_pods
            if any([pod.reservation or pod.devices or pod.held is not None for pod in pods]):
                return False
            nodes.update([pod.node for pod in pods])
    return all(map(NODE.pattern.fullmatch, nodes))


def _bound_pod_problems(pod: BoundPod, devices: set[int] | None) -> Iterator[Problem]:
    problem = NODE.problem(pod.node)
    if problem:
        yield "node", problem
    problem = RESERVATION.problem(pod.reservation) if pod.reservation else ""
    if problem:
        yield "reservation", problem
    for field, problem in resource_problems(pod.held or {}):
        yield f"held.{field}", problem
    if len(set(pod.devices)) < len(pod.devices):
        yield "devices", "holds a device twice"
    for n, index in enumerate(pod.devices):
        if index < 0:
            yield f"devices[{n}]", f"must not be negative, is {index}"
        elif devices is not None and index not in devices:
            yield f"devices[{n}]", f"{index} is not a device of {show(pod.node)}"


def templates_are_sound(request: Request) -> Iterator[Violation]:
    """A fault in a shared template is reported once, at the template."""
    lengths = Lengths()
    paths: list[str] = []
    used: list[PodTemplate] = []
    for i, gang in enumerate(request.snapshot.gangs):
        for j, group in enumerate(gang.groups):
            for k, pod_set in enumerate(group.pod_sets):
                name = pod_set.template.name
                here = f"gangs[{i}].groups[{j}].pod_sets[{k}].template"
                paths.append(template_path(name) if name else here)
                used.append(pod_set.template)
    different, numbers = numbered(used)
    problems = [
        tuple(chain.from_iterable(rule(one, request.policy, lengths) for rule in templates.RULES))
        for one in different
    ]
    yield from dict.fromkeys(
        Violation(f"{path}.{below}", problem)
        for path, number in zip(paths, numbers, strict=True)
        for below, problem in problems[number]
    )


def scopes_name_groups_of_their_gang(request: Request) -> Iterator[Violation]:
    lengths = Lengths()
    for i, gang in enumerate(request.snapshot.gangs):
        names = {group.name for group in gang.groups}
        for j, scope in enumerate(gang.packing_scopes):
            path = f"gangs[{i}].packing_scopes[{j}]"
            for n, group_name in enumerate(scope.groups):
                if group_name not in names:
                    yield Violation(
                        f"{path}.groups[{n}]", f"{show(group_name)} is not a group of this gang"
                    )
            for field, text, most in (
                ("name", scope.name, MAX_VALUE),
                ("required_level", scope.required_level, MAX_KEY),
                ("preferred_level", scope.preferred_level, MAX_KEY),
            ):
                problem = lengths.problem(text, most)
                if problem:
                    yield Violation(f"{path}.{field}", problem)


def base_gangs_are_known_and_have_no_base(request: Request) -> Iterator[Violation]:
    bases = {gang.name: gang.base_gang for gang in request.snapshot.gangs}
    for i, gang in enumerate(request.snapshot.gangs):
        base = gang.base_gang
        if not base:
            continue
        if base == gang.name:
            problem = "a gang must not be its own base"
        elif base not in bases:
            problem = f"{show(base)} is not a gang of this request"
        elif bases[base]:
            problem = f"{show(base)} has a base gang itself"
        else:
            continue
        yield Violation(f"gangs[{i}].base_gang", problem)


def previous_nodes_are_well_formed(request: Request) -> Iterator[Violation]:
    """The nodes need not be in the snapshot."""
    for i, gang in enumerate(request.snapshot.gangs):
        for n, node in enumerate(gang.previous_nodes):
            problem = NODE.problem(node)
            if problem:
                yield Violation(f"gangs[{i}].previous_nodes[{n}]", problem)


def what_is_unsupported_is_said_briefly(request: Request) -> Iterator[Violation]:
    for i, gang in enumerate(request.snapshot.gangs):
        for n, words in enumerate(gang.unsupported):
            problem = too_long(words, MAX_TEXT)
            if problem:
                yield Violation(f"gangs[{i}].unsupported[{n}]", problem)


def claims_of_gangs_are_short(request: Request) -> Iterator[Violation]:
    for i, gang in enumerate(request.snapshot.gangs):
        for n, claim in enumerate(gang.volume_claims):
            problem = too_long(claim, MAX_VALUE)
            if problem:
                yield Violation(f"gangs[{i}].volume_claims[{n}]", problem)


def names_of_the_previous_placement_are_short(request: Request) -> Iterator[Violation]:
    """They need not be those of anything that is still there."""
    for i, binding in enumerate(request.previous):
        for field, text in (
            ("pod", binding.pod),
            ("uid", binding.uid),
            ("node", binding.node),
            ("gang", binding.gang),
            ("group", binding.group),
            ("reservation", binding.reservation),
        ):
            problem = too_long(text, MAX_TEXT)
            if problem:
                yield Violation(f"previous_placement[{i}].{field}", problem)


def queues_of_gangs_are_well_formed(request: Request) -> Iterator[Violation]:
    """The queue need not be in the snapshot: then the gang waits."""
    for i, gang in enumerate(request.snapshot.gangs):
        problem = QUEUE.problem(gang.queue) if gang.queue else ""
        if problem:
            yield Violation(f"gangs[{i}].queue", problem)


def times_of_gangs_are_times(request: Request) -> Iterator[Violation]:
    for i, gang in enumerate(request.snapshot.gangs):
        for field, problem in (
            ("create_time", time_problem(gang.created)),
            ("start_time", time_problem(gang.start)),
            ("minimum_run_time", duration_problem(gang.minimum_run_time)),
            (
                "minimum_run_time_before_reclaim",
                duration_problem(gang.minimum_run_time_before_reclaim),
            ),
        ):
            if problem:
                yield Violation(f"gangs[{i}].{field}", problem)


RULES: tuple[Callable[[Request], Iterator[Violation]], ...] = (
    gang_names_are_well_formed_and_unique,
    groups_are_there_and_well_named,
    pod_counts_are_not_negative,
    pod_sets_hold_pods,
    pods_are_well_named_and_once_in_the_request,
    templates_are_sound,
    scopes_name_groups_of_their_gang,
    base_gangs_are_known_and_have_no_base,
    previous_nodes_are_well_formed,
    what_is_unsupported_is_said_briefly,
    claims_of_gangs_are_short,
    names_of_the_previous_placement_are_short,
    queues_of_gangs_are_well_formed,
    times_of_gangs_are_times,
)

RULES_ACROSS: tuple[Callable[[Request], Iterator[Violation]], ...] = (
    bound_pods_are_where_pods_can_be,
)
