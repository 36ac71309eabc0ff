"""Callers that stall, flood and leave, and processes that hang: all others are served."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from placement.v1 import ComputePlacementRequest, placement_pb2
from placement.v1.placement_service_pb2_grpc import PlacementServiceStub
from placement_service.api.admission import Admission, Place
from placement_service.api.calls.status import Refused
from placement_service.api.compute.pool import ComputePool
from placement_service.api.dumps import Dumps
from placement_service.api.metrics import Metrics
from placement_service.api.service import PlacementCalls
from placement_service.api.settings import Settings
from placement_service.api.snapshots.store import SnapshotStore
from placement_service.api.tracing import UNTRACED
from placement_service.api.wire.placements import parse_placement
from placement_service.api.wire.requests import request_to_proto
from placement_service.judge.verify import verify
from tests.processes import is_running
from tests.service.api.serving import Running, details, running, solver_ids
from tests.service.questions import message, open_snapshot, request
from tests.waiting import LONG, wait_until

COMPUTE = "/placement.v1.PlacementService/ComputePlacement"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

#: Answers that may be late, for a machine stands still at times, before it is our fault.
TRIES = 10


@contextmanager
def connection(service: Running) -> Iterator[grpc.Channel]:
    """One of its own, beside that of `service`."""
    alone = (("grpc.use_local_subchannel_pool", 1),)
    with grpc.insecure_channel(f"127.0.0.1:{service.port}", alone) as channel:
        yield channel


@contextmanager
def idle_calls(channel: grpc.Channel, path: str, count: int) -> Iterator[list[Any]]:
    """Calls whose message never comes."""
    over = threading.Event()

    def nothing() -> Iterator[bytes]:
        over.wait()
        yield from ()

    call = channel.stream_stream(path, bytes, bytes)
    calls = [call(nothing(), timeout=LONG) for _ in range(count)]
    try:
        yield calls
    finally:
        over.set()
        for one in calls:
            one.cancel()


def health(channel: grpc.Channel) -> int:
    stub = health_pb2_grpc.HealthStub(channel)
    status: int = stub.Check(health_pb2.HealthCheckRequest(), timeout=LONG).status
    return status


# --- Processes that stand still ---


def test_a_late_stage_costs_what_it_would_have_added_and_no_more() -> None:
    question = request(open_snapshot(), time_limit=1.0)
    with running("halting") as service:
        for _ in range(TRIES):
            begin = time.monotonic()
            placement = service.compute(request_to_proto(question))
            took = time.monotonic() - begin
            assert placement.termination.limit == placement_pb2.TERMINATION_LIMIT_TIME
            assert (
                verify(question.snapshot, question.policy, parse_placement(placement).bindings)
                == ()
            )
            assert placement.gangs[0].placed
            assert placement.stats.elapsed.ToMilliseconds() >= 1000
            if took < 1.1 + 0.2:
                return
    raise AssertionError("late each time")


def test_a_request_that_is_not_read_in_time_places_nothing() -> None:
    there = message(open_snapshot(), time_limit=1.0)
    with running("moving") as service:
        for _ in range(TRIES):
            (pid,) = service.server.process_ids()
            os.kill(pid, signal.SIGSTOP)
            begin = time.monotonic()
            placement = service.compute(there)
            took = time.monotonic() - begin
            assert (placement.label, placement.revision) == ("test", there.snapshot.revision)
            assert not placement.bindings
            assert not placement.tiers
            assert placement.termination.limit == placement_pb2.TERMINATION_LIMIT_TIME
            assert placement.stats.elapsed.ToMilliseconds() >= 1000
            assert [gang.name for gang in placement.gangs] == [gang.name for gang in there.gangs]
            assert not any(gang.placed for gang in placement.gangs)
            assert service.compute(message()).gangs[0].placed, "another process took over"
            if took < 1.1 + 0.2:
                return
    raise AssertionError("late each time")


def test_a_process_that_was_late_goes_on_when_it_stops_in_time() -> None:
    """On a busy machine everything is late once: a new process would be late, too."""
    with running("moving") as service:
        (pid,) = service.server.process_ids()
        service.server._edge.pool._boot_seconds = LONG
        os.kill(pid, signal.SIGSTOP)
        try:
            assert not service.compute(message(open_snapshot(), time_limit=0.3)).gangs[0].placed
        finally:
            os.kill(pid, signal.SIGCONT)
        assert service.compute(message()).gangs[0].placed
        assert service.server.process_ids() == (pid,)


def test_a_request_whose_turn_does_not_come_in_its_time_is_told_to_come_back() -> None:
    with running("stubborn", max_concurrent=1) as service:
        first = service.stream(message(open_snapshot(), time_limit=500.0), timeout=500.0)
        next(first)
        with pytest.raises(grpc.RpcError) as caught:
            service.compute(message(open_snapshot(), time_limit=0.5))
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert details(caught.value)["ErrorInfo"].reason == "BUSY"
        first.cancel()


# --- Callers who stall ---


def test_calls_without_message_stop_nobody() -> None:
    with (
        running("moving") as service,
        connection(service) as hostile,
        connection(service) as curious,
        idle_calls(hostile, COMPUTE, 60),
        idle_calls(curious, REFLECTION, 60),
    ):
        assert health(hostile) == health_pb2.HealthCheckResponse.SERVING
        assert health(curious) == health_pb2.HealthCheckResponse.SERVING
        assert health(service.channel) == health_pb2.HealthCheckResponse.SERVING
        assert service.compute(message()).gangs[0].placed


def test_a_message_that_does_not_come_ends_the_call() -> None:
    with (
        running("moving", arrival_timeout=0.3) as service,
        idle_calls(service.channel, COMPUTE, 1) as (call,),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert "did not arrive" in str(caught.value.details())


def test_connections_beyond_the_limit_are_closed_and_the_others_go_on() -> None:
    with running("moving", max_connections=3) as service, ExitStack() as stack:
        assert health(service.channel)
        for _ in range(2):
            assert health(stack.enter_context(connection(service)))
        with connection(service) as refused, pytest.raises(grpc.RpcError) as caught:
            health_pb2_grpc.HealthStub(refused).Check(health_pb2.HealthCheckRequest(), timeout=LONG)
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        assert service.compute(message()).gangs[0].placed


class Reader:
    """A caller with a closed window, who leaves when `gone`."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    async def write(self, content: bytes) -> None:
        await self.gone.wait()
        raise ConnectionError


