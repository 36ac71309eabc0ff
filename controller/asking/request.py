"""The request of a cycle: a view of the cluster and the gangs that wait.

`placement.kubernetes` translates; this module chooses which objects it gets, and which of its
messages are sent. An object that cannot be read never stops the others: it is left out, with
everything that would be planned wrongly without it, and its gang gets the reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from controller.batch import Candidate, Queue, chosen
from controller.cluster.gang_state import (
    Body,
    Key,
    Lifecycle,
    is_ours,
    key_of,
    key_of_resource,
    node_of,
    references,
)
from controller.cluster.gangs.gated import Kept, opened
from controller.cluster.gangs.others import is_plain, stands_for
from controller.cluster.unreadable import (
    ClosedQueues,
    are_the_same,
    first_of_each,
    named_by,
    node_closed_by,
)
from controller.cluster.view import ClusterView
from placement import v1
from placement.errors import InvalidRequestError
from placement.kubernetes import InputError, Objects, Problem, translate
from placement.kubernetes.gangs import BASE_POD_GANG
from placement.kubernetes.queue_marks import mark_pods
from placement.kubernetes.queue_use import count_left_out

NOTHING_KEPT: Final = Kept()
_HIGHEST_PRIORITY: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """The request, the gangs that it asks about, and those that it cannot ask about.

    `left_out` are other objects that it is without, such as ``Node n1``, and what is wrong there.
    """

    request: v1.ComputePlacementRequest
    asked: tuple[Key, ...]
    bases: Mapping[Key, Key] = field(default_factory=dict)
    refused: Mapping[Key, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """What all requests of a controller have in common.

    With `with_running` all gangs that run are sent, for they may have to give way.
    """

    scheduler_name: str
    most_gangs: int
    with_running: bool = False


def build_query(
    view: ClusterView,
    queue: Queue,
    options: QueryOptions,
    *,
    as_of: float | None = None,
    also: Iterable[Key] = (),
    kept: Kept = NOTHING_KEPT,
    held_back: Collection[Key] = (),
) -> Query:
    """The request: where the pods of the waiting gangs should go.

    Besides them it holds what they depend on: their bases, and the running gangs that
    share a base with them. A pod that replaces another one prefers its node. The gangs of `also`
    have no waiting pods; the request asks how well they are placed, as far as it has room for them.
    Waiting counts to `as_of`, in seconds since the epoch. Gangs of `kept` are planned, but not
    asked about: none of their pods can be bound yet (see `cluster.gangs.gated`). Those `held_back`
    are not planned, and neither is what is based on them.
    """
    read = _Input.of(view, options.scheduler_name, kept)
    message = read.translated(view, as_of)
    # Gangs of the same kinds may belong to other schedulers, which decide about them.
    by_key = {
        key: gang
        for gang in message.gangs
        if _is_ours_to_decide(key := key_of_resource(gang.name), view)
    }
    bases = {key: key_of_resource(gang.base_gang) for key, gang in by_key.items() if gang.base_gang}
    able = {
        key: queued
        for key, queued in queue.items()
        if key not in held_back and bases.get(key) not in held_back
    }
    asked = _asked(able, by_key, bases, options.most_gangs)
    more = tuple(key for key in also if key in by_key)[: options.most_gangs - len(asked)]
    first = [key for key in kept.first if key in by_key]
    roots = {bases.get(key, key) for key in (*asked, *more, *first)}
    sent = dict.fromkeys(asked)
    # A gang that waits but is not part of this batch would be placed all the same: leave it out.
    sent.update(
        (key, None)
        for key in by_key
        if (options.with_running or bases.get(key, key) in roots)
        and (key not in queue or key in roots)
    )
    sent.update(dict.fromkeys(first))
    for key in first if not options.with_running else ():
        # Before others of its priority, and behind all of a higher one. Not where gangs may be
        # evicted: gangs of its own priority would be evicted for it.
        by_key[key].priority = min(by_key[key].priority + 1, _HIGHEST_PRIORITY)
    for key in sent:
        _prefer_nodes_before(by_key[key], view.vacated_nodes.get(key, ()), view)
    request = v1.ComputePlacementRequest(
        gangs=[by_key[key] for key in sent], snapshot=message.snapshot, policy=message.policy
    )
    count_left_out(
        request,
        (gang for gang in message.gangs if key_of_resource(gang.name) not in sent),
    )
    request.snapshot.revision = str(view.revision)
    waiting = tuple(key for key in sent if key in queue)
    return Query(request, waiting, bases, read.refused, read.left_out)


def _asked(
    queue: Queue, gangs: Mapping[Key, v1.PodGang], bases: Mapping[Key, Key], most: int
) -> Sequence[Key]:
    """The gangs of the queue whose turn it is."""
    candidates = [
        Candidate(
            key, gangs[key].priority, bases.get(key), queued.attempts, queued.due, queued.since
        )
        for key, queued in queue.items()
        if key in gangs
    ]
    return chosen(candidates, most=most)


def _prefer_nodes_before(gang: v1.PodGang, vacated: Iterable[str], view: ClusterView) -> None:
    before = {f"nodes/{name}" for name in vacated if ("", name) in view.nodes}
    gang.previous_nodes.extend(sorted(before - set(gang.previous_nodes)))


def without(query: Query, error: InvalidRequestError) -> Query | None:
    """The query without the gangs and nodes that the service refuses. None if no gang or node can
    be left out.
    """
    gangs: dict[int, list[str]] = {}
    nodes: dict[int, str] = {}
    for violation in error.violations:
        if found := re.match(r"gangs\[(\d+)\]", violation.field):
            gangs.setdefault(int(found[1]), []).append(
                f"{violation.field[found.end() :].lstrip('.')}: {violation.description}"
            )
        elif found := re.match(r"snapshot\.nodes\[(\d+)\]", violation.field):
            nodes[int(found[1])] = (
                f"{violation.field[found.end() :].lstrip('.')}: {violation.description}"
            )
    if not gangs and not nodes:
        return None
    request = v1.ComputePlacementRequest()
    request.CopyFrom(query.request)
    sent = list(query.request.gangs)
    refused = dict(query.refused)
    for index, faults in gangs.items():
        refused[key_of_resource(request.gangs[index].name)] = "; ".join(faults)
    left = [gang for index, gang in enumerate(request.gangs) if index not in gangs]
    for gang in left:
        base = key_of_resource(gang.base_gang) if gang.base_gang else None
        if base in refused:
            refused[key_of_resource(gang.name)] = f"its base {base[1]} is refused"
    left_out = dict(query.left_out)
    for index in sorted(nodes, reverse=True):
        _, _, name = request.snapshot.nodes[index].name.partition("/")
        left_out[f"Node {name}"] = nodes[index]
        del request.snapshot.nodes[index]
    del request.gangs[:]
    request.gangs.extend(gang for gang in left if key_of_resource(gang.name) not in refused)
    count_left_out(request, (gang for gang in sent if key_of_resource(gang.name) in refused))
    asked = tuple(key for key in query.asked if key not in refused)
    return Query(request, asked, query.bases, refused, left_out)


def _is_ours_to_decide(key: Key, view: ClusterView) -> bool:
    state = view.states.get(key)
    return state is not None and state.lifecycle is not Lifecycle.FOREIGN


@dataclass(slots=True, eq=False)
class _Input:
    """The objects to translate; those that cannot be read are taken out, until the rest can.

    `refused` says why of gangs, `left_out` of other objects.
    """

    nodes: dict[Key, Body]
    pods: dict[Key, Body]
    gangs: dict[Key, Body]
    #: By kind, namespace and name, and API version.
    others: dict[tuple[str, Key, str], Body]
    refused: dict[Key, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    closed: ClosedQueues = field(default_factory=ClosedQueues)

    @classmethod
    def of(cls, view: ClusterView, scheduler_name: str, kept: Kept) -> _Input:
        pods = {
            key: pod
            for key, pod in opened(view.pods, (view.gangs[key] for key in kept.gangs)).items()
            # A pod that waits for another scheduler holds no room and is not ours to place, and a
            # pod that was bound to a node that is gone runs nowhere.
            if (
                ("", node) in view.nodes if (node := node_of(pod)) else is_ours(pod, scheduler_name)
            )
        }
        gangs = {}
        for key, gang in view.gangs.items():
            if view.states[key].lifecycle is Lifecycle.FOREIGN:
                mark_pods(gang, pods)
            elif stands_for(gang) is None or is_plain(gang):
                # Of others the original object is in the request, and says more.
                gangs[key] = gang
        others: dict[tuple[str, Key, str], Body] = {}
        for kind, store in (
            ("PriorityClass", view.priority_classes),
            ("ClusterTopologyBinding", view.topology_bindings),
        ):
            others |= {(kind, key, ""): body for key, body in store.items()}
        for resource, store in view.others.items():
            others |= {(resource.kind, key, resource.api_version): b for key, b in store.items()}
        return cls(dict(view.nodes), pods, gangs, others)

    def translated(self, view: ClusterView, as_of: float | None) -> v1.ComputePlacementRequest:
        """The message of all that can be read. Raises `InputError` where nothing helps."""
        moment = None if as_of is None else datetime.fromtimestamp(as_of, UTC)
        while True:
            bodies = self._bodies()
            try:
                return translate(Objects.of(bodies), as_of=moment).request
            except InputError as error:
                for problem in first_of_each(error.problems):
                    self._set_aside(problem)
                self._refuse_scaled(view.pods)
                if are_the_same(self._bodies(), bodies):
                    raise

    def _bodies(self) -> list[Body]:
        return [
            *self.nodes.values(),
            *self.pods.values(),
            *self.gangs.values(),
            *self.others.values(),
        ]

    def _set_aside(self, problem: Problem) -> None:
        """Takes out a faulty object, and the nodes of which nobody knows how much is taken."""
        kind, key = named_by(problem.object)
        fault = problem.fault
        if kind == "PodGang":
            if key in self.gangs:
                self._refuse(key, fault)
        elif kind == "Node":
            self.nodes.pop(key, None)
            self.left_out[problem.object] = fault
        elif kind == "Pod" and (pod := self.pods.pop(key, None)) is not None:
            if node := node_closed_by(kind, pod):
                self.nodes.pop(("", node), None)
                self.left_out[problem.object] = fault
            for owner, gang in tuple(self.gangs.items()):
                if any(key in members for _, members in references(gang)):
                    self._refuse(owner, f"pod {key[1]}: {fault}")
        else:
            for other in [one for one in self.others if one[:2] == (kind, key)]:
                body = self.others.pop(other)
                self.nodes.pop(("", node_closed_by(kind, body)), None)
                if kind == "PodGroup":
                    self.refused[key] = fault
                else:
                    self.left_out.setdefault(problem.object, fault)
                    self._close_queue(body)

    def _close_queue(self, body: Body) -> None:
        closed = self.closed.in_place_of(body)
        if closed is not None:
            self.others.setdefault((closed["kind"], key_of(closed), closed["apiVersion"]), closed)

    def _refuse_scaled(self, pods: Mapping[Key, Body]) -> None:
        """Refuses the gangs whose base is refused: to the translation they would have no base."""
        for key, gang in tuple(self.gangs.items()):
            for member in (pods.get(k) for _, keys in references(gang) for k in keys):
                labels = (member["metadata"].get("labels") or {}) if member is not None else {}
                base = labels.get(BASE_POD_GANG)
                if base and (key[0], base) in self.refused:
                    self._refuse(key, f"its base {base} is refused")
                    break

    def _refuse(self, key: Key, fault: str) -> None:
        self.refused[key] = fault
        # What runs of it still counts in its queue.
        mark_pods(self.gangs.pop(key), self.pods)
