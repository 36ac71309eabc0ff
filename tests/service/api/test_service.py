"""The service over real gRPC, on a free port, with real solver processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status

from placement.client import PlacementClient
from placement.errors import InvalidRequestError
from placement.v1 import (
    ComputePlacementRequest,
    ExplainGangRequest,
    ExplainGangResponse,
    Placement,
    SteerPlanningRequest,
    StreamPlacementRequest,
    placement_pb2,
)
from placement.v1.placement_service_pb2_grpc import PlacementServiceStub
from placement_service.api.server import Server, make_server
from placement_service.api.settings import Settings
from placement_service.api.wire.placements import parse_placement
from placement_service.api.wire.requests import parse_request, request_to_proto
from placement_service.entities.request import Request
from placement_service.entities.solution import TierName
from placement_service.judge.verify import verify
from tests.service.engines import MEETING
from tests.service.questions import gang, message, open_snapshot, request, snapshot
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


@pytest.fixture
def meeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which engines of that name meet (see `engines`)."""
    folder = tmp_path / "meeting"
    folder.mkdir()
    monkeypatch.setenv(MEETING, str(folder))
    return folder


@pytest.fixture(scope="module")
def usual() -> Iterator[Running]:
    with running("placement_service.search.engine:search") as service:
        yield service


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


# --- Answers ---


def test_a_question_is_answered(usual: Running) -> None:
    question = request()
    placement = usual.compute(request_to_proto(question))
    assert verify(question.snapshot, question.policy, parse_placement(placement).bindings) == ()
    assert [b.pod for b in placement.bindings] == [
        "namespaces/ml/pods/train-0",
        "namespaces/ml/pods/train-1",
    ]
    assert [b.uid for b in placement.bindings] == ["uid-train-0", "uid-train-1"]
    assert placement.revision == "7"
    assert placement.label == "test"
    assert placement.gangs[0].placed
    assert placement.termination.reason == placement_pb2.TERMINATION_REASON_OPTIMAL
    assert [t.name for t in placement.tiers] == [t.value for t in TierName]
    assert "placement_service.search.engine:search" in placement.stats.engine


def test_a_stream_is_progress_and_then_one_placement(usual: Running) -> None:
    *others, last = usual.stream(message())
    assert last.placement.bindings == usual.compute(message()).bindings
    # A slow reader gets the latest news, and maybe none before the last.
    assert {event.WhichOneof("event") for event in others} <= {"progress"}


def test_progress_is_verified_answers_with_time(meeting: Path) -> None:
    with running("meeting") as service:
        call = service.stream(message(open_snapshot()))
        first = next(call).progress
        assert first.phase == "greedy"
        assert first.placed_gang_count == 1
        assert first.elapsed.ToNanoseconds() > 0
        (meeting / "go on").touch()
        *_, last = call
        assert nodes_of(last.placement) == {"nodes/n2"}


def test_an_empty_request_gets_an_empty_answer(usual: Running) -> None:
    placement = usual.compute(ComputePlacementRequest())
    assert not placement.bindings
    assert placement.termination.reason == placement_pb2.TERMINATION_REASON_OPTIMAL


def test_a_request_that_is_only_checked_is_not_computed(usual: Running) -> None:
    there = message()
    there.validate_only = True
    placement = usual.compute(there)
    assert placement == Placement(
        revision="7",
        label="test",
        request_digest=placement.request_digest,
        snapshot_digest=placement.snapshot_digest,
    )


def test_two_calls_at_once_are_both_answered(meeting: Path) -> None:
    """Neither would be, if one waited for the other."""
    with running("meeting", max_concurrent=2) as service:
        calls = [
            service.stub.ComputePlacement.future(message(open_snapshot()), timeout=LONG)
            for _ in range(2)
        ]
        assert [nodes_of(call.result().placement) for call in calls] == [{"nodes/n2"}] * 2


def test_calls_beyond_the_concurrent_ones_wait_for_their_turn() -> None:
    with running("moving", max_concurrent=1) as service:
        calls = [
            service.stub.ComputePlacement.future(message(open_snapshot()), timeout=LONG)
            for _ in range(5)
        ]
        assert all(call.result().placement.gangs[0].placed for call in calls)


