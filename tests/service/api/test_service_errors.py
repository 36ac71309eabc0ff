"""What the service tells callers when there is no answer, and what it saves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from placement.client import PlacementClient
from placement.errors import PlacementError
from placement.v1 import (
    placement_pb2,
)
from placement_service.api.wire.placements import parse_placement
from placement_service.api.wire.requests import request_to_proto
from placement_service.judge.verify import verify
from tests.service.api.serving import (
    Running,
    details,
    health,
    nodes_of,
    running,
    wait_until_searching,
)
from tests.service.questions import gang, message, open_snapshot, request, snapshot
from tests.waiting import LONG, wait_until


def test_a_request_wrong_in_five_ways_is_refused_naming_all_five(usual: Running) -> None:
    there = message()
    there.snapshot.nodes[1].name = "n1"
    there.snapshot.nodes[2].allocatable.cpu_millis = -1
    there.gangs[0].groups[0].min_replicas = -2
    there.gangs[0].packing_scopes.add(groups=["leader"])
    there.gangs[0].groups[0].pod_sets[0].template.host_ports.add(port=70000)
    for call in (usual.compute, lambda m: list(usual.stream(m))):
        with pytest.raises(grpc.RpcError) as caught:
            call(there)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        found = details(caught.value)
        assert found["ErrorInfo"].reason == "INVALID_REQUEST"
        assert dict(found["ErrorInfo"].metadata) == {"violation_count": "5"}
        assert {v.field for v in found["BadRequest"].field_violations} == {
            "snapshot.nodes[1].name",
            "snapshot.nodes[2].allocatable.cpu_millis",
            "gangs[0].groups[0].min_replicas",
            "gangs[0].packing_scopes[0].groups[0]",
            "gangs[0].groups[0].pod_sets[0].template.host_ports[0].port",
        }


def test_an_error_with_many_long_violations_still_arrives(usual: Running) -> None:
    """A plain client takes 8 KiB of trailers and loses the whole error beyond."""
    there = message()
    for _ in range(1000):
        there.gangs[0].groups[0].pod_sets[0].pods.add(name="\u00e9" * 500)
    with pytest.raises(grpc.RpcError) as caught:
        usual.compute(there)
    found = details(caught.value)
    assert found["ErrorInfo"].metadata["violation_count"] == "1000"
    assert len(found["BadRequest"].field_violations) > 10


def test_a_request_too_many_is_told_when_to_come_back() -> None:
    with running("stubborn", max_pending=0, retry_after=2.5) as service:
        first = service.stream(message(open_snapshot(), time_limit=500.0), timeout=500.0)
        next(first)
        with pytest.raises(grpc.RpcError) as caught:
            service.compute(message(open_snapshot()))
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        found = details(caught.value)
        assert found["ErrorInfo"].reason == "BUSY"
        assert found["ErrorInfo"].metadata["maximum_pending"] == "0"
        assert found["RetryInfo"].retry_delay.ToMilliseconds() == 2500
        first.cancel()


def test_a_draining_server_refuses_newcomers_and_finishes_the_rest(meeting: Path) -> None:
    with running("meeting") as service:
        first = service.stream(message(open_snapshot()))
        next(first)
        stopping = threading.Thread(target=service.server.stop, args=(LONG,))
        stopping.start()
        wait_until(lambda: health(service) == "NOT_SERVING", "it drains")
        with pytest.raises(grpc.RpcError) as caught:
            service.compute(message(open_snapshot()))
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        assert details(caught.value)["ErrorInfo"].reason == "DRAINING"
        (meeting / "go on").touch()
        *_, last = first
        assert nodes_of(last.placement) == {"nodes/n2"}
        stopping.join(LONG)
        service.server.wait()


def test_who_is_computed_when_the_grace_ends_gets_the_best_so_far() -> None:
    """The stubborn engine reports something better, then goes on for minutes."""
    with running("stubborn", max_time_limit=LONG) as service:
        question = message(open_snapshot())
        question.time_limit.FromSeconds(int(LONG))
        call = service.stream(question)
        assert any(one.progress.phase == "moved" for one in call)
        service.server.stop(2.0)
        *_, last = call
        assert nodes_of(last.placement) == {"nodes/n2"}


def test_a_process_that_dies_without_an_answer_is_an_internal_error_that_names_the_dump(
    tmp_path: Path,
) -> None:
    with running("moving", dump_dir=tmp_path) as service:
        (pid,) = service.server.process_ids()
        os.kill(pid, signal.SIGSTOP)
        call = service.stub.ComputePlacement.future(message(open_snapshot()), timeout=LONG)
        wait_until_searching(service)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(grpc.RpcError) as caught:
            call.result()
        assert caught.value.code() == grpc.StatusCode.INTERNAL
        info = details(caught.value)["ErrorInfo"]
        assert info.reason == "INTERNAL"
        dump = tmp_path / info.metadata["dump"]
        wait_until(dump.exists, "the dump is there")
        shown = subprocess.run(
            [sys.executable, "-m", "placement_service.api.dumps", str(dump)],
            capture_output=True,
            check=True,
        )
        assert json.loads(shown.stdout)["label"] == "test"
        assert service.compute(message(open_snapshot())).gangs[0].placed, (
            "another process took over"
        )


def test_a_process_that_dies_with_an_answer_is_survived_by_it() -> None:
    """It is the first answer here, because the engine kills the process that started it."""
    question = request(open_snapshot())
    with running("patricidal") as service:
        placement = service.compute(request_to_proto(question))
        assert placement.termination.limit == placement_pb2.TERMINATION_LIMIT_SOLVER_LOST
        assert placement.termination.reason == placement_pb2.TERMINATION_REASON_FEASIBLE
        assert placement.gangs[0].placed
        assert placement.gangs[1].reasons
        assert verify(question.snapshot, question.policy, parse_placement(placement).bindings) == ()


def test_bytes_that_are_no_message_are_an_invalid_request(
    usual: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for name in ("ComputePlacement", "StreamPlacement"):
        call = usual.channel.stream_stream(
            f"/placement.v1.PlacementService/{name}",
            request_serializer=bytes,
            response_deserializer=bytes,
        )
        for nonsense in (
            b"\xff" * 100,
            b"\x0a\xff\xff\xff\xff\x0f",
            b"\x12" * 99,
            b"\x03",
            b"\x02\x01a",
            b"\x3a\x02\xff\xff",
            b"\x0a\x04\x0a\x02\xff\xff",  # A snapshot of nonsense.
        ):
            if name == "StreamPlacement":
                nonsense = b"\x0a" + bytes((len(nonsense),)) + nonsense
            caplog.clear()
            with pytest.raises(grpc.RpcError) as caught:
                list(call(iter([nonsense]), timeout=LONG))
            assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT, nonsense
            (violation,) = details(caught.value)["BadRequest"].field_violations
            assert (violation.field, "no message" in violation.description) == ("request", True)
            assert len(caplog.records) == 1
            assert caplog.records[0].exc_info is None
    assert usual.compute(message()).gangs[0].placed


def test_a_call_without_a_message_is_an_invalid_request(usual: Running) -> None:
    call = usual.channel.stream_stream(
        "/placement.v1.PlacementService/ComputePlacement", bytes, bytes
    )
    with pytest.raises(grpc.RpcError) as caught:
        list(call(iter(()), timeout=LONG))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_what_callers_write_is_cut_and_escaped_in_the_log(
    usual: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    question = message()
    question.label = "two\nlines \x1b[31m" + "x" * 1000
    question.snapshot.revision = "r" * 1000
    with suppress(grpc.RpcError):
        usual.compute(question)
    for record in caplog.records:
        assert record.getMessage().isprintable()
        assert len(record.getMessage()) < 500


def test_an_answer_that_would_be_too_large_explains_less_or_is_refused(usual: Running) -> None:
    many = tuple(gang(f"huge-{i}", pods=1, gpus=9) for i in range(30))
    question = message(snapshot(1, (gang("train", pods=2, gpus=4), *many)))
    whole = usual.compute(question)
    most = whole.ByteSize() - 100
    # A request that just fits, and names each pod as its answer does.
    pods = message(snapshot(10, (gang("train", pods=1, gpus=1),)))
    there = pods.gangs[0].groups[0].pod_sets[0].pods
    while pods.ByteSize() < most - 100:
        there.add(name=f"{there[0].name}-{len(there)}")
    pods.gangs[0].groups[0].min_replicas = 1
    with running(max_message_bytes=most) as service:
        placement = service.compute(question)
        assert len(placement.bindings) == len(whole.bindings) == 2
        assert all(g.placed or len(g.reasons) == 1 for g in placement.gangs)
        with pytest.raises(grpc.RpcError) as caught:
            service.compute(pods)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        (violation,) = details(caught.value)["BadRequest"].field_violations
        assert "its answer takes" in violation.description
        with pytest.raises(grpc.RpcError) as caught:
            service.compute(message(snapshot(1000)))
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_request_of_the_largest_size_is_answered_and_beyond_it_the_setting_is_named() -> None:
    question = message(snapshot(50, (gang("train", pods=1, gpus=1),)))
    question.label = "x"
    with running(max_message_bytes=question.ByteSize()) as service:
        client = PlacementClient(service.channel)
        assert client.compute(question, timeout=LONG).bindings
        question.label = "xx"
        with pytest.raises(PlacementError, match="PLACEMENT_MAX_MESSAGE_BYTES") as refused:
            client.compute(question, timeout=LONG)
        assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
