"""The result for each gang, in the numbers that people read.

Joins the question with its answer: the placement says what is new, the request
says what was asked and what ran before. Table, drawing and page all start here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from placement.cli.words import level_names, namespaced, natural, printable, sentence
from placement.planning.shared_gpus import shared_gpus
from placement.v1 import (
    Binding,
    ClusterSnapshot,
    ComputePlacementRequest,
    GangResult,
    Placement,
    PodGang,
    PodGroup,
    Resources,
)

#: What counts as a GPU when the policy does not say.
DEFAULT_GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe")

#: One letter per gang whose upper and lower case differ at a glance. Beyond these, letters repeat.
MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZΓΔΘΛΞΠΣΦΨΩБГДЖИЛЦЧШЩЪЫЭЮЯ"


class State(Enum):
    """The state of a gang once the plan is applied."""

    PLACED = "placed"
    """New pods are bound, and every pod of the gang runs."""
    PARTLY = "partly"
    """The minimum runs, further pods wait."""
    RUNNING = "running"
    """Everything ran before; nothing was to be done."""
    WAITING = "waiting"
    """The minimum is not met."""


#: States of gangs that have pods without a place.
WAITS = (State.PARTLY, State.WAITING)


@dataclass(frozen=True, slots=True)
class Seat:
    """Pods of one gang on one node: `new` ones, and those that ran `before`.

    `new_gpus`, `new_cpu_millis` and `new_memory_bytes` are what the new pods
    ask for together. `gpus_before` None: not known, because a running pod's
    group has no pending pod to learn from.
    """

    gang: int
    node: str
    new: int = 0
    before: int = 0
    new_gpus: int = 0
    new_cpu_millis: int = 0
    new_memory_bytes: int = 0
    gpus_before: int | None = 0

    @property
    def gpus(self) -> int:
        """GPUs of these pods, as far as they are known."""
        return self.new_gpus + (self.gpus_before or 0)


@dataclass(frozen=True, slots=True)
class Use:
    """Domains that a gang uses at one level, over all its scopes there."""

    level: str
    required: bool
    domains: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GangSummary:
    """One gang. `running` pods of `asked` run after the plan, `new` of them new.

    `mark` is empty for a gang that has no pod on any node; marks repeat when
    there are more gangs than letters. `number` counts the marked gangs. `waited` are the
    seconds since the gang was created, None where nothing of it waited, or that is not known.
    """

    namespace: str
    name: str
    state: State
    new: int
    running: int
    asked: int
    minimum: int
    nodes: int
    uses: tuple[Use, ...]
    score: float | None
    reasons: tuple[str, ...]
    mark: str
    number: int
    waited: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """All gangs in the request's order, and where their pods are; for each node, how many of
    its GPUs are in use by shares alone."""

    gangs: tuple[GangSummary, ...]
    seats: tuple[Seat, ...]
    level_names: Mapping[str, str]
    gpu_resources: tuple[str, ...]
    shared_gpus: Mapping[str, int]

    @property
    def tells_waiting(self) -> bool:
        """Whether some gang goes on waiting of which it is known since when."""
        return any(g.waited is not None and g.state in WAITS for g in self.gangs)

    @property
    def marks_repeat(self) -> bool:
        """Whether one letter stands for several gangs."""
        return sum(bool(g.mark) for g in self.gangs) > len(MARKS)

    def title(self, gang: GangSummary) -> str:
        """The gang's name, with its namespace when there are several."""
        several = len({g.namespace for g in self.gangs}) > 1
        return f"{gang.namespace}/{gang.name}" if several else gang.name


@dataclass(frozen=True, slots=True)
class Filter:
    """Which gangs are listed: all, those that `waiting` for something, those with `name` in
    their name; at most so many."""

    waiting: bool = False
    name: str = ""
    most: int | None = None

    @property
    def narrows(self) -> bool:
        """Whether only some gangs were asked for."""
        return self.waiting or bool(self.name)

    def choose(self, summary: Summary) -> tuple[tuple[GangSummary, ...], int]:
        """The gangs to list, in the request's order, and how many more there would be.

        When not all are listed, waiting gangs come before the others, the longest waiting first.
        """
        wanted = [
            gang
            for gang in summary.gangs
            if self.name in f"{gang.namespace}/{gang.name}"
            and (gang.state in WAITS or not self.waiting)
        ]
        if self.most is None or len(wanted) <= self.most:
            return tuple(wanted), 0
        by_need = sorted(wanted, key=lambda gang: (_NEED[gang.state], -(gang.waited or 0)))
        chosen = {(gang.namespace, gang.name) for gang in by_need[: self.most]}
        listed = tuple(gang for gang in wanted if (gang.namespace, gang.name) in chosen)
        return listed, len(wanted) - len(listed)


#: What a person wants to see first.
_NEED = {State.WAITING: 0, State.PARTLY: 1, State.PLACED: 2, State.RUNNING: 3}


def gpu_count(resources: Resources, gpu_resources: Iterable[str]) -> int:
    """How many GPUs are in these resources."""
    extended = resources.extended
    return sum(extended[name] for name in gpu_resources if name in extended)


