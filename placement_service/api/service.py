"""The calls of the API at the edge: bytes in, bytes out, and always in time.

This module ties a call to a computation: its deadline becomes a budget, its end (cancelled,
timed out or done) ends the computation, and errors become statuses. A compute process reads the
bytes, answers them and writes the answer. Whatever goes wrong there, this module sends the best
answer that it handed out by the deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import grpc
from google.rpc import code_pb2, status_pb2

from placement.v1 import placement_pb2
from placement_service.api import envelope
from placement_service.api.admission import Admission, Place
from placement_service.api.calls.bare_answer import bare_answer
from placement_service.api.calls.news import News, telling
from placement_service.api.calls.running import MOST_SHOWN, RunningCall, budget_of, shown_title
from placement_service.api.calls.status import Context, Refused, errors_as_status, grpc_code
from placement_service.api.compute.frames import Kind, Standing, digests, read_stage
from placement_service.api.compute.pool import ComputePool, ComputeProcess
from placement_service.api.dumps import Dumps, whole_request_of
from placement_service.api.machine import give_back_memory
from placement_service.api.methods import (
    OBJECT_CALLS,
    PLACEMENT_CALLS,
    STEERED,
    Method,
    methods,
)
from placement_service.api.metrics import Metrics
from placement_service.api.settings import Settings
from placement_service.api.snapshots import content
from placement_service.api.snapshots.store import SnapshotStore
from placement_service.api.status import to_status
from placement_service.api.tracing import Trace, Tracing
from placement_service.entities.errors import (
    DeadlineTooShort,
    Internal,
    InvalidRequest,
    PlacementError,
    SnapshotUnknown,
    Violation,
)
from placement_service.entities.stages import Passed, Stage, stage, tell, told

logger = logging.getLogger(__name__)

#: Bytes of a request after which memory is given back.
LARGE = 4 * 2**20


class PlacementCalls:
    """Answers the calls of placement.v1.PlacementService."""

    def __init__(
        self,
        settings: Settings,
        *,
        pool: ComputePool,
        admission: Admission,
        snapshots: SnapshotStore,
        dumps: Dumps,
        metrics: Metrics,
        tracing: Tracing,
    ) -> None:
        self._methods = methods()
        self.service_names = tuple(dict.fromkeys(method.service for method in self._methods))
        self._settings = settings
        self._pool = pool
        self._admission = admission
        self._snapshots = snapshots
        self._dumps = dumps
        self._metrics = metrics
        self._tracing = tracing
        self._running: set[RunningCall] = set()

    def hurry(self) -> None:
        """Ends each call with its best answer, now or once there is one."""
        for call in tuple(self._running):
            call.hurry()

    def handlers(self) -> tuple[grpc.GenericRpcHandler[bytes, bytes], ...]:
        """The handlers for gRPC, one for each service.

        To gRPC all calls are streams of bytes, though most answer once: only then can we limit how
        long we wait for a message, and for a reader.
        """
        return tuple(
            grpc.method_handlers_generic_handler(
                service,
                {
                    method.name: grpc.stream_stream_rpc_method_handler(
                        partial(self._answer, method)
                    )
                    for method in self._methods
                    if method.service == service
                },
            )
            for service in self.service_names
        )

    async def _answer(self, method: Method, _: Any, context: Context) -> None:
        trace = self._tracing.begin(method, context.invocation_metadata())

        def passed(one: Passed) -> None:
            self._metrics.stages.labels(one.stage.label).observe(one.end - one.begin)
            trace.passed(one)

        async with errors_as_status(context), self._counted(method, trace):
            news = News(context)
            try:
                with told(passed):
                    answer = await self._received(method, context, news, trace)
                    with stage(Stage.SEND):
                        await self._send(context, answer, news.sent())
            finally:
                news.end()

    async def _received(self, method: Method, context: Context, news: News, trace: Trace) -> bytes:
        """The answer to the request that a call brings."""
        with stage(Stage.ARRIVE):
            content = await self._message(context)
        # Released, because an error keeps all the frames that it passed.
        with memoryview(content) as message:
            del content
            size = len(message)
            trace.note(request_bytes=size)
            self._metrics.bytes.labels(method.name).observe(size)
            try:
                return await self._computed(method, message, context, news, trace)
            finally:
                message.release()
                if size >= LARGE:
                    asyncio.get_running_loop().run_in_executor(None, give_back_memory)

    @asynccontextmanager
    async def _counted(self, method: Method, trace: Trace) -> AsyncIterator[None]:
        """Counts a call when it ends, for whatever reason."""
        code = grpc.StatusCode.OK
        begin = asyncio.get_running_loop().time()
        try:
            yield
        except PlacementError as error:
            code = grpc_code(to_status(error))
            raise
        except Refused as error:
            code = grpc_code(error.status)
            raise
        except asyncio.CancelledError:
            code = grpc.StatusCode.CANCELLED
            raise
        except BaseException:
            code = grpc.StatusCode.UNKNOWN
            raise
        finally:
            self._metrics.calls.labels(method.name, code.name).inc()
            took = asyncio.get_running_loop().time() - begin
            self._metrics.seconds.labels(method.name).observe(took)
            trace.end(code)

    async def _message(self, context: Context) -> bytes:
        try:
            message = await self._admission.arrival(context.peer(), context.read)
        except PlacementError as error:
            logger.info("a call was not answered: %r", error)
            raise
        if not isinstance(message, bytes):
            raise envelope.not_a_message()
        return message

    async def _send(self, context: Context, message: bytes, before: Awaitable[None]) -> None:
        """Sends the last message; gives up a caller that does not read."""

        async def send() -> None:
            await before
            await context.write(message)

        sending = asyncio.ensure_future(send())
        # The call may be over when it fails; then nobody else looks at how it ended.
        sending.add_done_callback(lambda task: task.cancelled() or task.exception())
        done, _ = await asyncio.wait({sending}, timeout=self._settings.send_timeout)
        if not done:
            logger.info("an answer was not taken within %g s", self._settings.send_timeout)
            code = code_pb2.DEADLINE_EXCEEDED
            raise Refused(status_pb2.Status(code=code, message="nobody reads the answer"))
        sending.result()

    async def _computed(
        self,
        method: Method,
        message: memoryview,
        context: Context,
        news: News,
        trace: Trace,
    ) -> bytes:
        """The answer to a request; raises a PlacementError or Refused."""
        arrival = asyncio.get_running_loop().time()
        title = "a request"
        about = {"method": method.name}
        log = logging.LoggerAdapter(logger, {"about": about})
        try:
            peer, size = context.peer(), len(message)
            with self._admission.place(peer, size) as place, contextlib.ExitStack() as parts:
                step = 0
                if method.call in STEERED:
                    step = await envelope.chosen(message, method.steps or (method.inner,))
                    if not step:
                        raise InvalidRequest([Violation("step", "it asks nothing")])
                asked = method.steps.get(step, method)
                request = await envelope.unwrapped(message, step or asked.inner)
                parts.enter_context(request)
                header = await envelope.read_header(
                    request,
                    time_limit=asked.time_limit,
                    label=asked.label,
                    question=asked.question,
                    base=asked.base,
                )
                question = await envelope.unwrapped(request, asked.question)
                parts.enter_context(question)
                title = shown_title(header.label)
                if header.label:
                    about["label"] = header.label[:MOST_SHOWN]
                base = None if header.base is None else self._base(header.base)
                trace.note(label=title)
                budget = budget_of(
                    self._settings, arrival, context.time_remaining(), header.time_limit
                )
                tell = telling(method, news)
                call = RunningCall(
                    asked,
                    request,
                    question,
                    header.label,
                    title,
                    about,
                    log,
                    budget,
                    tell,
                    trace,
                    base,
                )
                self._running.add(call)
                parts.callback(self._running.discard, call)
                async with _heard(method, call, context):
                    with stage(Stage.WAIT):
                        process = await self._turn(call, place)
                    try:
                        with stage(Stage.COMPUTE):
                            answer = await self._in_time(process, call)
                        self._save(call, answer)
                        return envelope.wrapped(answer, step if method.steps else 0)
                    finally:
                        self._pool.give_back(process)
        except (PlacementError, Refused) as error:
            log.info("%s was not answered: %r", title, error)
            raise
        except asyncio.CancelledError:
            why = "the service ends" if self._admission.draining else "the caller left"
            log.info("%s was not answered: %s", title, why)
            raise

    async def _turn(self, call: RunningCall, place: Place) -> ComputeProcess:
        """A compute process, when it is this call's turn."""
        try:
            async with asyncio.timeout_at(call.budget.turn_by):
                return await self._pool.take(place, call.base)
        except TimeoutError:
            if call.budget.ended_by_deadline:
                raise DeadlineTooShort(elapsed_seconds=call.elapsed()) from None
            raise self._admission.busy() from None

    async def _in_time(self, process: ComputeProcess, call: RunningCall) -> bytes:
        making = asyncio.ensure_future(self._make_bare(call))
        try:
            async with asyncio.timeout_at(call.budget.late) as end:
                call.end = end
                await process.begin(call.head(), call.request, self._lacking(process, call))
                return await self._followed(process, call)
        except TimeoutError:
            # The process is late, and its caller must not wait for it. It is told to stop when it
            # is given back.
            if call.hurried:
                call.log.info("%s: the best answer so far leaves, as was asked", call.title)
                detail = "The search was told to end."
                return call.best_so_far(placement_pb2.Termination(detail=detail))
            self._metrics.late.inc()
            call.best = call.bare if call.best is None else call.best
            if call.best is None:
                call.log.warning("%s: a stage was late, and there is no answer yet", call.title)
                raise DeadlineTooShort(elapsed_seconds=call.elapsed()) from None
            call.log.warning("%s: a stage was late; the best answer so far leaves", call.title)
            return call.best_so_far()
        finally:
            making.cancel()

    async def _make_bare(self, call: RunningCall) -> None:
        """Prepares the answer that nothing is placed, for a request that is read slowly."""
        if call.method.call in OBJECT_CALLS:
            return
        # Few requests take so long to read; it takes part of the time for the others.
        await asyncio.sleep((call.budget.answer_by - asyncio.get_running_loop().time()) / 2)
        if call.best is not None:
            return
        placement = await bare_answer(call.question, call.label)
        if placement is not None:
            field = call.method.placement
            answer = envelope.wrapped(placement.SerializeToString(), field) if field else b""
            call.bare = answer if len(answer) <= self._settings.max_message_bytes else None

    def _base(self, digest: str) -> bytes:
        """A base that is kept; raises SnapshotUnknown."""
        base = content.parse(digest)
        if base is None or base not in self._snapshots:
            self._metrics.snapshots.labels("unknown").inc()
            raise SnapshotUnknown(digest)
        self._snapshots.use(base)
        return base

    def _lacking(self, process: ComputeProcess, call: RunningCall) -> Sequence[bytes]:
        """The snapshots that a process has to be sent before a call; raises SnapshotUnknown."""
        if call.base is None:
            self._metrics.snapshots.labels("whole").inc()
            return ()
        # Kept until the call ends, should it be saved.
        whole = self._snapshots.told(call.base, ())
        told = self._snapshots.told(call.base, process.held)
        if whole is None or told is None:
            # It was dropped while the call waited.
            self._metrics.snapshots.labels("unknown").inc()
            raise SnapshotUnknown(content.text(call.base))
        call.told = whole
        self._metrics.snapshots.labels("told" if told else "held").inc()
        return told

    async def _followed(self, process: ComputeProcess, call: RunningCall) -> bytes:
        """The answer of a process."""
        while True:
            frame = await process.next_frame()
            if frame is None:
                return self._after_death(call)
            body = frame.content
            match frame.kind:
                case Kind.PROGRESS:
                    call.tell(body)
                case Kind.NAMED:
                    call.digest = body
                    call.about["request"] = content.text(body)
                    call.trace.note(request=call.about["request"])
                case Kind.HELD:
                    await self._keep(call, body)
                case Kind.BEST:
                    call.standing, call.best = Standing(body[0]), body[1:]
                    if call.hurried:
                        call.hurry()
                case Kind.DEFECT:
                    self._defect(call, body.decode(errors="replace"))
                case Kind.STAGE:
                    with contextlib.suppress(ValueError):
                        tell(read_stage(body))
                case Kind.SUMMARY:
                    end, _, summary = body.decode(errors="replace").partition("\n")
                    self._metrics.answers.labels(end).inc()
                    call.trace.note(answer=end)
                    call.log.info("%s: %s in %.3f s", call.title, summary, call.elapsed())
                case Kind.DONE:
                    return body
                case Kind.REFUSED:
                    raise Refused(status_pb2.Status.FromString(body))
                case Kind.CANCELLED:
                    raise asyncio.CancelledError
                case _:
                    raise Internal(dump=self._defect(call, body.decode(errors="replace").strip()))

    async def _keep(self, call: RunningCall, held: bytes) -> None:
        """Keeps what a request says of its snapshot, once a process has read it."""
        method = call.method
        if held and method.base:
            told = await envelope.only(call.question, method.snapshot, method.base)
            self._snapshots.keep(digests(held)[-1], told, call.base or b"")

    def _after_death(self, call: RunningCall) -> bytes:
        dump = self._defect(call, "the compute process died")
        if call.best is None:
            raise Internal(dump=dump)
        limit = placement_pb2.TERMINATION_LIMIT_SOLVER_LOST
        detail = "The compute process was lost; this is the best answer before."
        return call.best_so_far(placement_pb2.Termination(limit=limit, detail=detail))

    def _save(self, call: RunningCall, answer: bytes) -> None:
        """Saves a request that is to be saved, and its answer beside it."""
        if call.method.call not in PLACEMENT_CALLS:
            return
        if self._settings.dumps == "always":
            call.dump = self._dumps.save(call.question, call.digest, call.told)
        self._dumps.answer(call.dump, answer, call.method.placement)

    def _defect(self, call: RunningCall, what: str) -> str:
        self._metrics.defects.inc()
        whole = whole_request_of(call.method.call)
        name = call.dump = self._dumps.save(call.question, call.digest, call.told, whole)
        saved = f"dump {name!r}" if name else "not dumped"
        call.log.error("defect: %s; %s: %s", call.title, saved, what)
        return name


@asynccontextmanager
async def _heard(method: Method, call: RunningCall, context: Context) -> AsyncIterator[None]:
    """Listens whether the caller of a call that may be steered wants it to finish."""
    if method.call not in STEERED:
        yield
        return

    async def hear() -> None:
        if isinstance(await context.read(), bytes):
            call.hurry()

    hearing = asyncio.ensure_future(hear())
    try:
        yield
    finally:
        hearing.cancel()
        # Whatever the result, the call is over.
        await asyncio.gather(hearing, return_exceptions=True)
