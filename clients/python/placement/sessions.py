"""Questions about a cluster that hardly changes: only what has changed is sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Self, TypeVar

from placement.errors import InvalidRequestError, SnapshotUnknownError
from placement.local_snapshot import LocalSnapshot, Question
from placement.streams import EventStream, SteeredStream
from placement.v1 import (
    ComputeCapacityRequest,
    ComputeCapacityResponse,
    ComputePlacementRequest,
    ComputeRepackingRequest,
    ComputeRepackingResponse,
    ExplainGangRequest,
    ExplainGangResponse,
    Placement,
    Progress,
)

if TYPE_CHECKING:
    from placement.client import PlacementClient

#: A request of planning, which holds the question that it is about.
PlanningRequest = TypeVar(
    "PlanningRequest", ExplainGangRequest, ComputeCapacityRequest, ComputeRepackingRequest
)
_Answer = TypeVar(
    "_Answer", Placement, ExplainGangResponse, ComputeCapacityResponse, ComputeRepackingResponse
)


class Session:
    """Keep `cluster` as the cluster is, and ask with requests that leave its nodes and running
    pods out. If the service does not know the base (it was restarted, another replica answers) it
    gets the whole cluster within the same call.

    All calls raise ValueError for a request with nodes or running pods of its own.
    """

    def __init__(self, client: PlacementClient, cluster: LocalSnapshot) -> None:
        self._client = client
        self.cluster = cluster

    def compute(
        self, request: ComputePlacementRequest, *, timeout: float | None = None
    ) -> Placement:
        """As `PlacementClient.compute`."""

        def ask(question: ComputePlacementRequest, left: float) -> Placement:
            return self._client.compute(question, timeout=left)

        return self._asked(request, ask, timeout)

    def explain(
        self, request: ExplainGangRequest, *, timeout: float | None = None
    ) -> ExplainGangResponse:
        """As `PlacementClient.explain`."""

        return self._asked_about(self._client.explain, request, timeout)

    def capacity(
        self, request: ComputeCapacityRequest, *, timeout: float | None = None
    ) -> ComputeCapacityResponse:
        """As `PlacementClient.capacity`."""

        return self._asked_about(self._client.capacity, request, timeout)

    def repack(
        self, request: ComputeRepackingRequest, *, timeout: float | None = None
    ) -> ComputeRepackingResponse:
        """As `PlacementClient.repack`."""

        return self._asked_about(self._client.repack, request, timeout)

    def stream(
        self, request: ComputePlacementRequest, *, timeout: float | None = None
    ) -> SessionStream:
        """As `PlacementClient.stream`."""
        return SessionStream(self._client.stream, self.cluster, request, self._seconds(timeout))

    def steer(
        self, request: ComputePlacementRequest, *, timeout: float | None = None
    ) -> SteeredSessionStream:
        """As `PlacementClient.steer`."""
        seconds = self._seconds(timeout)
        return SteeredSessionStream(self._client.steer, self.cluster, request, seconds)

    def _asked_about(
        self, call: Callable[..., _Answer], request: PlanningRequest, timeout: float | None
    ) -> _Answer:
        def ask(question: ComputePlacementRequest, left: float) -> _Answer:
            return call(about(request, question), timeout=left)

        return self._asked(request.question, ask, timeout)

    def _asked(
        self,
        request: ComputePlacementRequest,
        ask: Callable[[ComputePlacementRequest, float], _Answer],
        timeout: float | None,
    ) -> _Answer:
        """The answer to a question, which is put once more where its base is not known."""
        end = time.monotonic() + self._seconds(timeout)
        question = self.cluster.question(request)
        while True:
            left = max(0.0, end - time.monotonic())
            try:
                answer = ask(question.request, left)
                self.cluster.answered(question, answer.snapshot_digest)
            except SnapshotUnknownError:
                question = self.cluster.retold(question, request)
            except InvalidRequestError as error:
                raise self.cluster.named(question, error) from error
            else:
                return answer

    def _seconds(self, timeout: float | None) -> float:
        return self._client.timeout if timeout is None else timeout

    def __repr__(self) -> str:
        return f"<Session: {self._client!r}, {self.cluster!r}>"


def about(request: PlanningRequest, question: ComputePlacementRequest) -> PlanningRequest:
    """The request, with this question in it."""
    asked = type(request)()
    asked.CopyFrom(request)
    asked.question.CopyFrom(question)
    return asked


class SessionStream(Iterator[Progress | Placement]):
    """As `placement.streams.EventStream`, of a session."""

    def __init__(
        self,
        begin: Callable[..., EventStream[Placement]],
        cluster: LocalSnapshot,
        request: ComputePlacementRequest,
        seconds: float,
    ) -> None:
        self._begin = begin
        self._cluster = cluster
        self._request = request
        self._end = time.monotonic() + seconds
        self._question = cluster.question(request)
        self._events = self._begun(self._question)
        self._lock = threading.Lock()
        self._closed = False

    def _begun(self, question: Question) -> EventStream[Placement]:
        left = max(0.0, self._end - time.monotonic())
        return self._begin(question.request, timeout=left)

    def __next__(self) -> Progress | Placement:
        while True:
            try:
                event = next(self._events)
                if isinstance(event, Placement):
                    self._cluster.answered(self._question, event.snapshot_digest)
            except SnapshotUnknownError:
                self._question = self._cluster.retold(self._question, self._request)
                with self._lock:
                    if self._closed:
                        raise StopIteration from None
                    self._events.close()
                    self._events = self._begun(self._question)
            except InvalidRequestError as error:
                raise self._cluster.named(self._question, error) from error
            else:
                return event

    def close(self) -> None:
        """Cancel the call, which stops the search; does nothing when it has ended."""
        with self._lock:
            self._closed = True
            self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SteeredSessionStream(SessionStream):
    """As `placement.streams.SteeredStream`, of a session."""

    _finished = False

    def _begun(self, question: Question) -> EventStream[Placement]:
        events = super()._begun(question)
        if self._finished and isinstance(events, SteeredStream):
            events.finish()
        return events

    def finish(self) -> None:
        """Have the search end with the best answer so far; from any thread."""
        with self._lock:
            self._finished = True
            if isinstance(self._events, SteeredStream):
                self._events.finish()