def send(reader: Reader) -> Coroutine[Any, Any, None]:
    """A call as it sends its answer."""
    calls = PlacementCalls(
        Settings(send_timeout=0.05),
        pool=ComputePool(0, ()),
        admission=Admission(
            places=1,
            pending=0,
            held_bytes=1,
            arriving=1,
            retry_after_seconds=1.0,
            arrival_seconds=1.0,
        ),
        snapshots=SnapshotStore(0),
        dumps=Dumps(None, 1),
        metrics=Metrics(),
        tracing=UNTRACED,
    )

    async def nothing() -> None: ...

    return calls._send(reader, b"answer", nothing())  # type: ignore[arg-type]


def test_a_caller_who_does_not_read_is_given_up() -> None:
    async def work() -> None:
        with pytest.raises(Refused, match="nobody reads"):
            await send(Reader())

    asyncio.run(work())


def test_a_caller_who_leaves_while_an_answer_is_sent_leaves_no_error() -> None:
    errors = []

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: errors.append(what))
        reader = Reader()
        call = asyncio.ensure_future(send(reader))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        reader.gone.set()

    asyncio.run(work())
    gc.collect()
    assert not errors


def test_bytes_that_wait_are_bounded() -> None:
    large = message(open_snapshot(100), time_limit=500.0)
    room = large.ByteSize() * 3 // 2
    with running("stubborn", max_concurrent=1, max_pending_bytes=room) as service:
        first = service.stream(large, timeout=500.0)
        next(first)
        with pytest.raises(grpc.RpcError) as caught:
            service.compute(large)
        assert details(caught.value)["ErrorInfo"].reason == "BUSY"
        first.cancel()


def test_a_connection_that_fills_the_waiting_room_makes_room_for_another() -> None:
    long = message(open_snapshot(), time_limit=500.0)
    with (
        running("stubborn", max_concurrent=1, max_pending=4) as service,
        connection(service) as other,
    ):
        stub = PlacementServiceStub(service.channel)
        greedy = [stub.ComputePlacement.future(long, timeout=500.0) for _ in range(6)]
        wait_until(lambda: sum(call.done() for call in greedy) == 1, "all places are taken")
        asking = PlacementServiceStub(other).ComputePlacement.future(long, timeout=500.0)
        wait_until(lambda: sum(call.done() for call in greedy) == 2, "one gives way")
        assert not asking.done()
        assert {call.code() for call in greedy if call.done()} == {
            grpc.StatusCode.RESOURCE_EXHAUSTED
        }
        for call in (*greedy, asking):
            call.cancel()


