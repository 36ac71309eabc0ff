"""Sessions over real gRPC: what has changed is enough, and nothing is lost with a session."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from placement.v1 import (
    ClusterSnapshot,
    ComputePlacementRequest,
    ExplainGangRequest,
    Node,
    Placement,
    Resources,
    SnapshotBase,
    StreamPlacementRequest,
)
from placement.v1.planning_pb2_grpc import PlanningServiceStub
from placement_service.api.wire.requests import parse_request, request_to_proto
from tests.service.api.serving import Running, details, running
from tests.service.questions import GPU, message, open_snapshot, request
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running("placement_service.search.engine:search", max_concurrent=1) as one:
        yield one


def whole(*used: int) -> ComputePlacementRequest:
    """Nodes of eight GPUs, so many of which are used, and a gang of two pods of four each."""
    there = message()
    there.snapshot.ClearField("nodes")
    there.snapshot.nodes.extend(node(i, n) for i, n in enumerate(used))
    return there


def node(i: int, used: int) -> Node:
    requested = Resources(extended={GPU: used}) if used else None
    allocatable = Resources(extended={GPU: 8}, pod_count=110)
    return Node(name=f"nodes/n{i}", allocatable=allocatable, requested=requested)


def since(before: Placement, *changed: Node, gone: tuple[str, ...] = ()) -> ComputePlacementRequest:
    there = whole()
    there.snapshot.nodes.extend(changed)
    there.base.MergeFrom(SnapshotBase(digest=before.snapshot_digest, gone_nodes=gone))
    return there


def where(placement: Placement) -> list[str]:
    return [binding.node for binding in placement.bindings]


def count(service: Running, how: str) -> float:
    """The requests whose snapshot came that way."""
    metric = service.server._edge._metrics.snapshots.labels(how)
    return float(metric._value.get())


def test_what_has_changed_is_enough(service: Running) -> None:
    held = count(service, "held")
    first = service.compute(whole(0, 0, 0))
    second = service.compute(since(first, node(0, 8), node(3, 4), gone=("nodes/n1",)))
    direct = service.compute(
        ComputePlacementRequest(
            snapshot=ClusterSnapshot(nodes=[node(3, 4), node(2, 0), node(0, 8)]),
            gangs=whole().gangs,
        )
    )
    assert where(second) == where(direct) != where(first)
    assert second.snapshot_digest == direct.snapshot_digest != first.snapshot_digest
    assert list(second.tiers) == list(direct.tiers)
    assert count(service, "held") == held + 1
    # A version never changes: it can be asked about again.
    again = service.compute(since(first))
    assert (where(again), again.snapshot_digest) == (where(first), first.snapshot_digest)


def test_a_question_has_one_digest_however_it_was_sent(service: Running) -> None:
    first = service.compute(whole(0, 0, 0))
    told = service.compute(since(first, node(0, 8), gone=("nodes/n1",)))
    whole_one = whole(8, 0, 0)
    del whole_one.snapshot.nodes[1]
    whole_one.snapshot.nodes.reverse()
    assert service.compute(whole_one).request_digest == told.request_digest
    asked = ExplainGangRequest(question=since(first), gang=whole().gangs[0].name)
    stub = PlanningServiceStub(service.channel)
    assert stub.ExplainGang(asked, timeout=60).request_digest == first.request_digest
    # Also where a change says nothing of a snapshot.
    bare = ComputePlacementRequest(gangs=whole().gangs)
    bare.base.digest = first.snapshot_digest
    direct = ComputePlacementRequest(gangs=whole().gangs)
    direct.snapshot.nodes.extend(whole(0, 0, 0).snapshot.nodes)
    assert service.compute(bare).request_digest == service.compute(direct).request_digest
    others = [since(first), since(first), since(first, node(0, 1))]
    others[0].label = "another"
    others[1].policy.deterministic = True
    digests = {service.compute(other).request_digest for other in others}
    assert len(digests | {first.request_digest, told.request_digest}) == 5


def test_a_stream_has_sessions_too(service: Running) -> None:
    first = service.compute(whole(0, 0, 0))
    there = since(first, node(0, 8))
    *_, last = service.stub.StreamPlacement(StreamPlacementRequest(request=there), timeout=60)
    assert "nodes/n0" not in where(last.placement)
    assert last.placement.snapshot_digest == service.compute(there).snapshot_digest


def test_a_process_that_dies_loses_nothing(service: Running) -> None:
    first = service.compute(whole(0, 0, 0))
    second = service.compute(since(first, node(0, 8)))
    told = count(service, "told")
    (pid,) = service.server.process_ids()
    os.killpg(pid, signal.SIGKILL)
    wait_until(lambda: service.server.process_ids() not in ((), (pid,)), "another process")
    third = service.compute(since(second, node(1, 8)))
    assert set(where(third)) == {"nodes/n2"}
    assert count(service, "told") == told + 1


@pytest.mark.parametrize("digest", ["", "nonsense", "sha256:" + "0" * 64, "x" * 10_000])
def test_a_base_that_is_not_kept_is_unknown_at_once(service: Running, digest: str) -> None:
    unknown = count(service, "unknown")
    there = ComputePlacementRequest(base=SnapshotBase(digest=digest))
    with pytest.raises(grpc.RpcError) as error:
        service.compute(there)
    assert isinstance(error.value, grpc.Call)
    assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert details(error.value)["ErrorInfo"].reason == "SNAPSHOT_UNKNOWN"
    assert count(service, "unknown") == unknown + 1


def test_a_change_that_is_refused_leaves_the_base_as_it_is(service: Running) -> None:
    first = service.compute(whole(0, 0, 0))
    for there in (since(first, gone=("nodes/x",)), since(first, Node(name="x"))):
        with pytest.raises(grpc.RpcError) as error:
            service.compute(there)
        assert details(error.value)["ErrorInfo"].reason == "INVALID_REQUEST"
    assert service.compute(since(first)).snapshot_digest == first.snapshot_digest


def test_memory_is_bounded_and_what_went_is_unknown() -> None:
    with running(snapshot_bytes=4_000) as small:
        first = small.compute(whole(0, 0))
        for i in range(8):
            small.compute(whole(i, *range(8)))
            small.compute(whole(*[i] * 5))
        kept = small.server._edge._snapshots
        assert 0 < kept.bytes <= 4_000
        with pytest.raises(grpc.RpcError) as error:
            small.compute(since(first))
        assert details(error.value)["ErrorInfo"].reason == "SNAPSHOT_UNKNOWN"


def test_a_dump_of_changes_holds_the_whole(tmp_path: Path) -> None:
    question = request_to_proto(request(open_snapshot(2, pods=3)))
    with running("overfilling", dump_dir=tmp_path / "dumps") as service:
        changes = ComputePlacementRequest()
        changes.CopyFrom(question)
        question.validate_only = True
        first = service.compute(question)
        del changes.snapshot.nodes[:]
        changes.base.digest = first.snapshot_digest
        answer = service.compute(changes)
        wait_until(lambda: bool(list((tmp_path / "dumps").glob("2*.binpb"))), "a dump is there")
    (dump,) = (tmp_path / "dumps").glob("*[0-9a-f].binpb")
    digits = answer.request_digest.removeprefix("sha256:")
    assert dump.stem.endswith(f"-{digits[:16]}")
    replayed = ComputePlacementRequest.FromString(dump.read_bytes())
    assert parse_request(replayed) == request(open_snapshot(2, pods=3))
