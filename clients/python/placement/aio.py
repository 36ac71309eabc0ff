"""`placement.client` for asyncio: the same calls, errors and sessions, awaited.

A call that is cancelled, as by ``asyncio.timeout``, stops its search.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Generic, Self, TypeVar, cast

import grpc

from placement.client import DEFAULT_TIMEOUT, channel_options
from placement.errors import InvalidRequestError, SnapshotUnknownError
from placement.failures import async_failure_on
from placement.local_snapshot import LocalSnapshot
from placement.sessions import PlanningRequest, about
from placement.v1 import (
    ComputeCapacityRequest,
    ComputeCapacityResponse,
    ComputePlacementRequest,
    ComputePlacementResponse,
    ComputeRepackingRequest,
    ComputeRepackingResponse,
    ExplainGangRequest,
    ExplainGangResponse,
    Finish,
    Placement,
    Progress,
    SteerPlacementRequest,
    SteerPlanningRequest,
    StreamPlacementRequest,
)
from placement.v1.placement_service_pb2_grpc import PlacementServiceStub
from placement.v1.planning_pb2_grpc import PlanningServiceStub

_Answer = TypeVar(
    "_Answer", Placement, ExplainGangResponse, ComputeCapacityResponse, ComputeRepackingResponse
)

_T = TypeVar("_T")
_A_co = TypeVar("_A_co", covariant=True)
_Step = SteerPlacementRequest | SteerPlanningRequest


class AsyncSteeredStream(AsyncIterator[Progress | _A_co], Generic[_A_co]):
    """As `placement.streams.SteeredStream`: progress, then one answer, and an end that the
    caller may call for. Leaving it as a context manager cancels the call.
    """

    def __init__(
        self,
        steer: Callable[..., Any],
        channel: grpc.aio.Channel,
        request: _Step,
        finish: _Step,
        timeout: float,
    ) -> None:
        self._channel = channel
        self._finish = finish
        self._steps: asyncio.Queue[_Step | None] = asyncio.Queue()
        self._steps.put_nowait(request)
        self._call = steer(self._sent(), timeout=timeout)
        self._responses = aiter(self._call)

    async def __anext__(self) -> Progress | _A_co:
        while True:
            try:
                response = await anext(self._responses)
            except grpc.aio.AioRpcError as error:
                raise async_failure_on(self._channel, error) from error
            event = response.WhichOneof("event")
            if event is not None:
                return cast("Progress | _A_co", getattr(response, event))
            # An event that a newer server sends and this client does not know.

    def finish(self) -> None:
        """Have the search end with the best answer so far."""
        self._steps.put_nowait(self._finish)
        self._steps.put_nowait(None)

    def close(self) -> None:
        """Cancel the call, which stops the search; does nothing when it has ended."""
        self._call.cancel()
        self._steps.put_nowait(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def _sent(self) -> AsyncGenerator[_Step]:
        while (step := await self._steps.get()) is not None:
            yield step


class AsyncPlacementClient:
    """A connection to the service, as `placement.client.PlacementClient`.

    To be made, used and closed on one event loop. ``target`` may be a ``grpc.aio`` channel of
    your own, which stays yours.
    """

    def __init__(
        self,
        target: str | grpc.aio.Channel,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        #: The deadline of calls that name none, in seconds.
        self.timeout = timeout
        self._own_channel: grpc.aio.Channel | None = None
        if isinstance(target, str):
            channel = self._own_channel = (
                grpc.aio.insecure_channel(target, options=channel_options(target))
                if credentials is None
                else grpc.aio.secure_channel(target, credentials, options=channel_options(target))
            )
        elif credentials is None:
            channel = target
        else:
            raise ValueError("credentials go with an address; a channel has its own")
        #: For stubs of further services of the same server.
        self.channel = channel
        self._target = target if isinstance(target, str) else "a channel"
        self._stub = PlacementServiceStub(channel)
        self._planning = PlanningServiceStub(channel)

    async def compute(
        self, request: ComputePlacementRequest, *, timeout: float | None = None
    ) -> Placement:
        """The placement, within ``timeout`` seconds. Raises a `PlacementError`."""
        call = self._stub.ComputePlacement(request, timeout=self._seconds(timeout))
        response: ComputePlacementResponse = await result(call, self.channel)
        return response.placement

    async def explain(
        self, request: ExplainGangRequest, *, timeout: float | None = None
    ) -> ExplainGangResponse:
        """Why a gang waits and what would let it in; as `compute`."""
        call = self._planning.ExplainGang(request, timeout=self._seconds(timeout))
        return await result(call, self.channel)

    async def capacity(
        self, request: ComputeCapacityRequest, *, timeout: float | None = None
    ) -> ComputeCapacityResponse:
        """How much more fits, or how much is missing; as `compute`."""
        call = self._planning.ComputeCapacity(request, timeout=self._seconds(timeout))
        return await result(call, self.channel)

    async def repack(
        self, request: ComputeRepackingRequest, *, timeout: float | None = None
    ) -> ComputeRepackingResponse:
        """What to move so that whole domains are free; as `compute`."""
        call = self._planning.ComputeRepacking(request, timeout=self._seconds(timeout))
        return await result(call, self.channel)

    async def stream(
        self, request: ComputePlacementRequest, *, timeout: float | None = None
    ) -> AsyncGenerator[Progress | Placement]:
        """Progress whenever there is some, then the placement, within ``timeout`` seconds.

        Leave it early inside ``contextlib.aclosing``, which cancels the call.
        """
        call = self._stub.StreamPlacement(
            StreamPlacementRequest(request=request), timeout=self._seconds(timeout)
        )
        try:
            async for response in call:
                match response.WhichOneof("event"):
                    case "progress":
                        yield response.progress
                    case "placement":
                        yield response.placement
        except grpc.aio.AioRpcError as error:
            raise async_failure_on(self.channel, error) from error
        finally:
            call.cancel()  # Does nothing to a call that has ended.

    def steer(
        self, request: ComputePlacementRequest, *, timeout: float | None = None
    ) -> AsyncSteeredStream[Placement]:
        """As `stream`, with an end that the caller may call for."""
        return AsyncSteeredStream(
            self._planning.SteerPlacement,
            self.channel,
            SteerPlacementRequest(request=request),
            SteerPlacementRequest(finish=Finish()),
            self._seconds(timeout),
        )

    def steer_explain(
        self, request: ExplainGangRequest, *, timeout: float | None = None
    ) -> AsyncSteeredStream[ExplainGangResponse]:
        """As `explain`, with progress and an end that the caller may call for."""
        return self._steered(SteerPlanningRequest(explain_gang=request), timeout)

    def steer_capacity(
        self, request: ComputeCapacityRequest, *, timeout: float | None = None
    ) -> AsyncSteeredStream[ComputeCapacityResponse]:
        """As `capacity`, with progress and an end that the caller may call for."""
        return self._steered(SteerPlanningRequest(compute_capacity=request), timeout)

    def steer_repack(
        self, request: ComputeRepackingRequest, *, timeout: float | None = None
    ) -> AsyncSteeredStream[ComputeRepackingResponse]:
        """As `repack`, with progress and an end that the caller may call for."""
        return self._steered(SteerPlanningRequest(compute_repacking=request), timeout)

    def _steered(
        self, request: SteerPlanningRequest, timeout: float | None
    ) -> AsyncSteeredStream[Any]:
        finish = SteerPlanningRequest(finish=Finish())
        steer = self._planning.SteerPlanning
        return AsyncSteeredStream(steer, self.channel, request, finish, self._seconds(timeout))

    def session(self, cluster: LocalSnapshot | None = None) -> AsyncSession:
        """Asks again and again about a cluster that hardly changes.

        `cluster` is that of another session, to continue with on a new connection.
        """
        return AsyncSession(self, LocalSnapshot() if cluster is None else cluster)

    async def close(self) -> None:
        """Close the connection and cancel what still runs on it."""
        if self._own_channel is not None:
            await self._own_channel.close(grace=None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncPlacementClient: {self._target}>"

    def _seconds(self, timeout: float | None) -> float:
        return self.timeout if timeout is None else timeout


class AsyncSession:
    """As `placement.client.Session`."""

    def __init__(self, client: AsyncPlacementClient, cluster: LocalSnapshot) -> None:
        self._client = client
        self.cluster = cluster

    async def compute(
        self, request: ComputePlacementRequest, *, timeout: float | None = None
    ) -> Placement:
        """As `AsyncPlacementClient.compute`."""

        def ask(question: ComputePlacementRequest, left: float) -> Awaitable[Placement]:
            return self._client.compute(question, timeout=left)

        return await self._asked(request, ask, timeout)

    async def explain(
        self, request: ExplainGangRequest, *, timeout: float | None = None
    ) -> ExplainGangResponse:
        """As `AsyncPlacementClient.explain`."""

        return await self._asked_about(self._client.explain, request, timeout)

    async def capacity(
        self, request: ComputeCapacityRequest, *, timeout: float | None = None
    ) -> ComputeCapacityResponse:
        """As `AsyncPlacementClient.capacity`."""

        return await self._asked_about(self._client.capacity, request, timeout)

    async def repack(
        self, request: ComputeRepackingRequest, *, timeout: float | None = None
    ) -> ComputeRepackingResponse:
        """As `AsyncPlacementClient.repack`."""

        return await self._asked_about(self._client.repack, request, timeout)

    async def _asked_about(
        self,
        call: Callable[..., Awaitable[_Answer]],
        request: PlanningRequest,
        timeout: float | None,
    ) -> _Answer:
        def ask(question: ComputePlacementRequest, left: float) -> Awaitable[_Answer]:
            return call(about(request, question), timeout=left)

        return await self._asked(request.question, ask, timeout)

    async def _asked(
        self,
        request: ComputePlacementRequest,
        ask: Callable[[ComputePlacementRequest, float], Awaitable[_Answer]],
        timeout: float | None,
    ) -> _Answer:
        """The answer to a question, which is put once more where its base is not known."""
        end = time.monotonic() + (self._client.timeout if timeout is None else timeout)
        question = self.cluster.question(request)
        while True:
            left = max(0.0, end - time.monotonic())
            try:
                answer = await ask(question.request, left)
                self.cluster.answered(question, answer.snapshot_digest)
            except SnapshotUnknownError:
                question = self.cluster.retold(question, request)
            except InvalidRequestError as error:
                raise self.cluster.named(question, error) from error
            else:
                return answer

    async def stream(
        self, request: ComputePlacementRequest, *, timeout: float | None = None
    ) -> AsyncGenerator[Progress | Placement]:
        """As `AsyncPlacementClient.stream`."""
        end = time.monotonic() + (self._client.timeout if timeout is None else timeout)
        question = self.cluster.question(request)
        while True:
            left = max(0.0, end - time.monotonic())
            try:
                async with aclosing(self._client.stream(question.request, timeout=left)) as events:
                    async for event in events:
                        if isinstance(event, Placement):
                            self.cluster.answered(question, event.snapshot_digest)
                        yield event
            except SnapshotUnknownError:
                question = self.cluster.retold(question, request)
            except InvalidRequestError as error:
                raise self.cluster.named(question, error) from error
            else:
                return

    def __repr__(self) -> str:
        return f"<AsyncSession: {self._client!r}, {self.cluster!r}>"


async def result(call: Awaitable[_T], channel: grpc.aio.Channel) -> _T:
    """What a call answers; its errors are `placement.errors.PlacementError`s."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise async_failure_on(channel, error) from error
