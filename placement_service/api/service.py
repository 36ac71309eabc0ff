"""The two calls of the API: each is parse, place, dump.

This module ties a call to a computation: its deadline becomes a budget, its end
(cancelled, timed out or done) becomes an interruption, and errors become
statuses. What is computed is in `pipeline`.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
from google.protobuf import json_format
from grpc_status import rpc_status

from placement.v1 import placement_pb2, placement_service_pb2, placement_service_pb2_grpc
from placement_service import pipeline
from placement_service.api.admission import Admission
from placement_service.api.dumps import Dumps
from placement_service.api.settings import Settings
from placement_service.api.status import to_status
from placement_service.api.wire import placements, requests
from placement_service.entities.errors import Internal, PlacementError
from placement_service.entities.placement import Progress
from placement_service.entities.progress import SILENT, Interrupted, Observer, Switch
from placement_service.entities.request import Request

logger = logging.getLogger(__name__)

_Request = placement_service_pb2.ComputePlacementRequest

#: gRPC tells of a call without deadline as one in the far future, in seconds.
_FOREVER = 10 * 365 * 86400.0


class PlacementServicer(placement_service_pb2_grpc.PlacementServiceServicer):
    """Answers the calls of placement.v1.PlacementService."""

    def __init__(
        self, settings: Settings, *, stages: pipeline.Stages, admission: Admission, dumps: Dumps
    ) -> None:
        self._settings = settings
        self._stages = stages
        self._admission = admission
        self._dumps = dumps

    def ComputePlacement(
        self, request: _Request, context: grpc.ServicerContext
    ) -> placement_service_pb2.ComputePlacementResponse:
        call = _Call(request, context, self._settings)
        with errors_as_status(context):
            return placement_service_pb2.ComputePlacementResponse(
                placement=self._place(call, SILENT)
            )

    def StreamPlacement(
        self, request: placement_service_pb2.StreamPlacementRequest, context: grpc.ServicerContext
    ) -> Iterator[placement_service_pb2.StreamPlacementResponse]:
        call = _Call(request.request, context, self._settings)
        events: queue.SimpleQueue[Progress | placement_pb2.Placement | BaseException]
        events = queue.SimpleQueue()

        def compute() -> None:
            try:
                events.put(self._place(call, events.put))
            except BaseException as error:
                events.put(error)

        # gRPC takes events from this thread, so the work is in another; it always
        # ends with a placement or an error, also when the caller leaves.
        threading.Thread(target=compute, name="stream", daemon=True).start()
        with errors_as_status(context):
            while True:
                event = events.get()
                # A slow reader gets the latest news, not all of them.
                while isinstance(event, Progress) and not events.empty():
                    event = events.get()
                if isinstance(event, BaseException):
                    raise event
                if not isinstance(event, Progress):
                    yield placement_service_pb2.StreamPlacementResponse(placement=event)
                    return
                yield placement_service_pb2.StreamPlacementResponse(
                    progress=placements.progress_to_proto(event)
                )

    def _place(self, call: _Call, observer: Observer) -> placement_pb2.Placement:
        """The answer to a call; raises a PlacementError, or Interrupted."""
        try:
            with self._admission.place():
                request = requests.parse_request(call.message)
                budget = call.budget(request)
                if request.validate_only:
                    return self._compute(call, request, budget, observer)
                with self._admission.turn(deadline=budget.deadline, interrupter=call.switch):
                    return self._compute(call, request, budget, observer)
        except (PlacementError, Interrupted) as error:
            logger.info("%s was not answered: %r", _title(call.message.label), error)
            raise
        except Exception as error:
            logger.exception("%s failed", _title(call.message.label))
            dump = self._report_defect(call, "a request failed", repr(error))
            raise Internal(dump=dump) from error

    def _compute(
        self, call: _Call, request: Request, budget: pipeline.Budget, observer: Observer
    ) -> placement_pb2.Placement:
        placement = pipeline.place(
            request,
            stages=self._stages,
            budget=budget,
            observer=observer,
            interrupter=call.switch,
            report_defect=lambda what, detail: self._report_defect(call, what, detail),
        )
        end = placement.termination
        logger.info(
            "%s: %d nodes, %d gangs, %d bindings, %s in %.3f s",
            _title(request.label, request.snapshot.revision),
            len(request.snapshot.nodes),
            len(request.snapshot.gangs),
            len(placement.bindings),
            "checked" if end is None else "optimal" if end.optimal else f"gap {end.gap}",
            time.monotonic() - budget.arrival,
        )
        return placements.placement_to_proto(placement)

    def _report_defect(self, call: _Call, what: str, detail: str) -> str:
        message = call.message
        name = self._dumps.save(
            message.SerializeToString(deterministic=True),
            lambda: json_format.MessageToJson(message, indent=1),
        )
        logger.error("defect: %s; request %r, dump %r: %s", what, message.label, name, detail)
        return name


class _Call:
    """One call: its message, its end, its time."""

    def __init__(
        self, message: _Request, context: grpc.ServicerContext, settings: Settings
    ) -> None:
        self.message = message
        self.switch = Switch()
        self._settings = settings
        self._arrival = time.monotonic()
        self._remaining = context.time_remaining()
        if not context.add_callback(self.switch.interrupt):
            self.switch.interrupt()

    def budget(self, request: Request) -> pipeline.Budget:
        """The sooner of time limit and deadline, the latter less a margin."""
        settings = self._settings
        limit = min(
            request.time_limit_seconds or settings.default_time_limit, settings.max_time_limit
        )
        deadline = float("inf")
        if self._remaining is not None and self._remaining < _FOREVER:
            margin = min(settings.deadline_margin, 0.1 * self._remaining)
            deadline = self._arrival + self._remaining - margin
        return pipeline.Budget(
            arrival=self._arrival,
            answer_by=min(self._arrival + min(limit, settings.max_time_limit), deadline),
            deadline=deadline,
        )


@contextmanager
def errors_as_status(context: grpc.ServicerContext) -> Iterator[None]:
    """Ends the call with the status of an error that leaves the block."""
    try:
        yield
    except PlacementError as error:
        context.abort_with_status(rpc_status.to_status(to_status(error)))
    except Interrupted:
        # Nobody is left to read this.
        context.abort(grpc.StatusCode.CANCELLED, "the caller left")


def _title(label: str, revision: str = "") -> str:
    """What a request is called in log lines; callers name it, or not."""
    title = repr(label) if label else "a request without a label"
    return f"{title} at revision {revision!r}" if revision else title
