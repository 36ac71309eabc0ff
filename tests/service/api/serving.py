"""The service over real gRPC, on a free port, with real solver processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from placement.v1 import (
    ComputePlacementRequest,
    Placement,
    StreamPlacementRequest,
)
from placement.v1.placement_service_pb2_grpc import PlacementServiceStub
from placement_service.api.server import Server, make_server
from placement_service.api.settings import Settings
from tests.waiting import LONG, wait_until

#: Seconds for what must come within them: a machine that stands still for longer than the
#: first ones is asked once more.
EVER_MORE = (1.5, 6.0, 24.0)


class Running:
    """A server that runs, with a connection to it."""

    def __init__(self, server: Server, channel: grpc.Channel, port: int = 0) -> None:
        self.server = server
        self.port = port
        self.channel = channel
        self.stub = PlacementServiceStub(channel)

    def compute(self, there: ComputePlacementRequest, timeout: float = LONG) -> Placement:
        answer: Placement = self.stub.ComputePlacement(there, timeout=timeout).placement
        return answer

    def stream(self, there: ComputePlacementRequest, timeout: float = LONG) -> Any:
        return self.stub.StreamPlacement(StreamPlacementRequest(request=there), timeout=timeout)


@contextmanager
def running(engine: str = "moving", **settings: Any) -> Iterator[Running]:
    """Yields once the solver process is warm."""
    name = engine if ":" in engine else f"tests.service.engines:{engine}"
    server = make_server(Settings(host="127.0.0.1", port=0, engine=name, **settings))
    try:
        port = server.start()
        assert server.wait_until_warm(LONG)
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Running(server, channel, port)
    finally:
        server.stop(0)


def details(error: grpc.RpcError) -> dict[str, Any]:
    """The details of an error by the name of their type."""
    assert isinstance(error, grpc.Call)
    status = rpc_status.from_call(error)
    assert status is not None, error
    found: dict[str, Any] = {}
    for kind in (
        error_details_pb2.ErrorInfo,
        error_details_pb2.BadRequest,
        error_details_pb2.RetryInfo,
    ):
        for detail in status.details:
            if detail.Is(kind.DESCRIPTOR):
                assert kind.DESCRIPTOR.name not in found, "each type once"
                found[kind.DESCRIPTOR.name] = kind.FromString(detail.value)
    assert len(found) == len(status.details)
    assert found["ErrorInfo"].domain == "placement.v1"
    return found


def wait_until_searching(service: Running) -> None:
    """Waits until the only compute process has something to do."""
    wait_until(lambda: not service.server.wait_until_warm(0), "a search runs")


def solver_ids(service: Running) -> tuple[int, ...]:
    """The solver processes, which are children of the compute processes."""
    return tuple(
        int(child)
        for pid in service.server.process_ids()
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    )


def nodes_of(placement: Placement) -> set[str]:
    return {b.node for b in placement.bindings}


def health(service: Running, name: str = "") -> str:
    stub = health_pb2_grpc.HealthStub(service.channel)
    status = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=LONG).status
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(status))
