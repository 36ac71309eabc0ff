"""A cluster drawn as text, gangs in a sentence each, and what becomes of them.

    (
        Scenario("b1/r1: x1=8 x3=8 | b1/r2: x5=4")
        .gang("train", pods=4, gpus=4, pack="rack")
        .place()
        .expect(placed=["train"], nodes={"train": {"x1": 2, "x3": 2}})
    )

`tests.drawing` says how to draw a cluster. A scenario is a value: each method returns a
new one. `place` runs the real stages of the engine in this process, without the service
around them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from placement_service.entities.devices import Device
from placement_service.entities.eviction import DisruptionBudget, Eviction, EvictionKind
from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import (
    CPU,
    PODS,
    Binding,
    BoundPod,
    Effect,
    HostPort,
    Node,
    PackingScope,
    Pod,
    PodAffinityTerm,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    RunningPod,
    Snapshot,
    SpreadConstraint,
    Taint,
    Toleration,
)
from placement_service.entities.reservations import Reservation, ReservationOwner
from placement_service.entities.selectors import LabelSelector
from placement_service.entities.solution import TierName
from placement_service.judge.score import score
from placement_service.judge.verify import verify
from tests.drawing import CPUS, GPU, level_key, parse
from tests.placed import Placed, solve
from tests.waiting import LONG

NAMESPACE = "ml"

#: When snapshots are taken, in seconds.
NOW = 1_000_000


def gang_name(short: str) -> str:
    return f"namespaces/{NAMESPACE}/podgangs/{short}"


def pod_name(short: str) -> str:
    return f"namespaces/{NAMESPACE}/pods/{short}"


def near(level: str, **labels: str) -> PodAffinityTerm:
    """Pods with these labels, as near or as far as one domain of a level."""
    selector = LabelSelector(tuple(sorted(labels.items())))
    return PodAffinityTerm(selector, level_key(level), (NAMESPACE,))


def spread(level: str, skew: int = 1, min_domains: int = 1, **labels: str) -> SpreadConstraint:
    """Pods with these labels, evenly over the domains of a level."""
    selector = LabelSelector(tuple(sorted(labels.items())))
    return SpreadConstraint(skew, level_key(level), selector, NAMESPACE, min_domains)


@dataclass(frozen=True, slots=True)
class Group:
    """A group of a gang: pods to place, and by `on` the nodes of those that run.

    Pods on the nodes in `told` run as well, and the request says what they ask for, so
    that they may be evicted. Every pod has the label ``group`` with the group's name,
    besides `labels`. `asks` are further fields of the template.
    `min` None means all of them. `others` are pods of the same group that ask for
    something else: of them only `name`, `pods` and what a pod asks for count.
    """

    name: str
    pods: int = 0
    gpus: int = 0
    cpus: int = 0
    min: int | None = None
    pack: str = ""
    prefer: str = ""
    on: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    select: Mapping[str, str] = field(default_factory=dict)
    tolerate: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    near: tuple[PodAffinityTerm, ...] = ()
    away: tuple[PodAffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    others: tuple[Group, ...] = ()
    told: tuple[str, ...] = ()
    asks: Mapping[str, Any] = field(default_factory=dict)

    def template(self) -> PodTemplate:
        requests = {PODS: 1, CPU: self.cpus * 1000, GPU: self.gpus}
        template = PodTemplate(
            requests={name: amount for name, amount in requests.items() if amount},
            labels={"group": self.name, **self.labels},
            node_selector=tuple(sorted(self.select.items())),
            tolerations=tuple(Toleration(key, True, "", None) for key in self.tolerate),
            required_affinity=self.near,
            required_anti_affinity=self.away,
            host_ports=tuple(HostPort(port) for port in self.ports),
            spread_constraints=self.spread,
        )
        return replace(template, **self.asks)

    def pod_group(self, gang: str) -> PodGroup:
        bound = tuple(
            BoundPod(pod_name(f"{gang}-{self.name}-bound-{i}"), f"nodes/{node}")
            for i, node in enumerate(self.on)
        )
        kinds = (kind for kind in (self, *self.others) if kind.pods or kind.told)
        pod_sets = tuple(kind.pod_set(gang) for kind in kinds)
        total = sum(len(s.pods) + len(s.bound_pods) for s in pod_sets) + len(bound)
        return PodGroup(self.name, total if self.min is None else self.min, pod_sets, bound)

    def pod_set(self, gang: str) -> PodSet:
        pods = (Pod(pod_name(f"{gang}-{self.name}-{i}")) for i in range(self.pods))
        told = (
            BoundPod(pod_name(f"{gang}-{self.name}-runs-{i}"), f"nodes/{node}")
            for i, node in enumerate(self.told)
        )
        return PodSet(self.template(), tuple(pods), tuple(told))

    def scopes(self) -> tuple[PackingScope, ...]:
        return _scopes(self.name, (self.name,), self.pack, self.prefer)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A snapshot in the making, and the policy to place it with."""

    drawing: str
    nodes: tuple[Node, ...] = ()
    gangs: tuple[PodGang, ...] = ()
    running: tuple[RunningPod, ...] = ()
    policy: Policy = field(default_factory=Policy)
    queues: tuple[Queue, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    as_of: int | None = NOW

    def __post_init__(self) -> None:
        if not self.nodes:
            object.__setattr__(self, "nodes", tuple(parse(self.drawing)))

    def node(
        self,
        name: str,
        *,
        taints: Sequence[str] = (),
        cordoned: bool = False,
        closed_because: str = "",
        ready: bool = True,
        ports: Sequence[int] = (),
        labels: Mapping[str, str] | None = None,
        cpus: int = CPUS,
    ) -> Scenario:
        """Say more about a node of the drawing; `taints` are keys of NoSchedule taints."""
        nodes = []
        for node in self.nodes:
            if node.short_name == name:
                node = replace(
                    node,
                    labels={**node.labels, **(labels or {})},
                    allocatable={**node.allocatable, CPU: cpus * 1000},
                    taints=tuple(Taint(key, "", Effect.NO_SCHEDULE) for key in taints),
                    unschedulable=cordoned or bool(closed_because),
                    closed_because=closed_because,
                    ready=ready,
                    host_ports=tuple(HostPort(port) for port in ports),
                )
            nodes.append(node)
        return replace(self, nodes=tuple(nodes))

    def runs(
        self, name: str, on: str, *, away: Sequence[PodAffinityTerm] = (), **labels: str
    ) -> Scenario:
        """A pod that runs; what it takes is in the drawing."""
        pod = RunningPod(pod_name(name), f"nodes/{on}", labels, tuple(away))
        return replace(self, running=(*self.running, pod))

    def gang(
        self,
        name: str,
        *groups: Group,
        pods: int = 0,
        gpus: int = 0,
        min: int | None = None,
        pack: str = "",
        prefer: str = "",
        priority: int = 0,
        base: str = "",
        previous: Sequence[str] = (),
        uninitialized: bool = False,
        unsupported: Sequence[str] = (),
        scopes: Sequence[PackingScope] = (),
        queue: str = "",
        waited: int = 0,
        **more: Any,
    ) -> Scenario:
        """A gang of these groups, or of one group "w" of `pods` pods of `gpus` GPUs each.

        `pack` and `prefer` are the required and preferred level of the whole gang, `waited`
        is in seconds, `more` are further fields of it.
        """
        groups = groups or (Group("w", pods=pods, gpus=gpus, min=min),)
        names = tuple(group.name for group in groups)
        gang = PodGang(
            name=gang_name(name),
            groups=tuple(group.pod_group(name) for group in groups),
            priority=priority,
            packing_scopes=(
                *_scopes(name, names, pack, prefer),
                *scopes,
                *(scope for group in groups for scope in group.scopes()),
            ),
            base_gang=gang_name(base) if base else "",
            uninitialized=uninitialized,
            previous_nodes=tuple(f"nodes/{node}" for node in previous),
            unsupported=tuple(unsupported),
            queue=f"queues/{queue}" if queue else "",
            **more,
            created=NOW - waited,
        )
        return replace(self, gangs=(*self.gangs, gang))

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.nodes,
            self.gangs,
            self.running,
            as_of=self.as_of,
            queues=self.queues,
            reservations=self.reservations,
            disruption_budgets=self.budgets,
        )

    def queue(
        self,
        name: str,
        parent: str = "",
        *,
        limit: Mapping[str, int] | None = None,
        guaranteed: Mapping[str, int] | None = None,
        used: int = 0,
        fixed: int = 0,
        not_reclaimable: bool = False,
        kept: Mapping[str, int] | None = None,
    ) -> Scenario:
        """A queue; `used` GPUs run in it, of which `fixed` are not preemptible."""
        queue = Queue(
            f"queues/{name}",
            f"queues/{parent}" if parent else "",
            limit or {},
            guaranteed or {},
            {GPUS: used} if used else {},
            {GPUS: fixed} if fixed else {},
            not_reclaimable,
            kept=kept or {},
        )
        return replace(self, queues=(*self.queues, queue))

    def with_devices(self, name: str, *devices: Device, **more: Any) -> Scenario:
        """The devices of a node, and what else is to be said of it."""
        nodes = (
            replace(n, devices=devices, **more) if n.short_name == name else n for n in self.nodes
        )
        return replace(self, nodes=tuple(nodes))

    def give(self, **pods: tuple[str | int, ...]) -> tuple[Binding, ...]:
        """As `bind`, with devices: ``give(train_w_0=("x1", 0, 1))``."""
        return tuple(
            binding._replace(devices=tuple(int(i) for i in place[1:]))
            for short, place in pods.items()
            for binding in self.bind(**{short: str(place[0])})
        )

    def hold(self, name: str, on: str, gpus: int, *owners: str, **more: Any) -> Scenario:
        """A reservation of GPUs on a node for pods with one of these labels of `group`."""
        reservation = Reservation(
            f"reservations/{name}",
            f"nodes/{on}",
            {GPU: gpus} if gpus else {},
            tuple(
                ReservationOwner(selector=LabelSelector((("group", owner),))) for owner in owners
            ),
            **more,
        )
        return replace(self, reservations=(*self.reservations, reservation))

    def budget(self, allowed: int, **labels: str) -> Scenario:
        """At most so many of the pods with these labels may be evicted."""
        selector = LabelSelector(tuple(sorted(labels.items())))
        name = f"namespaces/{NAMESPACE}/poddisruptionbudgets/b{len(self.budgets)}"
        return replace(self, budgets=(*self.budgets, DisruptionBudget(name, selector, allowed)))

    def evict(
        self, kind: EvictionKind, winner: str = "", **pods: str | None
    ) -> tuple[Eviction, ...]:
        """Evictions by hand of pods that are told, each with the node that it moves to."""
        runs = {
            pod.name: (gang.name, pod.node)
            for gang in self.gangs
            for group in gang.groups
            for pod in group.running_pods
        }
        evictions = []
        for short, to in pods.items():
            name = pod_name(short.replace("_", "-"))
            gang, node = runs.get(name, ("", ""))
            evictions.append(
                Eviction(
                    name,
                    gang,
                    node,
                    kind,
                    for_gang=gang_name(winner) if winner else "",
                    to_node=f"nodes/{to}" if to else "",
                )
            )
        return tuple(evictions)

    def bind(self, **pods: str) -> tuple[Binding, ...]:
        """Bindings by hand: ``bind(train_w_0="x1")`` puts pod "train-w-0" on node "x1"."""
        owner = {
            pod.name: (gang.name, group.name)
            for gang in self.gangs
            for group in gang.groups
            for pod_set in group.pod_sets
            for pod in pod_set.pods
        }
        bindings = []
        for short, node in pods.items():
            name = pod_name(short.replace("_", "-"))
            gang, group = owner.get(name, (gang_name("nobody"), "nothing"))
            bindings.append(Binding(name, f"nodes/{node}", gang, group))
        return tuple(bindings)

    def place(self, *, seconds: float = LONG) -> Placed:
        """The engine's answer, which keeps the rules and is worth what it claims."""
        snapshot = self.snapshot()
        solution = solve(snapshot, self.policy, seconds=seconds)[-1]
        bindings = name_pods(snapshot, solution.assignments)
        assert verify(snapshot, self.policy, bindings) == ()
        result = score(snapshot, self.policy, bindings)
        assert {t.name: t.value for t in solution.tiers} == {n: result.value(n) for n in TierName}
        return Placed(self.nodes, solution, bindings, result)


def _scopes(name: str, groups: tuple[str, ...], pack: str, prefer: str) -> tuple[PackingScope, ...]:
    if not pack and not prefer:
        return ()
    required, preferred = (level_key(level) if level else "" for level in (pack, prefer))
    return (PackingScope(name, groups, required, preferred),)
