"""The client against a scripted server on a real port; the service itself is tested elsewhere."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import grpc
import pytest

from placement import v1
from placement.aio import AsyncPlacementClient
from placement.client import PlacementClient, channel_options
from placement.errors import (
    BusyError,
    DeadlineTooShortError,
    DrainingError,
    InternalError,
    InvalidRequestError,
    PlacementError,
    UnavailableError,
    Violation,
)
from placement.objects import ObjectsSession
from placement.testing import Event, Script, scripted_server
from placement.v1 import ClusterSnapshot, ComputePlacementRequest, Node, Placement, Progress
from tests.waiting import LONG

REQUEST = ComputePlacementRequest(label="question")
ANSWER = Placement(revision="7")

EVERY_ERROR = [
    InvalidRequestError("2 violations", violations=[Violation("gangs[0].name", "must be set")]),
    BusyError("16 wait already", retry_after=1.5, maximum_pending=16),
    DeadlineTooShortError("no answer yet", elapsed=0.031),
    InternalError("a defect", dump="20261121T101500-1f2e3d4c.json"),
    PlacementError("who are you?", code=grpc.StatusCode.UNAUTHENTICATED),
]
#: These are retried, so a script must hold them often enough to get through.
EVERY_RETRIED_ERROR = [UnavailableError("restarting"), DrainingError("shutting down")]

#: Seconds until calls are over: a server on a busy machine hears of the first ones too late.
LONG_ENOUGH_TO_ARRIVE = (0.1, 1.0, 10.0, 30.0)


class Endless:
    """Progress without end, which notices when the server drops it."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.dropped = threading.Event()

    def __call__(self, request: ComputePlacementRequest) -> Iterator[Event]:
        self.arrived.set()
        try:
            while True:
                time.sleep(0.001)
                yield Progress(phase="improve")
        finally:
            self.dropped.set()


def test_compute_sends_the_request_and_returns_the_placement() -> None:
    with scripted_server([ANSWER]) as server, PlacementClient(server.address) as client:
        assert client.compute(REQUEST) == ANSWER
    assert [call.request for call in server.calls] == [REQUEST]


def test_stream_yields_progress_in_order_and_the_placement_last() -> None:
    events: list[Event] = [Progress(phase="greedy"), Progress(phase="bound"), ANSWER]
    with scripted_server([events]) as server, PlacementClient(server.address) as client:
        assert list(client.stream(REQUEST)) == events
    assert [call.request for call in server.calls] == [REQUEST]


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda e: type(e).__name__)
def test_errors_arrive_as_their_own_class_with_their_fields(error: PlacementError) -> None:
    with scripted_server([error]) as server, PlacementClient(server.address) as client:
        with pytest.raises(PlacementError) as caught:
            client.compute(REQUEST)
        assert len(server.calls) == 1
    assert (type(caught.value), vars(caught.value)) == (type(error), vars(error))
    assert isinstance(caught.value.__cause__, grpc.RpcError)


@pytest.mark.parametrize("error", EVERY_RETRIED_ERROR, ids=lambda e: type(e).__name__)
def test_a_server_that_stays_away_is_given_up_after_five_tries(error: PlacementError) -> None:
    with scripted_server(lambda request: error) as server:
        with PlacementClient(server.address) as client, pytest.raises(UnavailableError) as caught:
            client.compute(REQUEST)
        assert len(server.calls) == 5
    assert (type(caught.value), vars(caught.value)) == (type(error), vars(error))


def test_an_error_in_the_middle_of_a_stream_follows_what_came_before() -> None:
    events: list[Event] = [Progress(phase="greedy"), InternalError("a defect")]
    with scripted_server([events]) as server, PlacementClient(server.address) as client:
        stream = client.stream(REQUEST)
        assert next(stream) == Progress(phase="greedy")
        with pytest.raises(InternalError) as caught:
            next(stream)
    assert isinstance(caught.value.__cause__, grpc.RpcError)


def test_an_unavailable_server_is_asked_again() -> None:
    cancelled = PlacementError("cancelled", code=grpc.StatusCode.CANCELLED)
    script: Script = [UnavailableError("restarting"), DrainingError("ends"), cancelled, ANSWER]
    with scripted_server(script) as server, PlacementClient(server.address) as client:
        assert client.compute(REQUEST) == ANSWER
    assert [call.request for call in server.calls] == [REQUEST] * 4


def test_a_stream_is_asked_for_again_until_it_has_begun() -> None:
    script: Script = [UnavailableError("restarting"), [Progress(phase="greedy"), ANSWER]]
    with scripted_server(script) as server, PlacementClient(server.address) as client:
        assert list(client.stream(REQUEST)) == [Progress(phase="greedy"), ANSWER]


