"""The outer fields of messages: as protobuf reads them, whatever the bytes are."""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from placement.v1 import (
    ComputePlacementRequest,
    ComputePlacementResponse,
    Placement,
    StreamPlacementRequest,
    placement_pb2,
)
from placement_service.api import envelope
from placement_service.api.methods import Call, methods
from placement_service.entities.errors import InvalidRequest
from tests.service.questions import message

METHODS = {method.call: method for method in methods()}
COMPUTE = METHODS[Call.COMPUTE_PLACEMENT]
STREAM = METHODS[Call.STREAM_PLACEMENT]


def header(content: bytes) -> envelope.Header:
    return asyncio.run(
        envelope.read_header(
            memoryview(content), time_limit=COMPUTE.time_limit, label=COMPUTE.label
        )
    )


def test_the_header_of_a_request() -> None:
    found = header(message(time_limit=2.5).SerializeToString())
    assert (found.time_limit, found.label) == (2.5, "test")
    assert header(b"") == envelope.Header(None, "", None)


def test_fields_that_come_twice_are_merged_as_protobuf_does() -> None:
    first, second = (message(time_limit=limit) for limit in (2.0, 0.25))
    second.label = "second"
    content = first.SerializeToString() + second.SerializeToString()
    merged = ComputePlacementRequest.FromString(content)
    found = header(content)
    assert (found.time_limit, found.label) == (2.25, "second")
    assert merged.time_limit.ToMilliseconds() == 2250


def test_the_request_in_a_stream_and_also_when_it_comes_in_parts() -> None:
    part = message().SerializeToString()
    once = StreamPlacementRequest(request=message()).SerializeToString()
    for content, want in ((once, part), (once + once, part + part), (b"", b"")):
        found = asyncio.run(envelope.unwrapped(memoryview(content), STREAM.inner))
        assert bytes(found) == want


def test_an_answer_is_amended_without_being_read() -> None:
    answer = ComputePlacementResponse(
        placement=Placement(
            revision="7",
            stats=placement_pb2.SolveStats(engine="e" * 300),
            termination=placement_pb2.Termination(
                limit=placement_pb2.TERMINATION_LIMIT_TIME, gap=0.5
            ),
        )
    )
    change = Placement(
        termination=placement_pb2.Termination(
            limit=placement_pb2.TERMINATION_LIMIT_SOLVER_LOST, detail="x" * 200
        )
    )
    content = envelope.amended(answer.SerializeToString(), COMPUTE.placement, change)
    answer.placement.MergeFrom(change)
    assert ComputePlacementResponse.FromString(content) == answer
    assert answer.placement.termination.gap == 0.5


def test_many_small_fields_do_not_hold_up_others() -> None:
    async def work() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        await envelope.read_header(memoryview(b"\x2a\x00" * 200_000), time_limit=4, label=7)
        task.cancel()
        return turns

    assert asyncio.run(work()) > 10


def test_a_field_that_comes_too_often_is_refused_before_it_fills_the_memory() -> None:
    """Each part that is kept costs a hundred times its bytes."""
    content = b"\x3a\x00" * 1_000_000
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match="more than 20,000 times"):
            header(content)
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    finally:
        tracemalloc.stop()


def test_parts_of_parts_are_counted_together() -> None:
    part = b"\x0a\x00" * 15_000
    wrapped = envelope.wrapped(part, 3)
    for content, is_read in ((wrapped, True), (wrapped * 2, False)):
        with contextlib.nullcontext() if is_read else pytest.raises(InvalidRequest):
            asyncio.run(envelope.read_header(memoryview(content), time_limit=4, label=7, base=3))


def test_only_some_fields_are_kept_and_in_order() -> None:
    there = ComputePlacementRequest()
    there.gangs.add(name="a")
    there.label = "x" * 130
    content = there.SerializeToString() * 25_000
    both = asyncio.run(envelope.only(memoryview(content), 2, 7))
    assert ComputePlacementRequest.FromString(both) == ComputePlacementRequest.FromString(content)
    gangs = asyncio.run(envelope.only(memoryview(content), 2))
    there.ClearField("label")
    assert gangs == there.SerializeToString() * 25_000


WHOLE = message().SerializeToString()


@given(
    st.one_of(
        st.binary(max_size=60),
        st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)).map(
            lambda change: WHOLE[: change[0]] + bytes((change[1],)) + WHOLE[change[0] + 1 :]
        ),
        st.integers(0, len(WHOLE)).map(lambda size: WHOLE[:size]),
    )
)
def test_whatever_protobuf_reads_is_read_alike(content: bytes) -> None:
    """The edge may let nonsense pass that is further inside, and nothing else."""
    found = None
    with contextlib.suppress(InvalidRequest):
        found = header(content)
    try:
        whole = ComputePlacementRequest.FromString(content)
    except DecodeError:
        return
    if found is None:
        # Groups, which no message of ours ever had.
        assert any(byte & 7 in (3, 4) for byte in content)
        return
    assert found.label == whole.label
    assert (found.time_limit is not None) == whole.HasField("time_limit")
    if found.time_limit is not None:
        limit = whole.time_limit
        assert found.time_limit == pytest.approx(limit.seconds + limit.nanos / 1e9)
