"""Servers for your tests: the real service, or one that answers from a script.

Both run inside the test's process, listen on a free port of the loopback interface and
are talked to over real gRPC. `serve` needs the whole service installed; `scripted_server`
computes nothing, so it also shows how a program takes errors and delays::

    with scripted_server([BusyError(retry_after=2.0), Placement(revision="7")]) as server:
        with PlacementClient(server.address) as client:
            ...
        assert [call.request.label for call in server.calls] == ["first", "second"]
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
from grpc_status import rpc_status

from placement.errors import PlacementError, to_status
from placement.v1 import (
    ComputePlacementRequest,
    ComputePlacementResponse,
    Placement,
    Progress,
    SteerPlacementRequest,
    SteerPlacementResponse,
    StreamPlacementRequest,
    StreamPlacementResponse,
)
from placement.v1.placement_service_pb2_grpc import (
    PlacementServiceServicer,
    add_PlacementServiceServicer_to_server,
)
from placement.v1.planning_pb2_grpc import (
    PlanningServiceServicer,
    add_PlanningServiceServicer_to_server,
)

Event = Progress | Placement | PlacementError
#: One event, or the events of a stream in order; an error ends it. ComputePlacement, which
#: has no progress, skips it.
Answer = Event | Iterable[Event]
#: The answers to the calls in order, or a function that answers every call. A function may
#: take its time, or block.
Script = Sequence[Answer] | Callable[[ComputePlacementRequest], Answer]


#: Seconds until questions are asked also of a service whose solver is not loaded.
_WARM = 60.0


@contextmanager
def serve(**settings: Any) -> Iterator[str]:
    """Run the real service; yields its address once its solver is loaded.

    ``settings`` are fields of `placement_service.api.settings.Settings`.
    """
    # Only here, because the solver is large.
    from placement_service.api.server import make_server
    from placement_service.api.settings import Settings

    server = make_server(
        Settings(**{"host": "127.0.0.1", "port": 0, "max_concurrent": 1, **settings})
    )
    try:
        port = server.start()
        # A question with little time would else be told to come back.
        server.wait_until_warm(_WARM)
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(grace=0)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that reached the server, and the seconds that its deadline left it then."""

    request: ComputePlacementRequest
    timeout: float | None


class ScriptedServer:
    """What `scripted_server` yields: where it listens and who called."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._lock = threading.Lock()
        self._calls: list[Call] = []
        self.address = ""
        #: Set once a caller of SteerPlacement wants the best answer so far.
        self.finish = threading.Event()

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls so far, in order of arrival, also those answered with an error."""
        with self._lock:
            return tuple(self._calls)

    def answer(self, call: Call) -> Iterable[Event]:
        """Record the call and take the next answer of the script."""
        with self._lock:
            self._calls.append(call)
            count = len(self._calls)
        if callable(self._script):
            answer = self._script(call.request)
        elif count <= len(self._script):
            answer = self._script[count - 1]
        else:
            answer = PlacementError(
                f"the script has no answer for call {count}",
                code=grpc.StatusCode.FAILED_PRECONDITION,
            )
        return (answer,) if isinstance(answer, Progress | Placement | PlacementError) else answer


@contextmanager
def scripted_server(script: Script, *, port: int = 0) -> Iterator[ScriptedServer]:
    """Run a server that gives the script's answers, whatever it is asked.

    ``port`` 0 takes a free one.
    """
    scripted = ScriptedServer(script)
    with ThreadPoolExecutor(max_workers=8) as threads:
        server = grpc.server(threads, options=[("grpc.max_receive_message_length", -1)])
        add_PlacementServiceServicer_to_server(_ScriptedServicer(scripted), server)
        add_PlanningServiceServicer_to_server(_ScriptedPlanning(scripted), server)
        scripted.address = f"127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}"
        server.start()
        try:
            yield scripted
        finally:
            # Without grace, gRPC tells idle connections of an error, and clients log it.
            server.stop(grace=0.2).wait()


def _abort(error: PlacementError, context: grpc.ServicerContext) -> NoReturn:
    context.abort_with_status(rpc_status.to_status(to_status(error)))


class _ScriptedServicer(PlacementServiceServicer):
    def __init__(self, server: ScriptedServer) -> None:
        self._server = server

    def ComputePlacement(
        self, request: ComputePlacementRequest, context: grpc.ServicerContext
    ) -> ComputePlacementResponse:
        for event in self._server.answer(Call(request, context.time_remaining())):
            if isinstance(event, PlacementError):
                _abort(event, context)
            if isinstance(event, Placement):
                return ComputePlacementResponse(placement=event)
            if not context.is_active():  # Nobody waits for an answer any longer.
                break
        _abort(PlacementError("the script's answer holds no placement"), context)

    def StreamPlacement(
        self, request: StreamPlacementRequest, context: grpc.ServicerContext
    ) -> Iterator[StreamPlacementResponse]:
        for event in self._server.answer(Call(request.request, context.time_remaining())):
            match event:
                case PlacementError():
                    _abort(event, context)
                case Progress():
                    yield StreamPlacementResponse(progress=event)
                case Placement():
                    yield StreamPlacementResponse(placement=event)


class _ScriptedPlanning(PlanningServiceServicer):
    """Answers SteerPlacement by the same script; a wish to finish is told to `finish`."""

    def __init__(self, server: ScriptedServer) -> None:
        self._server = server

    def SteerPlacement(
        self, request_iterator: Iterator[SteerPlacementRequest], context: grpc.ServicerContext
    ) -> Iterator[SteerPlacementResponse]:
        first = next(request_iterator)

        def hear() -> None:
            # An iterator of a call that has ended raises.
            with contextlib.suppress(Exception):
                for _ in request_iterator:
                    self._server.finish.set()

        threading.Thread(target=hear, daemon=True).start()
        for event in self._server.answer(Call(first.request, context.time_remaining())):
            match event:
                case PlacementError():
                    _abort(event, context)
                case Progress():
                    yield SteerPlacementResponse(progress=event)
                case Placement():
                    yield SteerPlacementResponse(placement=event)
