"""Asks the placement service: deadlines, retries and typed errors around the gRPC stub.

Every call has a deadline. A call that finds no server (UNAVAILABLE), or that the server cancels, is
repeated by gRPC itself, up to five times with exponential back-off and jitter and never past the
deadline; repeating is harmless, because no answer depends on what the service keeps. A busy server
is not asked again automatically: `BusyError.retry_after` tells the caller when to ask again,
perhaps with a newer request.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self, TypeVar

import grpc

from placement.failures import failure_on
from placement.local_snapshot import LocalSnapshot
from placement.sessions import Session
from placement.streams import EventStream, SteeredStream
from placement.tls_files import read_authorities, read_identity
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
    SteerPlacementRequest,
    SteerPlacementResponse,
    SteerPlanningRequest,
    SteerPlanningResponse,
    StreamPlacementRequest,
    StreamPlacementResponse,
)
from placement.v1.placement_service_pb2_grpc import PlacementServiceStub
from placement.v1.planning_pb2_grpc import PlanningServiceStub

#: Seconds until a call ends when neither the client nor the call says otherwise.
DEFAULT_TIMEOUT = 60.0

_Answer = TypeVar("_Answer")

#: Of a channel to the service, blocking or not.
_SERVICE_CONFIG = {
    # Several addresses behind one name are replicas; a retry goes to the next one.
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [
        {
            "name": [
                {"service": "placement.v1.PlacementService"},
                {"service": "placement.v1.PlanningService"},
                {"service": "placement.kubernetes.v1.KubernetesPlacementService"},
            ],
            "retryPolicy": {
                "maxAttempts": 5,  # gRPC allows no more.
                "initialBackoff": "0.1s",
                "backoffMultiplier": 3,
                "maxBackoff": "2s",
                # A server may cancel calls that begin while it renews its certificates. Who
                # cancels a call himself ends it.
                "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
            },
        }
    ],
}

#: Seconds that one attempt to connect may take, also where someone accepts and says nothing.
#: gRPC's default is 20.
_CONNECT_SECONDS = 5.0

CHANNEL_OPTIONS: tuple[tuple[str, str | int], ...] = (
    ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
    # Which is what gRPC makes of it.
    ("grpc.min_reconnect_backoff_ms", round(_CONNECT_SECONDS * 1000)),
    # gRPC does not retry a request that is larger than this buffer; its default, 256 KiB, is less
    # than the snapshot of a small cluster.
    ("grpc.per_rpc_retry_buffer_size", 2**31 - 1),
    # The caller asked for the answer, whatever its size; the server bounds it.
    ("grpc.max_receive_message_length", -1),
    # A hundred violations do not fit the default, 8 KiB, and the error would be lost whole.
    ("grpc.max_metadata_size", 2**20),
)


#: This machine, as a target names it.
_LOOPBACK = re.compile(r"(?:\w+:/*)?(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?")


def channel_options(target: str) -> tuple[tuple[str, str | int], ...]:
    """The options of a channel to that address."""
    if not _LOOPBACK.fullmatch(target):
        return CHANNEL_OPTIONS
    # gRPC would ask the proxy of `http_proxy`, whose own machine is another one.
    return (*CHANNEL_OPTIONS, ("grpc.enable_http_proxy", 0))


def tls(
    ca: str | Path, *, certificate: str | Path | None = None, key: str | Path | None = None
) -> grpc.ChannelCredentials:
    """Credentials for a service whose certificate is signed by an authority in ``ca``.

    With ``certificate`` and ``key`` the client identifies itself (mutual TLS). All are PEM
    files. Raises OSError when one cannot be read or holds something else, ValueError when one of
    the pair is missing.
    """
    if (certificate is None) != (key is None):
        raise ValueError("certificate and key belong together")
    chain, private = None, None
    if certificate is not None and key is not None:
        chain, private = read_identity(certificate, key)
    return grpc.ssl_channel_credentials(
        root_certificates=read_authorities(ca), private_key=private, certificate_chain=chain
    )


class PlacementClient:
    """A connection to the service; a context manager that closes it.

    ``target`` is an address such as ``"placement.svc:50051"``, ``"dns:///placement:50051"`` or
    ``"unix:/run/placement.sock"``, reached in plain text unless ``credentials`` are given (see
    `tls`). It may instead be a channel of your own; that stays yours: it is not closed, and its
    retry policy is what you gave it.
    ``timeout`` is the deadline of each call in seconds; the service answers by the sooner of
    it, less a margin, and the request's ``time_limit``.

    A client may be used by several threads.
    """

    def __init__(
        self,
        target: str | grpc.Channel,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        #: The deadline of calls that name none, in seconds.
        self.timeout = timeout
        self._own_channel: grpc.Channel | None = None
        if isinstance(target, str):
            channel = self._own_channel = (
                grpc.insecure_channel(target, options=channel_options(target))
                if credentials is None
                else grpc.secure_channel(target, credentials, options=channel_options(target))
            )
        elif credentials is None:
            channel = target
        else:
            raise ValueError("credentials go with an address; a channel has its own")
        #: For stubs of further services of the same server.
        self.channel = channel
        planning = PlanningServiceStub(channel)
        self._steer: grpc.StreamStreamMultiCallable[
            SteerPlacementRequest, SteerPlacementResponse
        ] = planning.SteerPlacement
        self._steer_planning: grpc.StreamStreamMultiCallable[
            SteerPlanningRequest, SteerPlanningResponse
        ] = planning.SteerPlanning
        self._explain: grpc.UnaryUnaryMultiCallable[ExplainGangRequest, ExplainGangResponse] = (
            planning.ExplainGang
        )
        self._capacity: grpc.UnaryUnaryMultiCallable[
            ComputeCapacityRequest, ComputeCapacityResponse
        ] = planning.ComputeCapacity
        self._target = target if isinstance(target, str) else "a channel"
        self._repack: grpc.UnaryUnaryMultiCallable[
            ComputeRepackingRequest, ComputeRepackingResponse
        ] = planning.ComputeRepacking
        stub = PlacementServiceStub(channel)
        self._compute: grpc.UnaryUnaryMultiCallable[
            ComputePlacementRequest, ComputePlacementResponse
        ] = stub.ComputePlacement
        self._stream: grpc.UnaryStreamMultiCallable[
            StreamPlacementRequest, StreamPlacementResponse
        ] = stub.StreamPlacement

    def compute(
        self, request: ComputePlacementRequest, *, timeout: float | None = None
    ) -> Placement:
        """The placement, within ``timeout`` seconds.

        Raises a `placement.errors.PlacementError`. Leaving by any other exception, such as
        KeyboardInterrupt, cancels the call, which stops the search.
        """
        call = self._compute.future(request, timeout=self._seconds(timeout))
        return result(call, self.channel).placement

    def stream(
        self, request: ComputePlacementRequest, *, timeout: float | None = None
    ) -> EventStream[Placement]:
        """Progress whenever there is some, then the placement, within ``timeout`` seconds."""
        step = StreamPlacementRequest(request=request)
        return EventStream(self._stream(step, timeout=self._seconds(timeout)), self.channel)

    def steer(
        self, request: ComputePlacementRequest, *, timeout: float | None = None
    ) -> SteeredStream[Placement]:
        """As `stream`, with an end that the caller may call for."""
        steps: SimpleQueue[SteerPlacementRequest | None] = SimpleQueue()
        steps.put(SteerPlacementRequest(request=request))
        call = self._steer(iter(steps.get, None), timeout=self._seconds(timeout))
        finish = SteerPlacementRequest(finish=Finish())
        return SteeredStream(call, self.channel, steps, finish)

    def steer_explain(
        self, request: ExplainGangRequest, *, timeout: float | None = None
    ) -> SteeredStream[ExplainGangResponse]:
        """As `explain`, with progress and an end that the caller may call for."""
        return self._steered(SteerPlanningRequest(explain_gang=request), timeout)

    def steer_capacity(
        self, request: ComputeCapacityRequest, *, timeout: float | None = None
    ) -> SteeredStream[ComputeCapacityResponse]:
        """As `capacity`, with progress and an end that the caller may call for."""
        return self._steered(SteerPlanningRequest(compute_capacity=request), timeout)

    def steer_repack(
        self, request: ComputeRepackingRequest, *, timeout: float | None = None
    ) -> SteeredStream[ComputeRepackingResponse]:
        """As `repack`, with progress and an end that the caller may call for."""
        return self._steered(SteerPlanningRequest(compute_repacking=request), timeout)

    def _steered(self, request: SteerPlanningRequest, timeout: float | None) -> SteeredStream[Any]:
        steps: SimpleQueue[SteerPlanningRequest | None] = SimpleQueue()
        steps.put(request)
        call = self._steer_planning(iter(steps.get, None), timeout=self._seconds(timeout))
        finish = SteerPlanningRequest(finish=Finish())
        return SteeredStream(call, self.channel, steps, finish)

    def explain(
        self, request: ExplainGangRequest, *, timeout: float | None = None
    ) -> ExplainGangResponse:
        """Why a gang waits and what would let it in; as `compute`."""
        call = self._explain.future(request, timeout=self._seconds(timeout))
        return result(call, self.channel)

    def capacity(
        self, request: ComputeCapacityRequest, *, timeout: float | None = None
    ) -> ComputeCapacityResponse:
        """How much more fits, or how much is missing; as `compute`."""
        call = self._capacity.future(request, timeout=self._seconds(timeout))
        return result(call, self.channel)

    def repack(
        self, request: ComputeRepackingRequest, *, timeout: float | None = None
    ) -> ComputeRepackingResponse:
        """What to move so that whole domains are free; as `compute`."""
        call = self._repack.future(request, timeout=self._seconds(timeout))
        return result(call, self.channel)

    def session(self, cluster: LocalSnapshot | None = None) -> Session:
        """Asks again and again about a cluster that hardly changes; see `Session`.

        `cluster` is that of another session, to continue with on a new connection.
        """
        return Session(self, LocalSnapshot() if cluster is None else cluster)

    def __repr__(self) -> str:
        return f"<PlacementClient: {self._target}>"

    def close(self) -> None:
        """Close the connection and cancel what still runs on it."""
        if self._own_channel is not None:
            self._own_channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _seconds(self, timeout: float | None) -> float:
        return self.timeout if timeout is None else timeout


def result(call: grpc.CallFuture[_Answer], channel: grpc.Channel) -> _Answer:
    """What a call answers; leaving it before by an exception cancels it."""
    try:
        return call.result()
    except grpc.RpcError as error:
        raise failure_on(channel, error) from error
    finally:
        call.cancel()  # Does nothing to a call that has ended.
