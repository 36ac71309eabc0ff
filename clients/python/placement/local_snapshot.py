"""A caller's own copy of a cluster, and which parts of it the service does not know yet.

This is the logic of sessions, without any call in it: `placement.client` and `placement.aio`
ask with it. It may be used by several threads, and by several calls at once.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from placement.copies import Copies, Known
from placement.errors import InvalidRequestError, SnapshotUnknownError, Violation
from placement.v1 import ComputePlacementRequest, Node, RunningPod, SnapshotBase

#: The place of a node or running pod in a request.
_PLACE = re.compile(r"snapshot\.(nodes|pods)\[(\d+)\]")

_M = TypeVar("_M", Node, RunningPod)


@dataclass(frozen=True, slots=True)
class Question:
    """A request as it is sent: changes to a base, or the whole. `state` says what it is about."""

    request: ComputePlacementRequest
    state: int

    @property
    def is_whole(self) -> bool:
        return not self.request.HasField("base")


class LocalSnapshot:
    """Nodes and running pods as they are now; messages are copied in, and never changed.

    Names are those of the API, ``nodes/{node}`` and ``namespaces/{namespace}/pods/{pod}``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Counts changes; the service knows an earlier state.
        self._state = 0
        self._nodes = Copies[str, Node]()
        self._pods = Copies[str, RunningPod]()
        self._known = Known()

    def set_nodes(self, *nodes: Node) -> None:
        """Adds nodes, or replaces those of the same name."""
        with self._lock:
            self._state += 1
            _set(self._nodes, nodes, self._state)

    def remove_nodes(self, *names: str) -> None:
        """Takes out nodes; those that are not there do no harm."""
        with self._lock:
            self._state += 1
            self._nodes.remove(names, self._state)

    def set_pods(self, *pods: RunningPod) -> None:
        """Adds running pods, or replaces those of the same name."""
        with self._lock:
            self._state += 1
            _set(self._pods, pods, self._state)

    def remove_pods(self, *names: str) -> None:
        """Takes out running pods; those that are not there do no harm."""
        with self._lock:
            self._state += 1
            self._pods.remove(names, self._state)

    def replace(self, nodes: Iterable[Node], pods: Iterable[RunningPod] = ()) -> None:
        """Replaces all nodes and running pods by these; equal ones count as unchanged."""
        by_name = {node.name: node for node in nodes}
        pods_by_name = {pod.name: pod for pod in pods}
        with self._lock:
            self._state += 1
            self._nodes.keep(by_name.keys(), self._state)
            self._pods.keep(pods_by_name.keys(), self._state)
            _set(self._nodes, by_name.values(), self._state)
            _set(self._pods, pods_by_name.values(), self._state)

    def question(self, request: ComputePlacementRequest, *, whole: bool = False) -> Question:
        """The request to send for one that leaves its nodes, its running pods and its base out.

        `whole` where changes are not enough. Raises ValueError when it does not leave them out.
        """
        if request.HasField("base") or request.snapshot.nodes or request.snapshot.pods:
            raise ValueError("a session adds nodes, running pods and base to its requests itself")
        message = ComputePlacementRequest()
        message.CopyFrom(request)
        snapshot = message.snapshot
        with self._lock:
            if whole or not self._known.digest:
                snapshot.nodes.extend(self._nodes.all())
                snapshot.pods.extend(self._pods.all())
            else:
                nodes, pods = self._nodes.since(), self._pods.since()
                snapshot.nodes.extend(nodes.set.values())
                snapshot.pods.extend(pods.set.values())
                digest = self._known.digest
                base = SnapshotBase(digest=digest, gone_nodes=nodes.gone, gone_pods=pods.gone)
                message.base.MergeFrom(base)
            return Question(message, self._state)

    def answered(self, question: Question, digest: str) -> None:
        """Notes that the service knows the state of a question, by its digest.

        Raises SnapshotUnknownError when the service is so old that it ignored the base.
        """
        if not question.is_whole and not digest:
            raise SnapshotUnknownError(
                "the service is of a version without sessions",
                digest=question.request.base.digest,
            )
        with self._lock:
            if self._known.learned(digest, question.state):
                self._nodes.forget(question.state)
                self._pods.forget(question.state)

    def retold(self, question: Question, request: ComputePlacementRequest) -> Question:
        """What to send when the service does not know the base of a question: the whole.

        Inside an ``except`` block: raises that error again when the question was whole.
        """
        if question.is_whole:
            raise
        with self._lock:
            self._known.lost(question.request.base.digest)
        return self.question(request, whole=True)

    @staticmethod
    def named(question: Question, error: InvalidRequestError) -> InvalidRequestError:
        """The error with names instead of places in what was sent, which callers do not see.

        For example ``snapshot.nodes[nodes/a].labels``.
        """
        snapshot = question.request.snapshot

        def name(found: re.Match[str]) -> str:
            sent = snapshot.nodes if found[1] == "nodes" else snapshot.pods
            place = int(found[2])
            return f"snapshot.{found[1]}[{sent[place].name if place < len(sent) else place}]"

        return InvalidRequestError(
            error.message,
            violations=[
                Violation(_PLACE.sub(name, v.field), _PLACE.sub(name, v.description))
                for v in error.violations
            ],
            violation_count=error.violation_count,
        )

    def __repr__(self) -> str:
        with self._lock:
            return (
                f"<LocalSnapshot: {len(self._nodes)} nodes, {len(self._pods)} pods,"
                f" the service knows {self._known}>"
            )


def _set(copies: Copies[str, _M], messages: Iterable[_M], state: int) -> None:
    for message in messages:
        if copies.differs(message.name, message):
            copy = type(message)()
            copy.CopyFrom(message)
            copies.set(message.name, copy, state)