# --- Time ---


def test_the_answer_leaves_by_the_time_limit() -> None:
    with running("stubborn") as service:
        for seconds in EVER_MORE:
            placement = service.compute(message(open_snapshot(), time_limit=seconds))
            assert placement.termination.limit == placement_pb2.TERMINATION_LIMIT_TIME
            if nodes_of(placement) == {"nodes/n2"}:
                return
    raise AssertionError("not the best one reported")


def test_the_answer_leaves_before_the_calls_deadline() -> None:
    """The call would fail otherwise; its time limit is far away."""
    question = message(open_snapshot(), time_limit=500.0)
    # The margin is a tenth of the time, so that more time forgives more.
    with running("stubborn", deadline_margin=LONG) as service:
        for seconds in EVER_MORE:
            with suppress(grpc.RpcError):
                limit = service.compute(question, timeout=seconds).termination.limit
                assert limit == placement_pb2.TERMINATION_LIMIT_TIME
                return
    raise AssertionError("no answer in time")


def test_a_call_that_is_told_to_finish_answers_with_the_best_it_has() -> None:
    """The stubborn engine reports something better, then goes on for minutes."""
    question = request(open_snapshot(), time_limit=LONG)
    with running("stubborn", max_time_limit=LONG) as service:
        with PlacementClient(service.channel, timeout=LONG) as client:
            events = client.steer(request_to_proto(question))
            next(events)
            events.finish()
            *_, last = events
        assert isinstance(last, Placement)
        assert last.termination.detail == "The search was told to end."
        assert last.gangs[0].placed
        bindings = parse_placement(last).bindings
        assert verify(question.snapshot, question.policy, bindings) == ()
        assert last.stats.elapsed.ToMilliseconds() < LONG * 500


@pytest.mark.parametrize("planned", [False, True])
def test_a_question_of_planning_that_is_told_to_finish_answers_with_what_it_has(
    planned: bool,
) -> None:
    """The stubborn engine is asked for the plan first, and where that is known for a remedy."""
    question = request_to_proto(request(open_snapshot(), time_limit=None))
    asked = ExplainGangRequest(question=question, gang="namespaces/ml/podgangs/train")
    asked.time_limit.seconds = int(LONG)
    if planned:
        asked.plan.SetInParent()
    with (
        running("stubborn", max_time_limit=LONG) as service,
        PlacementClient(service.channel, timeout=LONG) as client,
    ):
        events = client.steer_explain(asked)
        next(events)
        events.finish()
        *_, last = events
    assert isinstance(last, ExplainGangResponse)
    assert last.HasField("elapsed") == planned
    assert not last.remedies
    assert len(last.placement.gangs) == (0 if planned else 2)
    assert last.snapshot_digest


def test_a_step_of_planning_that_asks_nothing_is_a_mistake(usual: Running) -> None:
    with PlacementClient(usual.channel, timeout=LONG) as client:
        events = client._steered(SteerPlanningRequest(), None)
        with pytest.raises(InvalidRequestError, match="it asks nothing"):
            next(events)


def test_the_server_has_a_time_limit_of_its_own_and_cuts_longer_ones() -> None:
    """The patient engine takes all the time that it is given."""
    with running("patient", default_time_limit=0.5, max_time_limit=1.0) as service:
        for time_limit, cut in ((None, 0.5), (500.0, 1.0)):
            placement = service.compute(message(open_snapshot(), time_limit=time_limit))
            assert placement.gangs[0].placed
            assert placement.stats.elapsed.ToMilliseconds() > cut * 300


def test_a_deadline_before_the_first_answer_is_an_error_with_its_reason() -> None:
    """The only turn is taken, so the call waits until its deadline."""
    with running("stubborn", deadline_margin=LONG) as service:
        first = service.stream(message(open_snapshot(), time_limit=500.0), timeout=500.0)
        next(first)
        for seconds in EVER_MORE:
            with pytest.raises(grpc.RpcError) as caught:
                service.compute(message(open_snapshot()), timeout=seconds)
            assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            assert isinstance(caught.value, grpc.Call)
            # Without details it is the client's own, which was not told in time.
            if rpc_status.from_call(caught.value) is not None:
                break
        info = details(caught.value)["ErrorInfo"]
        assert info.reason == "DEADLINE_TOO_SHORT"
        assert int(info.metadata["elapsed_ms"]) > 0
        first.cancel()


