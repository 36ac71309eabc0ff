"""Judges what happens to nodes, pods and gangs, event by event, by the rules of the controller.

It knows nothing of the controller; what belongs to what it reads from PodGangs as Grove writes
them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Final

from tests.cluster.api import NODES, PODS, Body, Resource
from tests.controller.object_facts import (
    BASE,
    INITIALIZED,
    Key,
    gates_of,
    is_ending,
    is_true,
    key_of,
    lives,
    node_of,
    other_conditions,
    our_status,
    packings_of,
    quantity,
    references_of,
    requests_of,
    uid_of,
)


class Rule(StrEnum):
    """What must hold at every moment."""

    ONE_NODE = "a pod is bound to one node, once"
    NOT_GATED = "no pod is bound while a gate holds it"
    OURS = "only pods of our scheduler, of a gang that is initialized, are bound"
    KNOWN_NODE = "pods are bound to nodes that are there"
    ROOM = "no node has more on it than it holds"
    STATUS = "nothing of ours is on a gang's status before it is initialized"
    CONDITIONS = "conditions of others stay as they are"
    ONE_AT_A_TIME = "at most one gang at a time is half bound"
    WHOLE = "no gang stays half bound"
    BASE_FIRST = "no scaled gang begins before its base is met"
    PACKED = "what must be in one domain is in one domain"


ALL: Final = frozenset(Rule)
#: Those that hold also when controllers die, requests fail and pods are taken away.
UNDER_FAULTS: Final = ALL - {Rule.ONE_AT_A_TIME, Rule.WHOLE}


@dataclass(frozen=True, slots=True)
class Event:
    """An object as it was made or changed, or as it was last when `is_gone`.

    `at` is when it was heard of, in seconds. `is_old` tells of what was there before the
    witness came: it is known, and not judged.
    """

    resource: Resource
    body: Body
    is_gone: bool = False
    at: float = 0.0
    is_old: bool = False

    @property
    def revision(self) -> int:
        return int(self.body["metadata"].get("resourceVersion") or 0)


@dataclass(frozen=True, slots=True)
class Half:
    """How long a gang was half bound. `lost` when it lost pods that it had, or that were to
    be bound: then the binder is not to blame that some run and some do not."""

    gang: str
    seconds: float
    lost: bool


class Judge:
    """Judges events, one after another; `broken` has what was wrong, in words.

    `grace` is for tests that take nodes, pods and gangs away: for so many seconds afterwards the
    binder is not blamed for it, because it cannot know at once.
    """

    def __init__(self, rules: Collection[Rule] = ALL, *, grace: float = 0.0) -> None:
        self.rules = frozenset(rules)
        self.broken: list[str] = []
        self.halves: list[Half] = []
        #: The nodes that each pod was ever on, by uid.
        self.nodes_of: dict[str, set[str]] = {}
        self._grace = grace
        self._nodes: dict[str, Body] = {}
        self._gone_at: dict[str, float] = {}
        self._pods: dict[Key, Body] = {}
        self._on: dict[str, set[Key]] = {}
        self._gangs: dict[Key, Body] = {}
        self._ended_at: dict[Key, float] = {}
        #: Gangs by each pod that they refer to, or ever did.
        self._owners: dict[Key, set[Key]] = {}
        self._met: set[Key] = set()
        self._met_until: dict[Key, float] = {}
        #: When a pod of a gang went last.
        self._lost_at: dict[Key, float] = {}
        self._half: dict[Key, Half] = {}
        self._half_at: dict[Key, float] = {}
        self._now = 0.0

    def see(self, event: Event) -> None:
        """Judges one event; they come in the order in which they happened."""
        self._now = max(self._now, event.at)
        body = None if event.is_gone else event.body
        if event.resource is NODES:
            self._see_node(event.body["metadata"]["name"], body, is_old=event.is_old)
        elif event.resource is PODS:
            self._see_pod(key_of(event.body), body, is_old=event.is_old)
        else:
            self._see_gang(key_of(event.body), body, is_old=event.is_old)

    def end(self, at: float) -> None:
        """Nothing more is to come: what is half bound now stays so."""
        self._now = max(self._now, at)
        for key, half in list(self._half.items()):
            self._end_half(key)
            if not half.lost:
                self._check(Rule.WHOLE, False, f"gang {half.gang} stays half bound")

    # Objects.

    def _see_node(self, name: str, body: Body | None, *, is_old: bool) -> None:
        was_there = name in self._nodes
        if body is None:
            self._nodes.pop(name, None)
            self._gone_at[name] = self._now
        else:
            self._gone_at.pop(name, None)
            self._nodes[name] = body
        if was_there != (name in self._nodes):
            # The pods of a node go with it: no kubelet runs them any longer.
            for pod in self._on.get(name, ()):
                self._follow_gangs(pod, lost=body is None, is_old=is_old)

    def _see_pod(self, key: Key, body: Body | None, *, is_old: bool) -> None:
        before = self._pods.get(key)
        if before is not None and (body is None or uid_of(before) != uid_of(body)):
            # Gone, or another one took its name.
            self._on.get(node_of(before), set()).discard(key)
            before = None
        if body is None:
            self._pods.pop(key, None)
        else:
            self._pods[key] = body
            if node := node_of(body):
                self._on.setdefault(node, set()).add(key)
                known = self.nodes_of.setdefault(uid_of(body), set())
                known.add(node)
                self._check(Rule.ONE_NODE, len(known) == 1, f"pod {key[1]} was on {sorted(known)}")
                if not is_old and before is not None and not node_of(before):
                    self._judge_binding(key, before, body)
        lost = body is None or is_ending(body) or self._is_recent(self._gone_at.get(node_of(body)))
        self._follow_gangs(key, lost=lost, is_old=is_old)

    def _see_gang(self, key: Key, body: Body | None, *, is_old: bool) -> None:
        before = self._gangs.get(key)
        if before is not None and (body is None or uid_of(before) != uid_of(body)):
            # Gone, or another one took its name.
            del self._gangs[key]
            self._ended_at[key] = self._now
            self._met.discard(key)
            for memory in (self._met_until, self._lost_at):
                memory.pop(key, None)
            if key in self._half:
                self._end_half(key)
            before = None
        if body is None:
            return
        self._gangs[key] = body
        for _, pods in references_of(body):
            for pod in pods:
                self._owners.setdefault(pod, set()).add(key)
        if not is_old:
            self._judge_status(key, before, body)
        self._follow(key, is_old=is_old)

    # What is judged about the binding of a pod.

    def _judge_binding(self, key: Key, before: Body, body: Body) -> None:
        node = node_of(body)
        told = f"pod {key[1]} was bound to {node}"
        gates = [*gates_of(before), *gates_of(body)]
        self._check(Rule.NOT_GATED, not gates, f"{told} behind {gates}")
        gangs = [gang for gang in self._owners.get(key, ()) if gang in self._gangs]
        scheduler = body["spec"].get("schedulerName")
        self._check(Rule.OURS, scheduler == "placement-service", f"{told}, for {scheduler}")
        self._check(
            Rule.OURS,
            any(is_true(self._gangs[gang], INITIALIZED) for gang in gangs)
            or any(self._is_recent(self._ended_at.get(g)) for g in self._owners.get(key, ())),
            f"{told}, of no gang that is initialized: {gangs}",
        )
        self._check(
            Rule.KNOWN_NODE,
            node in self._nodes or self._is_recent(self._gone_at.get(node)),
            f"{told}, which is not there",
        )
        if node in self._nodes:
            self._judge_room(node, told)
        for gang in gangs:
            self._judge_base(gang, body, told)
            self._judge_packing(gang, told)

    def _judge_room(self, node: str, told: str) -> None:
        used: dict[str, Decimal] = {}
        for pod in self._on[node]:
            for resource, amount in requests_of(self._pods[pod]).items():
                used[resource] = used.get(resource, Decimal(0)) + amount
        room = self._nodes[node].get("status", {}).get("allocatable", {})
        over = {
            resource: f"{amount} of {room.get(resource, 0)}"
            for resource, amount in used.items()
            if amount > quantity(room.get(resource, 0))
        }
        self._check(Rule.ROOM, not over, f"{told}, which then has {over}")

    def _judge_base(self, key: Key, pod: Body, told: str) -> None:
        name = (pod["metadata"].get("labels") or {}).get(BASE)
        if not name or sum(bound for bound, _ in self._groups(key)) > 1:
            return
        base = key[0], name
        self._check(
            Rule.BASE_FIRST,
            self._is_met(base) or self._is_recent(self._met_until.get(base)),
            f"{told}, of {key[1]}, before its base {name} is met",
        )

    def _judge_packing(self, key: Key, told: str) -> None:
        for what, label, pods in packings_of(self._gangs[key]):
            nodes = {node_of(self._pods[pod]) for pod in pods if self._is_bound(pod)}
            domains = {self._label(node, label) for node in nodes}
            self._check(
                Rule.PACKED,
                len(domains) <= 1 and "" not in domains,
                f"{told}; {what} of {key[1]} is in {sorted(domains)} of {label}",
            )

    # What is judged about the status of a gang.

    def _judge_status(self, key: Key, before: Body | None, body: Body) -> None:
        ours = our_status(body)
        self._check(
            Rule.STATUS,
            is_true(body, INITIALIZED) or not ours,
            f"gang {key[1]} is not initialized and says {ours}",
        )
        if before is None:
            return
        was, now = other_conditions(before), other_conditions(body)
        if not is_true(before, INITIALIZED):
            # Grove writes all conditions as it knows them, until it has done so.
            return
        lost = was.keys() - now.keys()
        self._check(Rule.CONDITIONS, not lost, f"gang {key[1]} lost {sorted(lost)}")
        if ours != our_status(before):
            changed = sorted(kind for kind in was.keys() & now.keys() if was[kind] != now[kind])
            self._check(Rule.CONDITIONS, not changed, f"with ours, gang {key[1]} changed {changed}")

    # Gangs as a whole.

    def _follow_gangs(self, pod: Key, *, lost: bool, is_old: bool) -> None:
        """Takes note of the gangs of a pod that has changed, or is lost to them."""
        for gang in self._owners.get(pod, ()):
            if lost:
                self._lost_at[gang] = self._now
                if gang in self._half:
                    self._half[gang] = replace(self._half[gang], lost=True)
            self._follow(gang, is_old=is_old)

    def _follow(self, key: Key, *, is_old: bool) -> None:
        """Takes note of whether a gang is met, half bound or neither, from now on."""
        if key not in self._gangs:
            return
        was_met = key in self._met
        if self._is_met(key):
            self._met.add(key)
        elif was_met:
            self._met.discard(key)
            self._met_until[key] = self._now
        if key in self._met or not any(bound for bound, _ in self._groups(key)):
            if key in self._half:
                self._end_half(key)
        elif key not in self._half:
            lost = was_met or is_old or self._is_recent(self._lost_at.get(key))
            self._half[key], self._half_at[key] = Half(key[1], 0.0, lost), self._now
            begun = sorted(half.gang for half in self._half.values() if not half.lost)
            self._check(Rule.ONE_AT_A_TIME, len(begun) <= 1, f"half bound at once: {begun}")

    def _end_half(self, key: Key) -> None:
        half = self._half.pop(key)
        self.halves.append(replace(half, seconds=self._now - self._half_at.pop(key)))

    def _groups(self, key: Key) -> list[tuple[int, int]]:
        """How many pods of each group are bound, and how many must be."""
        return [
            (sum(self._is_bound(pod) for pod in pods), int(group.get("minReplicas") or 0))
            for group, pods in references_of(self._gangs[key])
        ]

    def _is_met(self, key: Key) -> bool:
        return key in self._gangs and all(bound >= minimum for bound, minimum in self._groups(key))

    def _is_bound(self, key: Key) -> bool:
        pod = self._pods.get(key)
        return pod is not None and node_of(pod) in self._nodes and not is_ending(pod) and lives(pod)

    def _label(self, node: str, label: str) -> str:
        return str(self._nodes[node]["metadata"].get("labels", {}).get(label, ""))

    def _is_recent(self, at: float | None) -> bool:
        return at is not None and self._now - at < self._grace

    def _check(self, rule: Rule, holds: bool, told: str) -> None:
        if not holds and rule in self.rules:
            self.broken.append(f"{rule}: {told}")