def test_a_stream_that_has_begun_is_not_asked_for_again() -> None:
    script: Script = [[Progress(phase="greedy"), UnavailableError("gone")], ANSWER]
    with scripted_server(script) as server, PlacementClient(server.address) as client:
        stream = client.stream(REQUEST)
        assert next(stream) == Progress(phase="greedy")
        with pytest.raises(UnavailableError):
            next(stream)
    assert len(server.calls) == 1


def test_a_large_request_is_asked_again_too() -> None:
    """gRPC would keep only 256 KiB for a retry."""
    nodes = [Node(name=f"nodes/gpu-{i:05}", labels={"rack": "r" * 100}) for i in range(20_000)]
    request = ComputePlacementRequest(snapshot=ClusterSnapshot(nodes=nodes))
    assert request.ByteSize() > 2**21
    script: Script = [UnavailableError("restarting"), ANSWER]
    with scripted_server(script) as server, PlacementClient(server.address) as client:
        assert client.compute(request) == ANSWER


def test_a_large_answer_is_received() -> None:
    """gRPC would refuse more than 4 MiB."""
    answer = Placement(revision="r" * 2**23)
    with scripted_server([answer]) as server, PlacementClient(server.address) as client:
        assert client.compute(REQUEST) == answer


def test_a_hundred_violations_are_received() -> None:
    """gRPC would refuse more than 8 KiB and lose the error with them."""
    violations = [Violation(f"gangs[{i}].groups[0].name", "x" * 500) for i in range(100)]
    with (
        scripted_server([InvalidRequestError(violations=violations)]) as server,
        PlacementClient(server.address) as client,
        pytest.raises(InvalidRequestError) as caught,
    ):
        client.compute(REQUEST)
    assert list(caught.value.violations) == violations


def test_a_port_that_nobody_listens_on_is_unavailable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with (
            PlacementClient(f"127.0.0.1:{unused.getsockname()[1]}") as client,
            pytest.raises(UnavailableError),
        ):
            client.compute(REQUEST)


def test_every_call_has_a_deadline() -> None:
    """The call's own, else the client's; the server's clock sees about the same."""
    with scripted_server(lambda request: ANSWER) as server:
        with PlacementClient(server.address) as client:
            client.compute(REQUEST)
            list(client.stream(REQUEST))
        with PlacementClient(server.address, timeout=2000) as client:
            client.compute(REQUEST)
            client.compute(REQUEST, timeout=3000)
            list(client.stream(REQUEST, timeout=4000))
    timeouts = [call.timeout for call in server.calls]
    for timeout, want in zip(timeouts, [60, 60, 2000, 3000, 4000], strict=True):
        assert timeout is not None
        assert timeout == pytest.approx(want, abs=50)


def test_a_deadline_ends_a_call_that_the_server_does_not_answer() -> None:
    endless = Endless()
    with scripted_server(endless) as server, PlacementClient(server.address) as client:
        for seconds in LONG_ENOUGH_TO_ARRIVE:
            with pytest.raises(DeadlineTooShortError) as caught:
                client.compute(REQUEST, timeout=seconds)
            if endless.arrived.is_set():
                break
        assert endless.dropped.wait(LONG)
    assert caught.value.elapsed is None
    assert "before any server" not in str(caught.value)


@pytest.fixture(params=[True, False], ids=["silent", "refuses"])
def nobody(request: pytest.FixtureRequest) -> Iterator[str]:
    """An address at which nothing answers."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if request.param:
            silent.listen()
        yield f"127.0.0.1:{silent.getsockname()[1]}"


CALLS: dict[str, Callable[[PlacementClient], object]] = {
    "compute": lambda client: client.compute(REQUEST, timeout=0.3),
    "stream": lambda client: list(client.stream(REQUEST, timeout=0.3)),
    "steer": lambda client: list(client.steer(REQUEST, timeout=0.3)),
    "objects": lambda client: ObjectsSession(client).place(timeout=0.3),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_address_at_which_nothing_answers_is_told_from_a_slow_server(
    nobody: str, call: Callable[[PlacementClient], object]
) -> None:
    with (
        PlacementClient(nobody) as client,
        pytest.raises(DeadlineTooShortError, match="before any server was reached"),
    ):
        call(client)


def test_an_address_that_accepts_and_says_nothing_is_given_up_before_the_deadline() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        # As long as gRPC would wait by itself.
        with PlacementClient(address, timeout=20.0) as client, pytest.raises(UnavailableError):
            client.compute(REQUEST)


@pytest.mark.parametrize("how", ["compute", "stream", "steer"])
def test_calls_that_do_not_block_tell_an_address_at_which_nothing_answers(
    nobody: str, how: str
) -> None:
    async def asked() -> None:
        async with AsyncPlacementClient(nobody) as client:
            if how == "compute":
                await client.compute(REQUEST, timeout=0.3)
            async for _ in getattr(client, how)(REQUEST, timeout=0.3):
                pass

    with pytest.raises(DeadlineTooShortError, match="before any server was reached"):
        asyncio.run(asked())


def test_a_deadline_ends_a_stream() -> None:
    endless = Endless()
    with scripted_server(endless) as server, PlacementClient(server.address) as client:
        for seconds in LONG_ENOUGH_TO_ARRIVE:
            with pytest.raises(DeadlineTooShortError):
                list(client.stream(REQUEST, timeout=seconds))
            if endless.arrived.is_set():
                break
        assert endless.dropped.wait(LONG)


def test_an_interrupt_from_the_keyboard_cancels_the_call() -> None:
    """In a process of its own, which is interrupted again should the first one go by unheard."""
    endless = Endless()
    program = """
