"""Asks the service for one command: its own or a given one, with progress for people."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType
from typing import Final, Generic, NamedTuple, TypeVar

from google.protobuf.message import Message

from placement.cli.asking.embedded import StartError, serving
from placement.cli.asking.listening import listens
from placement.cli.failures import complain, no_answer, wrong_input
from placement.cli.options.options import Service
from placement.cli.words import verdict
from placement.client import PlacementClient, tls
from placement.errors import (
    BusyError,
    DeadlineTooShortError,
    DrainingError,
    InvalidRequestError,
    PlacementError,
    UnavailableError,
)
from placement.handshake import tls_fault
from placement.planning.planner import OutOfTime
from placement.streams import SteeredStream
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

_Answer = TypeVar("_Answer", ExplainGangResponse, ComputeCapacityResponse, ComputeRepackingResponse)
_Any = TypeVar("_Any")
_Question = ExplainGangRequest | ComputeCapacityRequest | ComputeRepackingRequest

#: Seconds that a service may take beyond the time limit, to queue, send and check.
PATIENCE: Final = 30.0

#: What users typed where the service names a field.
_OPTIONS: Final = {
    "domains.level": "--add",
    "frontier.domains.level": "--add",
    "domains.like": "--like",
    "frontier.domains.like": "--like",
    "level": "--free",
    "count": "--free",
}

#: How often a busy service is asked, and seconds between.
_MOST_ATTEMPTS: Final = 5
_PAUSE: Final = 1.0


class _Steered(NamedTuple, Generic[_Any]):
    """An answer, and whether an interrupt ended the call."""

    answer: _Any
    interrupted: bool


class Asker:
    """Puts questions to one service. Made by `asking`.

    `warm` waits until it can search; None where it is not ours.
    """

    def __init__(
        self,
        service: Service,
        address: Callable[[], str],
        warm: Callable[[], None] | None = None,
    ) -> None:
        self._service = service
        self._address = address
        self._warm = warm
        self._client: PlacementClient | None = None
        self._asked: SteeredStream[Placement] | None = None
        self._finishing = False

    def plan(self, request: ComputePlacementRequest) -> Placement:
        """The answer within the time limit, with a line of progress where a person watches.

        An interrupt gives the best answer so far, a second one none. Raises `Failure`.
        """
        request.time_limit.FromNanoseconds(round(self._service.time_limit * 1e9))
        with self._errors():
            answer, interrupted = self._patiently(
                self._connected().steer, request, gangs=len(request.gangs)
            )
        if interrupted:
            known = verdict(answer).partition(";")[0]
            complain([f"interrupted; this is the best answer so far: {known}"])
        return answer

    def explain(self, request: ExplainGangRequest) -> ExplainGangResponse:
        """What would let a gang in. As `plan`; raises `OutOfTime` and `Failure`."""
        return self._planned(self._connected().steer_explain, request)

    def capacity(self, request: ComputeCapacityRequest) -> ComputeCapacityResponse:
        """How much more fits, or how much is missing; as `explain`."""
        return self._planned(self._connected().steer_capacity, request)

    def repack(self, request: ComputeRepackingRequest) -> ComputeRepackingResponse:
        """What to move; as `explain`."""
        return self._planned(self._connected().steer_repack, request)

    def _planned(self, steer: Callable[..., SteeredStream[_Answer]], request: _Question) -> _Answer:
        """The answer of a call that waits until the service can search."""
        with self._errors():
            if self._warm is not None:
                self._warm()
            request.time_limit.FromNanoseconds(round(self._service.time_limit * 1e9))
            answer, interrupted = self._patiently(steer, request, gangs=len(request.question.gangs))
        begun = answer.HasField("elapsed")
        if interrupted:
            known = "" if begun else ", the plan that comes first"
            complain([f"interrupted; this is what was found so far{known}"])
        elif not begun:
            raise OutOfTime("there was time for a plan, and none for the question itself")
        return answer

    def _patiently(
        self, steer: Callable[..., SteeredStream[_Any]], request: Message, *, gangs: int
    ) -> _Steered[_Any]:
        """As `_steered`; our own service is asked again while its process starts."""
        for _ in range(_MOST_ATTEMPTS if self._warm is not None else 0):
            try:
                return self._steered(steer, request, gangs=gangs)
            except BusyError as error:
                time.sleep(min(error.retry_after or _PAUSE, _PAUSE))
        return self._steered(steer, request, gangs=gangs)

    def _steered(
        self, steer: Callable[..., SteeredStream[_Any]], request: Message, *, gangs: int
    ) -> _Steered[_Any]:
        """The answer of a call that may be told to finish, and whether it was."""
        from placement.cli.asking.progress import ProgressLine
        from placement.cli.consoles import progress_console

        timeout = self._service.time_limit + PATIENCE
        asked: list[SteeredStream[_Any]] = []

        def finish() -> None:
            for events in asked:
                events.finish()

        with (
            ProgressLine(progress_console(), gangs=gangs) as progress,
            interrupts(finish) as interrupted,
            steer(request, timeout=timeout) as events,
        ):
            asked.append(events)
            if interrupted.is_set():
                # While the call was made. To tell it twice does no harm.
                finish()
            news = _Interruptible(events)
            while (event := news.next()) is not None:
                if not isinstance(event, Progress):
                    return _Steered(event, interrupted.is_set())
                progress.show(event)
        raise no_answer("the service ended the stream without an answer")

    def ask(self, request: ComputePlacementRequest, seconds: float) -> Placement:
        """One of several questions, answered within `seconds`, or as soon as `finish` is called.

        Raises `OutOfTime` when the service is too busy for it, and `Failure`.
        """
        request.time_limit.FromNanoseconds(round(seconds * 1e9))
        with self._errors():
            for _ in range(_MOST_ATTEMPTS):
                try:
                    return self._finishable(request, seconds + PATIENCE)
                except BusyError as error:
                    # Its process may be starting anew.
                    time.sleep(min(error.retry_after or _PAUSE, _PAUSE))
                except DeadlineTooShortError:
                    break
        raise OutOfTime("the service was too busy to answer in time")

    def _finishable(self, request: ComputePlacementRequest, timeout: float) -> Placement:
        with self._connected().steer(request, timeout=timeout) as events:
            self._asked = events
            if self._finishing:
                events.finish()
            for event in events:
                if isinstance(event, Placement):
                    return event
        raise no_answer("the service ended the stream without an answer")

    def finish(self) -> None:
        """Have `ask` return the best answer so far, now and from now on; from any thread."""
        self._finishing = True
        if self._asked is not None:
            self._asked.finish()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _connected(self) -> PlacementClient:
        if self._client is None:
            service = self._service
            credentials = None
            if service.tls_ca:
                try:
                    credentials = tls(
                        service.tls_ca, certificate=service.tls_certificate, key=service.tls_key
                    )
                except OSError as error:
                    reason = f"{error.filename}: cannot be read: {error.strerror}"
                    raise wrong_input(reason) from error
            with self._errors():
                self._client = PlacementClient(self._address(), credentials=credentials)
        return self._client

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except InvalidRequestError as error:
            lines = [
                f"{_OPTIONS.get(v.field) or f'request: {v.field}'}: {v.description}"
                for v in error.violations
            ]
            unlisted = error.violation_count - len(error.violations)
            more = [f"and {unlisted} more"] if unlisted else []
            raise wrong_input(*(lines or [error.message]), *more) from error
        except StartError as error:
            raise no_answer(f"the service could not start: {error}") from error
        except PlacementError as error:
            name = error.code.name.replace("_", " ").lower()
            where = f" at {self._service.server}" if self._service.server else ""
            message = f"the service{where} could not answer: {name}: {error.message}"
            raise no_answer(message + self._hint(error)) from error

    def _hint(self, error: PlacementError) -> str:
        """What may be wrong where no server was reached. gRPC tells of the last address that it
        tried, and little of what it met there."""
        is_lost = isinstance(error, UnavailableError) and not isinstance(error, DrainingError)
        if not (is_lost and self._service.server and listens(self._service.server)):
            return ""
        if not self._service.tls_ca:
            return "; something listens there: if it speaks TLS, give --tls-ca"
        fault = tls_fault(
            self._service.server,
            ca=self._service.tls_ca,
            certificate=self._service.tls_certificate,
            key=self._service.tls_key,
        )
        return f"; {fault}" if fault else "; something listens there"


@contextmanager
def interrupts(first: Callable[[], None]) -> Iterator[threading.Event]:
    """The first interrupt calls a function and sets the event, wherever the block is; the second
    one raises KeyboardInterrupt.
    """
    seen = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread gets interrupts.
        yield seen
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        seen.set()
        first()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


class _Interruptible(Generic[_Any]):
    """Takes events in another thread: gRPC cannot continue after an interrupt, this can."""

    def __init__(self, events: Iterator[Progress | _Any]) -> None:
        self._events: SimpleQueue[Progress | _Any | BaseException | None] = SimpleQueue()

        def take() -> None:
            try:
                for event in events:
                    self._events.put(event)
                self._events.put(None)
            except BaseException as error:
                self._events.put(error)

        threading.Thread(target=take, name="events", daemon=True).start()

    def next(self) -> Progress | _Any | None:
        """The next event, None after the last one. Raises what the events raise."""
        event = self._events.get()
        if isinstance(event, BaseException):
            raise event
        return event


@contextmanager
def asking(service: Service) -> Iterator[Asker]:
    """A service to ask while the block runs. Its own one warms up meanwhile."""
    if service.server:
        server = service.server
        asker = Asker(service, lambda: server)
        try:
            yield asker
        finally:
            asker.close()
        return
    with serving(time_limit=service.time_limit) as embedded:
        asker = Asker(service, embedded.address, embedded.wait_until_warm)
        try:
            yield asker
        finally:
            asker.close()