class Idle:
    """A process that is idle."""

    def __init__(self) -> None:
        self.peer: str | None = None
        self.busy = False
        self.held: set[bytes] = set()
        self.ended = asyncio.Event()


def test_the_next_turn_is_of_a_connection_that_has_no_process() -> None:
    async def work() -> None:
        pool = ComputePool(0, ())
        first, second = processes = Idle(), Idle()
        pool._all.update(processes)  # type: ignore[arg-type]
        first.peer = "greedy"
        order: list[str] = []

        async def take(peer: str) -> None:
            await pool.take(Place(peer, 1))
            order.append(peer)

        takers = [asyncio.ensure_future(take(peer)) for peer in ("greedy", "other", "other")]
        await asyncio.sleep(0)
        for process in (second, first):
            pool.give_back(process)  # type: ignore[arg-type]
            await asyncio.sleep(0)
        assert order == ["other", "greedy"]
        takers[2].cancel()
        await asyncio.gather(*takers, return_exceptions=True)

    asyncio.run(work())


def test_many_connections_of_an_address_do_not_take_all_turns() -> None:
    """With one process, an address that had a turn comes behind the others, also where it was the
    first and did not wait for it.
    """

    async def work() -> None:
        pool = ComputePool(0, ())
        process: Any = Idle()
        pool._all.add(process)
        pool._idle.append(process)
        order: list[str] = []

        async def take(peer: str) -> None:
            await pool.take(Place(peer, 1))
            order.append(peer)

        await take("many:0")
        peers = ("many:1", "one:1", "many:2", "one:2", "many:3")
        takers = [asyncio.ensure_future(take(peer)) for peer in peers]
        await asyncio.sleep(0)
        for _ in peers:
            pool.give_back(process)
            await asyncio.sleep(0)
        await asyncio.gather(*takers)
        assert order == ["many:0", "one:1", "many:1", "one:2", "many:2", "many:3"]

    asyncio.run(work())


# --- Processes that end ---


def test_a_process_that_dies_while_idle_is_replaced_before_the_next_request() -> None:
    with running("moving") as service:
        (before,) = service.server.process_ids()
        os.kill(before, signal.SIGKILL)
        wait_until(
            lambda: set(service.server.process_ids()) not in (set(), {before}), "another one is up"
        )
        assert service.compute(message()).gangs[0].placed


def test_no_process_outlives_the_server() -> None:
    with running("stubborn") as service:
        call = service.stream(message(open_snapshot(), time_limit=500.0), timeout=500.0)
        next(call)
        processes = (*service.server.process_ids(), *solver_ids(service))
    assert len(processes) == 2
    wait_until(lambda: not any(map(is_running, processes)), "all have ended")


def test_many_callers_at_once_are_answered_or_told_to_come_back() -> None:
    with running("moving", max_concurrent=1, max_pending=4) as service:
        stub = PlacementServiceStub(service.channel)
        question: ComputePlacementRequest = message()
        calls = [stub.ComputePlacement.future(question, timeout=LONG) for _ in range(60)]
        codes = [call.code() for call in calls]
        assert set(codes) <= {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert codes.count(grpc.StatusCode.OK) >= 5


def test_of_thousands_of_calls_at_once_each_is_told_why_it_is_refused() -> None:
    """gRPC would cancel some of them, of any caller."""
    with running("moving", max_concurrent=1, max_pending=4) as service, ExitStack() as open_ones:
        channels = [open_ones.enter_context(connection(service)) for _ in range(60)]
        calls = [
            one.unary_unary(COMPUTE, bytes, bytes).future(b"", timeout=LONG)
            for one in channels
            for _ in range(60)
        ]
        codes = {call.code() for call in calls}
        assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}


def test_large_requests_leave_no_memory_behind() -> None:
    """Twenty at once, of which some are refused; errors keep none of them."""
    size = 20_000_000
    length = bytes((size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128, size >> 21))
    label = bytes((7 << 3 | 2,)) + length + b"x" * size
    with running("moving", max_pending=2) as service:
        before = resident_bytes()
        call = service.channel.unary_unary(COMPUTE, bytes, bytes)
        calls = [call.future(label, timeout=LONG) for _ in range(20)]
        codes = {one.code() for one in calls}
        assert codes <= {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED}
        del calls, call
        wait_until(lambda: resident_bytes() < before + 150 * 2**20, "memory is back")


def resident_bytes() -> int:
    """Of this process, in which the server runs."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024