def summarize(request: ComputePlacementRequest, placement: Placement) -> Summary:
    """The gangs of an answer, joined with the question that it answers."""
    gpu_resources = tuple(request.policy.gpu_resources) or DEFAULT_GPU_RESOURCES
    bindings: dict[str, list[Binding]] = defaultdict(list)
    for binding in placement.bindings:
        bindings[binding.gang].append(binding)
    results = {g.name: g for g in placement.gangs}
    # A pod that goes is nowhere afterwards, one that moves is elsewhere.
    moved = {eviction.pod: eviction.to_node for eviction in placement.evictions}
    seats: list[Seat] = []
    gangs: list[GangSummary] = []
    number = 0
    for index, gang in enumerate(request.gangs):
        here = _seats(index, gang, bindings[gang.name], moved, gpu_resources)
        seats += here
        marked = bool(here)
        mark = MARKS[number % len(MARKS)] if marked else ""
        result = results.get(gang.name) or GangResult(name=gang.name)
        waited = _waited(gang, request.snapshot)
        gangs.append(_gang(gang, result, here, mark=mark, number=number, waited=waited))
        number += marked
    return Summary(
        gangs=tuple(gangs),
        seats=tuple(seats),
        level_names=level_names(_levels(request.gangs)),
        gpu_resources=gpu_resources,
        shared_gpus=shared_gpus(request, placement),
    )


def _levels(gangs: Iterable[PodGang]) -> list[str]:
    """Levels that packing scopes name, in order of first mention."""
    return list(
        dict.fromkeys(
            level
            for gang in gangs
            for scope in gang.packing_scopes
            for level in (scope.required_level, scope.preferred_level)
            if level
        )
    )


def _seats(
    index: int,
    gang: PodGang,
    bindings: Iterable[Binding],
    moved: Mapping[str, str],
    gpu_resources: tuple[str, ...],
) -> list[Seat]:
    """The gang's pods by node after the plan, in natural order of the nodes."""
    requests = {
        pod.name: pod_set.template.requests
        for group in gang.groups
        for pod_set in group.pod_sets
        for pod in pod_set.pods
    }
    new: dict[str, list[Resources]] = defaultdict(list)
    before: Counter[str] = Counter()
    gpus_before: dict[str, int | None] = {}
    for binding in bindings:
        new[binding.node].append(requests[binding.pod])
    for group in gang.groups:
        each = _gpus_of_each(group, gpu_resources)
        for pod in (*group.bound_pods, *(p for s in group.pod_sets for p in s.bound_pods)):
            node = moved.get(pod.name, pod.node)
            if not node:
                continue
            before[node] += 1
            known = gpus_before.get(node, 0)
            gpus_before[node] = None if each is None or known is None else known + each
    return [
        Seat(
            gang=index,
            node=node,
            new=len(new[node]),
            before=before[node],
            new_gpus=sum(gpu_count(r, gpu_resources) for r in new[node]),
            new_cpu_millis=sum(r.cpu_millis for r in new[node]),
            new_memory_bytes=sum(r.memory_bytes for r in new[node]),
            gpus_before=gpus_before.get(node, 0),
        )
        for node in sorted({*new, *before}, key=natural)
    ]


def _gpus_of_each(group: PodGroup, gpu_resources: tuple[str, ...]) -> int | None:
    """GPUs of one pod of the group if its pending pods agree on them.

    Pods of one group come from one template, so running ones ask the same.
    """
    amounts = {gpu_count(s.template.requests, gpu_resources) for s in group.pod_sets}
    return amounts.pop() if len(amounts) == 1 else None


def _waited(gang: PodGang, snapshot: ClusterSnapshot) -> float | None:
    if not (gang.HasField("create_time") and snapshot.HasField("as_of")):
        return None
    return (snapshot.as_of.ToMilliseconds() - gang.create_time.ToMilliseconds()) / 1000


def _gang(
    gang: PodGang,
    result: GangResult,
    seats: list[Seat],
    *,
    mark: str,
    number: int,
    waited: float | None,
) -> GangSummary:
    namespace, name = namespaced(gang.name)
    new = sum(s.new for s in seats)
    before = sum(s.before for s in seats)
    there = sum(len(g.bound_pods) + sum(len(s.bound_pods) for s in g.pod_sets) for g in gang.groups)
    pending = sum(len(s.pods) for g in gang.groups for s in g.pod_sets)
    asked = there + pending + sum(g.gated_count for g in gang.groups)
    if not result.placed:
        state = State.WAITING
    elif before + new < asked:
        state = State.PARTLY
    else:
        state = State.PLACED if new else State.RUNNING
    return GangSummary(
        namespace=namespace,
        name=name,
        state=state,
        new=new,
        running=before + new,
        asked=asked,
        minimum=sum(g.min_replicas for g in gang.groups),
        nodes=len(seats),
        uses=_uses(result),
        score=result.placement_score if result.HasField("placement_score") else None,
        reasons=tuple(sentence(printable(r.message)) for r in result.reasons),
        mark=mark,
        number=number,
        waited=None if state is State.RUNNING else waited,
    )


def _uses(result: GangResult) -> tuple[Use, ...]:
    required: dict[str, bool] = {}
    domains: dict[str, set[str]] = {}
    for scope in result.scopes:
        required[scope.level] = required.get(scope.level, False) or scope.required
        domains.setdefault(scope.level, set()).update(map(printable, scope.domains))
    return tuple(
        Use(level=level, required=required[level], domains=tuple(sorted(used, key=natural)))
        for level, used in domains.items()
    )