import signal, sys
from placement import v1
from placement.client import PlacementClient, channel_options
from placement.v1 import ComputePlacementRequest
# A process that was started in the background ignores it from birth.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    PlacementClient(sys.argv[1]).compute(ComputePlacementRequest())
except KeyboardInterrupt:
    print("interrupted")
"""
    with (
        scripted_server(endless) as server,
        subprocess.Popen(
            [sys.executable, "-c", program, server.address], stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        assert endless.arrived.wait(LONG)
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            if endless.dropped.wait(LONG / 3):
                break
        said, _ = process.communicate(timeout=LONG)
    assert said == "interrupted\n"


def test_closing_a_stream_cancels_the_call_and_ends_the_iteration() -> None:
    endless = Endless()
    with scripted_server(endless) as server, PlacementClient(server.address) as client:
        stream = client.stream(REQUEST)
        assert next(stream) == Progress(phase="improve")
        stream.close()
        assert endless.dropped.wait(LONG)
        assert all(event == Progress(phase="improve") for event in stream)


def test_leaving_the_block_of_a_stream_cancels_the_call() -> None:
    endless = Endless()
    with scripted_server(endless) as server, PlacementClient(server.address) as client:
        with client.stream(REQUEST) as stream:
            next(stream)
        assert endless.dropped.wait(LONG)


def test_closing_from_another_thread_wakes_who_waits_for_the_next_event() -> None:
    release = threading.Event()
    arrived = threading.Event()

    def never(request: ComputePlacementRequest) -> Placement:
        arrived.set()
        release.wait()
        return ANSWER

    with scripted_server(never) as server, PlacementClient(server.address) as client:
        stream = client.stream(REQUEST)

        def close_once_arrived() -> None:
            arrived.wait(LONG)
            stream.close()

        closer = threading.Thread(target=close_once_arrived)
        closer.start()
        assert list(stream) == []
        closer.join()
        release.set()


def test_closing_a_finished_stream_does_nothing() -> None:
    with scripted_server([ANSWER]) as server, PlacementClient(server.address) as client:
        stream = client.stream(REQUEST)
        assert list(stream) == [ANSWER]
        stream.close()
        assert list(stream) == []


def test_closing_the_client_closes_its_own_channel() -> None:
    with scripted_server([ANSWER]) as server:
        client = PlacementClient(server.address)
        client.close()
        with pytest.raises(ValueError, match="Channel closed"):
            client.compute(REQUEST)


def test_closing_the_client_leaves_a_channel_of_the_caller_open() -> None:
    with (
        scripted_server([ANSWER, ANSWER]) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        for _ in range(2):
            with PlacementClient(channel) as client:
                assert client.compute(REQUEST) == ANSWER


def test_credentials_do_not_go_with_a_channel() -> None:
    with (
        grpc.insecure_channel("127.0.0.1:1") as channel,
        pytest.raises(ValueError, match="a channel has its own"),
    ):
        PlacementClient(channel, credentials=grpc.ssl_channel_credentials())


def test_credentials_encrypt_the_connection() -> None:
    """A server that speaks plain text is no partner then."""
    with (
        scripted_server([ANSWER]) as server,
        PlacementClient(server.address, credentials=grpc.ssl_channel_credentials()) as client,
        pytest.raises(UnavailableError),
    ):
        client.compute(REQUEST)


def test_large_messages_are_short_in_a_notebook_and_whole_as_text() -> None:
    placement = v1.Placement(revision="7", bindings=[v1.Binding(pod="a")] * 1000)
    placement.termination.reason = v1.TerminationReason.TERMINATION_REASON_OPTIMAL
    assert repr(placement).startswith("<Placement: revision '7', 1000 bindings, termination {")
    assert len(repr(placement)) < 120
    assert str(placement).count("bindings {") == 1000
    assert repr(v1.ComputePlacementRequest()) == "<ComputePlacementRequest: empty>"


def test_a_proxy_is_not_asked_for_a_service_on_this_machine() -> None:
    passing = ("grpc.enable_http_proxy", 0)
    for near in ("localhost:1", "127.0.0.2:1", "[::1]:1", "dns:///localhost:1", "ipv4:127.0.0.1:1"):
        assert passing in channel_options(near)
    for far in ("placement.svc:1", "localhost.example:1", "dns:///placement:1", "10.127.0.1:1"):
        assert passing not in channel_options(far)
