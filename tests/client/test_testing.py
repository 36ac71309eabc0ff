"""The servers that we ship for the tests of others."""

from __future__ import annotations

import grpc
import pytest

from placement.client import PlacementClient
from placement.errors import BusyError, PlacementError
from placement.testing import Script, scripted_server, serve
from placement.v1 import (
    ClusterSnapshot,
    ComputePlacementRequest,
    Placement,
    Progress,
    TerminationReason,
)
from tests.waiting import LONG

REQUEST = ComputePlacementRequest(snapshot=ClusterSnapshot(revision="7"))


def test_a_script_is_answered_call_by_call() -> None:
    script: Script = [Placement(revision="1"), BusyError("later"), Placement(revision="2")]
    with scripted_server(script) as server, PlacementClient(server.address) as client:
        assert client.compute(REQUEST).revision == "1"
        with pytest.raises(BusyError, match="later"):
            client.compute(REQUEST)
        assert [e.revision for e in client.stream(REQUEST) if isinstance(e, Placement)] == ["2"]
        assert len(server.calls) == 3


def test_a_script_may_be_a_function_of_the_request() -> None:
    with (
        scripted_server(lambda request: Placement(label=request.label)) as server,
        PlacementClient(server.address) as client,
    ):
        for label in ("first", "second"):
            assert client.compute(ComputePlacementRequest(label=label)).label == label


def test_a_call_beyond_the_script_fails_and_says_so() -> None:
    with scripted_server([]) as server, PlacementClient(server.address) as client:
        with pytest.raises(PlacementError, match="the script has no answer for call 1") as caught:
            client.compute(REQUEST)
        assert caught.value.code is grpc.StatusCode.FAILED_PRECONDITION


def test_compute_skips_the_progress_of_a_script() -> None:
    script: Script = [[Progress(phase="greedy"), Placement(revision="1")]]
    with scripted_server(script) as server, PlacementClient(server.address) as client:
        assert client.compute(REQUEST).revision == "1"


def test_compute_fails_when_the_script_never_places() -> None:
    with (
        scripted_server([Progress(phase="greedy")]) as server,
        PlacementClient(server.address) as client,
        pytest.raises(PlacementError, match="holds no placement"),
    ):
        client.compute(REQUEST)


def test_two_servers_run_at_once() -> None:
    with scripted_server([Placement()]) as one, scripted_server([Placement()]) as other:
        assert one.address != other.address


def test_serve_runs_the_real_service() -> None:
    """Nothing is asked, so the empty plan is proven."""
    with serve(default_time_limit=LONG) as address, PlacementClient(address) as client:
        placement = client.compute(REQUEST)
    assert placement.revision == "7"
    assert placement.termination.reason == TerminationReason.TERMINATION_REASON_OPTIMAL
