"""The controller's questions: only what has changed in the cluster is sent."""

from __future__ import annotations

import pytest

from controller.asking.service_client import ServiceClient
from placement.errors import InvalidRequestError, SnapshotUnknownError, Violation
from placement.testing import Event, scripted_server
from placement.v1 import ClusterSnapshot, ComputePlacementRequest, Node, Placement, PodGang
from tests.waiting import LONG


def request(*names: str, closed: bool = False) -> ComputePlacementRequest:
    nodes = [Node(name=f"nodes/{name}", unschedulable=closed) for name in names]
    snapshot = ClusterSnapshot(revision="7", nodes=nodes)
    return ComputePlacementRequest(snapshot=snapshot, gangs=[PodGang(name="g")])


def test_each_cycle_sends_what_has_changed_since_the_last() -> None:
    answers: list[Event] = [
        Placement(snapshot_digest="D1"),
        SnapshotUnknownError(),
        Placement(revision="3"),
    ]
    with scripted_server(answers) as server:
        service = ServiceClient(server.address)
        service.ask(request("a", "b"), timeout=LONG)
        assert service.ask(request("a", "c"), timeout=LONG) == answers[-1]
        service.cancel()
    first, second, third = (call.request for call in server.calls)
    assert first == request("a", "b")
    assert (second.base.digest, list(second.base.gone_nodes)) == ("D1", ["nodes/b"])
    assert second.snapshot == request("c").snapshot
    assert sorted(n.name for n in third.snapshot.nodes) == ["nodes/a", "nodes/c"]
    assert not third.HasField("base")


def test_faults_are_told_by_their_places_in_the_request() -> None:
    fault = InvalidRequestError("", violations=[Violation("snapshot.nodes[2].labels", "is wrong")])
    with scripted_server([Placement(snapshot_digest="D1"), fault, fault]) as server:
        service = ServiceClient(server.address)
        service.ask(request("a", "b"), timeout=LONG)
        with pytest.raises(InvalidRequestError) as found:
            service.ask(request("a", "b", "c"), timeout=LONG)
        service.cancel()
    assert found.value.violations == fault.violations
    assert server.calls[-1].request == request("a", "b", "c")
