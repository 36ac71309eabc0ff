"""A witness that sees all that happens to nodes, pods and gangs, and judges each event.

    with Witness(cluster) as witness:      # before the first object is made
        ...
    # Raises AssertionError here if at any moment a rule was broken.

What the watches tell is put into the order in which it happened, which the revisions of
the one etcd behind them all give, and judged event by event: not what a test finds when
it looks, but every state that ever was. `Judge` is that judgement without a cluster.

It looks at the cluster alone and knows nothing of the controller; what belongs to whom it
reads from PodGangs as Grove writes them.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from functools import partial
from typing import Final, Self

from tests.cluster.api import NODES, POD_GANGS, PODS, Body, Resource
from tests.cluster.fixtures import Cluster
from tests.cluster.informer import Informer
from tests.waiting import wait_until

_BASE: Final = "grove.io/base-podgang"
_SCHEDULED: Final = "Scheduled"
_INITIALIZED: Final = "Initialized"
_SUFFIXES: Final = {
    "m": Decimal("0.001"),
    "Ki": Decimal(1024),
    "Mi": Decimal(1024**2),
    "Gi": Decimal(1024**3),
    "Ti": Decimal(1024**4),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
}

_Key = tuple[str, str]


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

    `grace` is for tests that take nodes, pods and gangs away: for so many seconds afterwards
    who binds is not blamed for it, as nobody knows of it before being told.
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
        self._pods: dict[_Key, Body] = {}
        self._on: dict[str, set[_Key]] = {}
        self._gangs: dict[_Key, Body] = {}
        self._ended_at: dict[_Key, float] = {}
        #: Gangs by each pod that they refer to, or ever did.
        self._owners: dict[_Key, set[_Key]] = {}
        self._met: set[_Key] = set()
        self._met_until: dict[_Key, float] = {}
        #: When a pod of a gang went last.
        self._lost_at: dict[_Key, float] = {}
        self._half: dict[_Key, Half] = {}
        self._half_at: dict[_Key, float] = {}
        self._now = 0.0

    def see(self, event: Event) -> None:
        """Judges one event; they come in the order in which they happened."""
        self._now = max(self._now, event.at)
        body = None if event.is_gone else event.body
        if event.resource is NODES:
            self._see_node(event.body["metadata"]["name"], body, is_old=event.is_old)
        elif event.resource is PODS:
            self._see_pod(_key(event.body), body, is_old=event.is_old)
        else:
            self._see_gang(_key(event.body), body, is_old=event.is_old)

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
            # With a node go its pods: nobody runs them any more.
            for pod in self._on.get(name, ()):
                self._follow_gangs(pod, lost=body is None, is_old=is_old)

    def _see_pod(self, key: _Key, body: Body | None, *, is_old: bool) -> None:
        before = self._pods.get(key)
        if before is not None and (body is None or _uid(before) != _uid(body)):
            # Gone, or another one took its name.
            self._on.get(_node_of(before), set()).discard(key)
            before = None
        if body is None:
            self._pods.pop(key, None)
        else:
            self._pods[key] = body
            if node := _node_of(body):
                self._on.setdefault(node, set()).add(key)
                known = self.nodes_of.setdefault(_uid(body), set())
                known.add(node)
                self._check(Rule.ONE_NODE, len(known) == 1, f"pod {key[1]} was on {sorted(known)}")
                if not is_old and before is not None and not _node_of(before):
                    self._judge_binding(key, before, body)
        lost = (
            body is None or _is_ending(body) or self._is_recent(self._gone_at.get(_node_of(body)))
        )
        self._follow_gangs(key, lost=lost, is_old=is_old)

    def _see_gang(self, key: _Key, body: Body | None, *, is_old: bool) -> None:
        before = self._gangs.get(key)
        if before is not None and (body is None or _uid(before) != _uid(body)):
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
        for _, pods in _references(body):
            for pod in pods:
                self._owners.setdefault(pod, set()).add(key)
        if not is_old:
            self._judge_status(key, before, body)
        self._follow(key, is_old=is_old)

    # What is judged about the binding of a pod.

    def _judge_binding(self, key: _Key, before: Body, body: Body) -> None:
        node = _node_of(body)
        told = f"pod {key[1]} was bound to {node}"
        gates = [*_gates(before), *_gates(body)]
        self._check(Rule.NOT_GATED, not gates, f"{told} behind {gates}")
        gangs = [gang for gang in self._owners.get(key, ()) if gang in self._gangs]
        scheduler = body["spec"].get("schedulerName")
        self._check(Rule.OURS, scheduler == "placement-service", f"{told}, for {scheduler}")
        self._check(
            Rule.OURS,
            any(_is_true(self._gangs[gang], _INITIALIZED) for gang in gangs)
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
            for resource, amount in _requests(self._pods[pod]).items():
                used[resource] = used.get(resource, Decimal(0)) + amount
        room = self._nodes[node].get("status", {}).get("allocatable", {})
        over = {
            resource: f"{amount} of {room.get(resource, 0)}"
            for resource, amount in used.items()
            if amount > quantity(room.get(resource, 0))
        }
        self._check(Rule.ROOM, not over, f"{told}, which then has {over}")

    def _judge_base(self, key: _Key, pod: Body, told: str) -> None:
        name = (pod["metadata"].get("labels") or {}).get(_BASE)
        if not name or sum(bound for bound, _ in self._groups(key)) > 1:
            return
        base = key[0], name
        self._check(
            Rule.BASE_FIRST,
            self._is_met(base) or self._is_recent(self._met_until.get(base)),
            f"{told}, of {key[1]}, before its base {name} is met",
        )

    def _judge_packing(self, key: _Key, told: str) -> None:
        for what, label, pods in _packings(self._gangs[key]):
            nodes = {_node_of(self._pods[pod]) for pod in pods if self._is_bound(pod)}
            domains = {self._label(node, label) for node in nodes}
            self._check(
                Rule.PACKED,
                len(domains) <= 1 and "" not in domains,
                f"{told}; {what} of {key[1]} is in {sorted(domains)} of {label}",
            )

    # What is judged about the status of a gang.

    def _judge_status(self, key: _Key, before: Body | None, body: Body) -> None:
        ours = _ours(body)
        self._check(
            Rule.STATUS,
            _is_true(body, _INITIALIZED) or not ours,
            f"gang {key[1]} is not initialized and says {ours}",
        )
        if before is None:
            return
        was, now = _others(before), _others(body)
        if not _is_true(before, _INITIALIZED):
            # Grove writes all conditions as it knows them, until it has done so.
            return
        lost = was.keys() - now.keys()
        self._check(Rule.CONDITIONS, not lost, f"gang {key[1]} lost {sorted(lost)}")
        if ours != _ours(before):
            changed = sorted(kind for kind in was.keys() & now.keys() if was[kind] != now[kind])
            self._check(Rule.CONDITIONS, not changed, f"with ours, gang {key[1]} changed {changed}")

    # Gangs as a whole.

    def _follow_gangs(self, pod: _Key, *, lost: bool, is_old: bool) -> None:
        """Takes note of the gangs of a pod that has changed, or is lost to them."""
        for gang in self._owners.get(pod, ()):
            if lost:
                self._lost_at[gang] = self._now
                if gang in self._half:
                    self._half[gang] = replace(self._half[gang], lost=True)
            self._follow(gang, is_old=is_old)

    def _follow(self, key: _Key, *, is_old: bool) -> None:
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

    def _end_half(self, key: _Key) -> None:
        half = self._half.pop(key)
        self.halves.append(replace(half, seconds=self._now - self._half_at.pop(key)))

    def _groups(self, key: _Key) -> list[tuple[int, int]]:
        """How many pods of each group are bound, and how many must be."""
        return [
            (sum(self._is_bound(pod) for pod in pods), int(group.get("minReplicas") or 0))
            for group, pods in _references(self._gangs[key])
        ]

    def _is_met(self, key: _Key) -> bool:
        return key in self._gangs and all(bound >= minimum for bound, minimum in self._groups(key))

    def _is_bound(self, key: _Key) -> bool:
        pod = self._pods.get(key)
        return (
            pod is not None and _node_of(pod) in self._nodes and not _is_ending(pod) and _lives(pod)
        )

    def _label(self, node: str, label: str) -> str:
        return str(self._nodes[node]["metadata"].get("labels", {}).get(label, ""))

    def _is_recent(self, at: float | None) -> bool:
        return at is not None and self._now - at < self._grace

    def _check(self, rule: Rule, holds: bool, told: str) -> None:
        if not holds and rule in self.rules:
            self.broken.append(f"{rule}: {told}")


class Witness:
    """Watches a cluster while a block runs, and judges what happened at its end.

    Also `check`, at any moment of the block. Other threads may go on meanwhile.
    """

    def __init__(
        self, cluster: Cluster, rules: Collection[Rule] = ALL, *, grace: float = 0.0
    ) -> None:
        self._api = cluster.api
        self._judge = Judge(rules, grace=grace)
        self._lock = threading.Lock()
        self._heard: list[Event] = []
        #: The newest version heard of, by kind and uid; of what is gone for good as well.
        self._versions: dict[tuple[Resource, str], int] = {}
        self._gone: set[tuple[Resource, str]] = set()
        self._is_old = True
        self._informers = [
            Informer(cluster.api, resource, partial(self._hear, resource))
            for resource in (NODES, POD_GANGS, PODS)
        ]

    @property
    def pods_bound(self) -> int:
        """How many pods were bound, until the last check."""
        return len(self._judge.nodes_of)

    @property
    def halves(self) -> tuple[Half, ...]:
        """When gangs were half bound, until the last check."""
        return tuple(self._judge.halves)

    def __enter__(self) -> Self:
        for informer in self._informers:
            informer.start()
        self._is_old = False
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._catch_up()
        finally:
            for informer in self._informers:
                informer.stop()
        self._pass_on(math.inf)
        self._judge.end(time.monotonic())
        print(self.figures())
        if kind is None:
            assert not self._judge.broken, self._reported()
        elif self._judge.broken:
            print(self._reported())

    def check(self) -> None:
        """Raises AssertionError if a rule was broken so far."""
        self._pass_on(self._catch_up())
        assert not self._judge.broken, self._reported()

    def figures(self) -> str:
        """How many gangs were half bound, and for how long."""
        told = [f"{self.pods_bound} pods were bound"]
        for lost, what in ((False, "half bound while binding"), (True, "after a loss")):
            seconds = [half.seconds * 1000 for half in self.halves if half.lost is lost]
            if seconds:
                told.append(
                    f"{len(seconds)} times {what}: median {statistics.median(seconds):.0f} ms,"
                    f" longest {max(seconds):.0f} ms"
                )
        return "; ".join(told)

    def _hear(self, resource: Resource, body: Body, is_gone: bool) -> None:
        event = Event(resource, body, is_gone, time.monotonic(), self._is_old)
        key = resource, _uid(body)
        with self._lock:
            self._heard.append(event)
            self._versions[key] = max(event.revision, self._versions.get(key, 0))
            if is_gone:
                self._gone.add(key)

    def _catch_up(self) -> int:
        """Waits until all is heard of that had happened when it was called; the revision
        of that moment."""
        revisions = []
        for resource in (NODES, POD_GANGS, PODS):
            listing = self._api.listing(resource)
            revisions.append(int(listing["metadata"]["resourceVersion"]))
            wait_until(partial(self._has_heard, resource, listing), "the witness has heard all")
        return min(revisions)

    def _has_heard(self, resource: Resource, listing: Body) -> bool:
        revision = int(listing["metadata"]["resourceVersion"])
        there = {_uid(one): int(one["metadata"]["resourceVersion"]) for one in listing["items"]}
        with self._lock:
            known = {uid: v for (kind, uid), v in self._versions.items() if kind is resource}
            return all(known.get(uid, 0) >= version for uid, version in there.items()) and all(
                uid in there or version > revision or (resource, uid) in self._gone
                for uid, version in known.items()
            )

    def _pass_on(self, until: float) -> None:
        """Lets everything be judged that happened until a revision, in its order."""
        with self._lock:
            due = [event for event in self._heard if event.is_old or event.revision <= until]
            self._heard = [
                event for event in self._heard if not event.is_old and event.revision > until
            ]
        # Of what was there before, gangs are known before their pods are looked at.
        order = {NODES: 0, POD_GANGS: 1, PODS: 2}
        due.sort(key=lambda e: (not e.is_old, order[e.resource] if e.is_old else e.revision))
        for event in due:
            self._judge.see(event)

    def _reported(self) -> str:
        return "\n".join(["what must hold did not:", *self._judge.broken[:20]])


def quantity(text: str | int) -> Decimal:
    """A quantity as Kubernetes writes it, as a number."""
    text = str(text)
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            return Decimal(text.removesuffix(suffix)) * factor
    return Decimal(text)


def _requests(pod: Body) -> dict[str, Decimal]:
    """What a pod takes of its node, itself as one of its pods; nothing when it has ended."""
    if not _lives(pod):
        return {}
    spec = pod["spec"]
    taken: dict[str, Decimal] = {"pods": Decimal(1)}
    for container in spec["containers"]:
        for resource, amount in _asked(container).items():
            taken[resource] = taken.get(resource, Decimal(0)) + amount
    for container in spec.get("initContainers") or ():
        for resource, amount in _asked(container).items():
            taken[resource] = max(taken.get(resource, Decimal(0)), amount)
    return taken


def _asked(container: Body) -> dict[str, Decimal]:
    asked = (container.get("resources") or {}).get("requests") or {}
    return {resource: quantity(amount) for resource, amount in asked.items()}


def _references(gang: Body) -> Iterator[tuple[Body, list[_Key]]]:
    namespace = gang["metadata"]["namespace"]
    for group in gang["spec"].get("podgroups") or ():
        yield group, [(namespace, one["name"]) for one in group.get("podReferences") or ()]


def _packings(gang: Body) -> Iterator[tuple[str, str, list[_Key]]]:
    """What must be in one domain: in words, the label of the level, and the pods."""
    groups = {group["name"]: (group, pods) for group, pods in _references(gang)}
    spec = gang["spec"]
    scopes: list[tuple[str, Body, list[str]]] = [("all", spec, list(groups))]
    for config in spec.get("topologyConstraintGroupConfigs") or ():
        scopes.append((config["name"], config, config["podGroupNames"]))
    scopes += [(name, group, [name]) for name, (group, _) in groups.items()]
    for what, holder, names in scopes:
        packing = (holder.get("topologyConstraint") or {}).get("packConstraint") or {}
        if label := packing.get("required"):
            yield what, label, [pod for name in names for pod in groups[name][1]]


def _ours(gang: Body) -> Body:
    """What schedulers write on a gang."""
    status = gang.get("status") or {}
    found: Body = {c["type"]: c for c in _conditions(gang) if c["type"] == _SCHEDULED}
    if "placementScore" in status:
        found["placementScore"] = status["placementScore"]
    if status.get("phase") not in (None, "", "Pending"):
        found["phase"] = status["phase"]
    return found


def _others(gang: Body) -> Body:
    return {c["type"]: c for c in _conditions(gang) if c["type"] != _SCHEDULED}


def _conditions(one: Body) -> Iterable[Body]:
    found: Iterable[Body] = (one.get("status") or {}).get("conditions") or ()
    return found


def _is_true(one: Body, kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in _conditions(one))


def _node_of(pod: Body) -> str:
    return str(pod["spec"].get("nodeName") or "")


def _gates(pod: Body) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def _is_ending(pod: Body) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _lives(pod: Body) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _uid(body: Body) -> str:
    return str(body["metadata"]["uid"])


def _key(body: Body) -> _Key:
    return body["metadata"]["namespace"], body["metadata"]["name"]