@pytest.mark.parametrize("kind", ["unary", "stream"])
def test_a_cancelled_call_frees_its_turn_and_its_solver(kind: str) -> None:
    with running("stubborn", max_concurrent=1, max_pending=0) as service:
        (before,) = solver_ids(service)
        there = message(open_snapshot(), time_limit=500.0)
        if kind == "stream":
            call = service.stream(there, timeout=500.0)
            while next(call).progress.phase != "moved":
                pass
        else:
            call = service.stub.ComputePlacement.future(there, timeout=500.0)
        wait_until_searching(service)
        assert is_busy(service)
        call.cancel()
        wait_until(lambda: not is_busy(service), "the turn is free")
        if kind == "stream":  # Else it may not have been asked yet.
            wait_until(lambda: before not in solver_ids(service), "the solver is gone")
        assert service.compute(message(open_snapshot(), time_limit=1.0)).gangs[0].placed


def test_a_caller_whose_deadline_passes_frees_its_turn_while_waiting() -> None:
    with running("stubborn", max_concurrent=1, max_pending=1) as service:
        first = service.stream(message(open_snapshot(), time_limit=500.0), timeout=500.0)
        next(first)
        with pytest.raises(grpc.RpcError):
            service.compute(message(open_snapshot()), timeout=0.5)
        waiting = service.stub.ComputePlacement.future(
            message(open_snapshot(), time_limit=1.0), timeout=LONG
        )
        first.cancel()
        assert waiting.result().placement.gangs[0].placed


def is_busy(service: Running) -> bool:
    reason = ""
    try:
        service.compute(request_to_proto(Request(snapshot(), validate_only=True)))
    except grpc.RpcError as error:
        reason = details(error)["ErrorInfo"].reason
    return reason == "BUSY"


# --- The solver ---


def test_kill_9_of_the_solver_still_yields_a_verified_answer_in_time() -> None:
    question = request(open_snapshot(), time_limit=500.0)
    with running("frozen") as service:
        call = service.stream(request_to_proto(question), timeout=500.0)
        assert next(call).progress.phase == "greedy"
        wait_until_searching(service)
        (before,) = solver_ids(service)
        os.kill(before, signal.SIGKILL)
        *_, last = call
        assert last.placement.termination.limit == placement_pb2.TERMINATION_LIMIT_SOLVER_LOST
        assert last.placement.gangs[0].placed
        assert (
            verify(question.snapshot, question.policy, parse_placement(last.placement).bindings)
            == ()
        )
        wait_until(lambda: bool(set(solver_ids(service)) - {before}), "a new solver is there")


def test_a_plan_that_breaks_rules_is_dumped_and_never_sent(tmp_path: Path) -> None:
    question = request(open_snapshot(2, pods=3))
    with running("overfilling", dump_dir=tmp_path / "dumps") as service:
        placement = service.compute(request_to_proto(question))
        assert len(placement.bindings) == 3
        assert verify(question.snapshot, question.policy, parse_placement(placement).bindings) == ()
        assert placement.termination.reason == placement_pb2.TERMINATION_REASON_FEASIBLE
        wait_until(lambda: bool(list((tmp_path / "dumps").glob("*.binpb"))), "a dump is there")
    (dump,) = (tmp_path / "dumps").glob("*[0-9a-f].binpb")
    replayed = ComputePlacementRequest.FromString(dump.read_bytes())
    assert parse_request(replayed) == question


