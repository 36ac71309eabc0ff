"""Answers of the service over real gRPC, and their time."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status

from placement.client import PlacementClient
from placement.errors import InvalidRequestError
from placement.v1 import (
    ComputePlacementRequest,
    ExplainGangRequest,
    ExplainGangResponse,
    Finish,
    Placement,
    SteerPlacementRequest,
    SteerPlanningRequest,
    placement_pb2,
)
from placement.v1.planning_pb2_grpc import PlanningServiceStub
from placement_service.api.server import make_server
from placement_service.api.settings import Settings
from placement_service.api.wire.placements import parse_placement
from placement_service.api.wire.requests import parse_request, request_to_proto
from placement_service.entities.request import Request
from placement_service.entities.solution import TierName
from placement_service.judge.verify import verify
from tests.service.api.serving import (
    EVER_MORE,
    Running,
    details,
    health,
    nodes_of,
    running,
    solver_ids,
    wait_until_searching,
)
from tests.service.questions import message, open_snapshot, request, snapshot
from tests.waiting import LONG, wait_until

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


def test_a_request_that_begins_with_finish_asks_nothing(usual: Running) -> None:
    stub = PlanningServiceStub(usual.channel)
    with pytest.raises(grpc.RpcError, match="it asks nothing"):
        list(stub.SteerPlacement(iter([SteerPlacementRequest(finish=Finish())]), timeout=LONG))


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_question_of_planning_without_time_is_a_mistake(usual: Running, seconds: int) -> None:
    asked = ExplainGangRequest(question=message(), gang="namespaces/ml/podgangs/train")
    asked.time_limit.seconds = seconds
    with (
        PlacementClient(usual.channel, timeout=LONG) as client,
        pytest.raises(InvalidRequestError, match="time_limit: must be positive"),
    ):
        client.explain(asked)


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


# --- Around the service ---


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