def test_an_engine_that_raises_is_a_defect_and_the_first_answer_stands(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running("failing") as service:
        assert service.compute(message(open_snapshot())).gangs[0].placed
    assert "a defect of the engine" in caplog.text


def test_an_engine_that_cannot_be_loaded_leaves_the_first_answer() -> None:
    server = make_server(Settings(host="127.0.0.1", port=0, engine="json:no_such_function"))
    try:
        with grpc.insecure_channel(f"127.0.0.1:{server.start()}") as channel:
            question = message(open_snapshot(), time_limit=500.0)
            placement = Running(server, channel).compute(question)
    finally:
        server.stop(0)
    assert placement.gangs[0].placed
    assert placement.termination.limit == placement_pb2.TERMINATION_LIMIT_SOLVER_LOST


# --- Errors ---


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


# --- Around the service ---


def health(service: Running, name: str = "") -> str:
    stub = health_pb2_grpc.HealthStub(service.channel)
    status = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=LONG).status
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(status))


@pytest.mark.parametrize("name", ["", "placement.v1.PlacementService"])
def test_health_is_served(usual: Running, name: str) -> None:
    wait_until(lambda: health(usual, name) == "SERVING", "a process is loaded")


def test_reflection_names_the_services(usual: Running) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(usual.channel)
    asked = reflection_pb2.ServerReflectionRequest(list_services="")
    (answer,) = stub.ServerReflectionInfo(iter([asked]), timeout=LONG)
    names = {service.name for service in answer.list_services_response.service}
    assert {"placement.v1.PlacementService", "grpc.health.v1.Health"} <= names


def test_a_port_that_is_taken_is_an_error(usual: Running) -> None:
    second = make_server(Settings(host="127.0.0.1", port=usual.port))
    try:
        with pytest.raises(RuntimeError, match="cannot listen on 127"):
            second.start()
    finally:
        second.stop(0)


def environment() -> dict[str, str]:
    """That of a program that finds our modules, and no settings."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PLACEMENT_")}
    return {**ours, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@contextmanager
def program() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The service as people run it, once it serves, and its port."""
    with subprocess.Popen(
        [sys.executable, "-m", "placement_service"],
        stderr=subprocess.PIPE,
        env={
            **environment(),
            "PLACEMENT_PORT": "0",
            "PLACEMENT_LOG_FORMAT": "json",
            "PLACEMENT_ENGINE": "tests.service.engines:meeting",
        },
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            line = json.loads(process.stderr.readline())
            assert line["severity"] == "INFO"
            yield process, line["message"].rpartition(":")[2]
        finally:
            process.kill()


def test_the_program_serves_until_sigterm_and_then_drains(meeting: Path) -> None:
    with program() as (process, port):
        assert process.stderr is not None
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = PlacementServiceStub(channel)
            call = stub.StreamPlacement(
                StreamPlacementRequest(request=message(open_snapshot())), timeout=LONG
            )
            assert next(call).WhichOneof("event") == "progress"
            process.send_signal(signal.SIGTERM)
            assert any("draining" in json.loads(line)["message"] for line in process.stderr)
            (meeting / "go on").touch()
            *_, last = call
            assert nodes_of(last.placement) == {"nodes/n2"}
        assert process.wait(LONG) == 0


def test_the_program_ends_also_when_it_was_told_while_it_stood_still() -> None:
    """Any thread may take the signal then."""
    with program() as (process, _):
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        assert process.wait(LONG) == 0


@pytest.mark.parametrize(
    ("module", "name"),
    [("placement_service", "placement-service"), ("controller", "placement-controller")],
)
def test_the_programs_tell_their_version(module: str, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"],
        capture_output=True,
        check=True,
        env=environment(),
        text=True,
    )
    assert done.stdout == f"{name} {version('placement-service')}\n"


def test_wrong_settings_are_named_and_end_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "placement_service"],
        capture_output=True,
        check=False,
        env={**environment(), "PLACEMENT_PORT": "high", "PLACEMENT_TLS_CLIENTCA": "ca.pem"},
        text=True,
        timeout=LONG,
    )
    assert done.returncode == 1
    assert "PLACEMENT_PORT: " in done.stderr
    assert "PLACEMENT_TLS_CLIENTCA: no such setting; is it PLACEMENT_TLS_CLIENT_CA" in done.stderr
    assert "Traceback" not in done.stderr
