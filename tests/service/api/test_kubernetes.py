"""Kubernetes objects over real gRPC: what they stand for, where they go, what is wrong."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status

from placement.kubernetes import Objects, translate
from placement.kubernetes.v1 import (
    ObjectName,
    ObjectsBase,
    PlaceObjectsRequest,
    PlaceObjectsResponse,
    TranslateObjectsRequest,
)
from placement.kubernetes.v1.kubernetes_placement_service_pb2_grpc import (
    KubernetesPlacementServiceStub,
)
from placement_service.api import kubernetes
from placement_service.api.server import Server, make_server
from placement_service.api.settings import Settings
from placement_service.entities.errors import InvalidRequest, Violation
from tests.kubernetes.build import Body, gang, group, node, pod
from tests.waiting import LONG, wait_until

#: Two pods of one GPU each, that the last node has room for and the other has not.
OBJECTS: tuple[Body, ...] = (
    node("busy", allocatable={"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}),
    node("free"),
    pod("a"),
    pod("b"),
    gang("train", podgroups=[group("workers", "a", "b")]),
)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Server, grpc.Channel]]:
    server = make_server(Settings(host="127.0.0.1", port=0, engine="tests.service.engines:moving"))
    try:
        port = server.start()
        assert server.wait_until_warm(LONG)
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield server, channel
    finally:
        server.stop(0)


@pytest.fixture
def stub(server: tuple[Server, grpc.Channel]) -> Any:
    return KubernetesPlacementServiceStub(server[1])


def encoded(*bodies: Any) -> list[bytes]:
    return [json.dumps(body).encode() for body in bodies]


def violations(error: Any) -> dict[str, str]:
    """What the service found fault with, by field."""
    status = rpc_status.from_call(error)
    bad = error_details_pb2.BadRequest()
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        detail.Unpack(bad)
        detail.Unpack(info)
    assert (info.reason, info.domain) == ("INVALID_REQUEST", "placement.v1")
    return {one.field: one.description for one in bad.field_violations}


def test_a_gang_of_objects_is_placed(stub: Any) -> None:
    request = PlaceObjectsRequest(
        objects=encoded(*OBJECTS), revision="7", label="first", time_limit=Duration(seconds=5)
    )
    response: PlaceObjectsResponse = stub.PlaceObjects(request, timeout=LONG)
    placement = response.placement
    assert [(b.pod, b.node) for b in placement.bindings] == [
        ("namespaces/ml/pods/a", "nodes/free"),
        ("namespaces/ml/pods/b", "nodes/free"),
    ]
    assert (placement.revision, placement.label) == ("7", "first")
    assert placement.gangs[0].placed
    assert list(response.warnings) == []


def test_the_translation_is_that_of_the_library(stub: Any) -> None:
    response = stub.TranslateObjects(
        TranslateObjectsRequest(objects=encoded(*OBJECTS)), timeout=LONG
    )
    assert response.request == translate(Objects.of(OBJECTS)).request


def test_a_list_is_taken_apart_as_kubectl_writes_it(stub: Any) -> None:
    every = {"kind": "List", "apiVersion": "v1", "items": list(OBJECTS)}
    response = stub.TranslateObjects(TranslateObjectsRequest(objects=encoded(every)), timeout=LONG)
    assert response.request == translate(Objects.of(OBJECTS)).request


def test_objects_may_come_in_the_protobuf_encoding_of_kubernetes(stub: Any) -> None:
    metadata = b"\x0a\x06\x0a\x04free"
    content = b"k8s\x00\x0a\x0a\x0a\x02v1\x12\x04Node\x12\x08" + metadata
    found = stub.TranslateObjects(TranslateObjectsRequest(objects=[content]), timeout=LONG)
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "free"}}
    direct = stub.TranslateObjects(TranslateObjectsRequest(objects=encoded(bare)), timeout=LONG)
    assert found.request == direct.request


def test_other_kinds_are_skipped_with_a_warning(stub: Any) -> None:
    other = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}}
    request = PlaceObjectsRequest(objects=encoded(*OBJECTS, other))
    response = stub.PlaceObjects(request, timeout=LONG)
    assert len(response.placement.bindings) == 2
    assert "Secret" in response.warnings[0]


def test_every_problem_of_every_object_is_told_with_its_place(stub: Any) -> None:
    wrong_pod = pod("c", containers=[{"resources": {"requests": {"cpu": "many"}}}])
    wrong_gang = gang("other", podgroups=[{"name": "workers"}])
    request = PlaceObjectsRequest(objects=encoded(*OBJECTS, wrong_pod, wrong_gang))
    with pytest.raises(grpc.RpcError) as caught:
        stub.PlaceObjects(request, timeout=LONG)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    found = violations(caught.value)
    assert set(found) == {
        "objects[5].spec.containers[0].resources.requests[cpu]",
        "objects[6].spec.podgroups[0].minReplicas",
    }
    assert found["objects[6].spec.podgroups[0].minReplicas"] == "PodGang ml/other: is missing"


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param(b"", "not valid JSON", id="nothing"),
        pytest.param(b"{", "not valid JSON", id="half an object"),
        pytest.param(b"\xff\xfe{}", "UTF-8", id="not text"),
        pytest.param(b"[" * 100_000, "nested too deeply", id="a deep hole"),
        pytest.param(b'{"kind":"Pod","n":' + b"1" * 10_000 + b"}", "cannot be parsed", id="digits"),
        pytest.param(b'{"kind":"\\ud800"}', "half a character", id="half a character"),
        pytest.param(b"7", "is not a Kubernetes object", id="a number"),
        pytest.param(b"k8s\x00\n\xff\n\x02v1\x12\x03Pod", "is cut off", id="half a protobuf"),
    ],
)
def test_what_is_no_object_is_refused_by_its_index(stub: Any, content: bytes, want: str) -> None:
    request = TranslateObjectsRequest(objects=[*encoded(*OBJECTS), content])
    with pytest.raises(grpc.RpcError) as caught:
        stub.TranslateObjects(request, timeout=LONG)
    found = violations(caught.value)
    assert list(found) == ["objects[5]"]
    assert want in found["objects[5]"]


def test_what_the_service_finds_wrong_with_the_translation_is_told_too(stub: Any) -> None:
    request = PlaceObjectsRequest(objects=encoded(*OBJECTS), time_limit=Duration(seconds=-1))
    with pytest.raises(grpc.RpcError) as caught:
        stub.PlaceObjects(request, timeout=LONG)
    assert "time_limit" in violations(caught.value)


def test_reflection_tells_of_the_service(server: tuple[Server, grpc.Channel]) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(server[1])
    question = reflection_pb2.ServerReflectionRequest(list_services="")
    answer = next(iter(stub.ServerReflectionInfo(iter([question]), timeout=LONG)))
    assert "placement.kubernetes.v1.KubernetesPlacementService" in [
        one.name for one in answer.list_services_response.service
    ]


def test_a_draining_server_translates_nothing() -> None:
    server = make_server(Settings(host="127.0.0.1", port=0, engine="tests.service.engines:moving"))
    try:
        port = server.start()
        server.drain()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = KubernetesPlacementServiceStub(channel)
            with pytest.raises(grpc.RpcError) as caught:
                stub.TranslateObjects(TranslateObjectsRequest(), timeout=LONG)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        server.stop(0)


def test_what_has_changed_is_enough(server: tuple[Server, grpc.Channel], stub: Any) -> None:
    first = stub.PlaceObjects(PlaceObjectsRequest(objects=encoded(*OBJECTS)), timeout=LONG)
    # Of the base, which the process that answers may not have: it is told then.
    (pid,) = server[0].process_ids()
    os.killpg(pid, signal.SIGKILL)
    wait_until(lambda: server[0].process_ids() not in ((), (pid,)), "another process")
    full = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"}
    changes = PlaceObjectsRequest(
        objects=encoded(node("other", allocatable=full)),
        base=ObjectsBase(
            digest=first.objects_digest,
            gone=[ObjectName(api_version="v1", kind="Node", name="free")],
        ),
    )
    second = stub.PlaceObjects(changes, timeout=LONG)
    assert {binding.node for binding in second.placement.bindings} == {"nodes/other"}
    whole = PlaceObjectsRequest(
        objects=encoded(node("other", allocatable=full), *OBJECTS[:1], *OBJECTS[2:])
    )
    direct = stub.PlaceObjects(whole, timeout=LONG)
    assert direct.objects_digest == second.objects_digest != first.objects_digest
    assert list(direct.placement.bindings) == list(second.placement.bindings)


@pytest.mark.parametrize("digest", ["", "sha256:" + "0" * 64])
def test_objects_that_are_not_kept_are_unknown(stub: Any, digest: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        stub.PlaceObjects(PlaceObjectsRequest(base=ObjectsBase(digest=digest)), timeout=LONG)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


def test_faults_of_what_objects_stand_for_have_names_for_places() -> None:
    """Callers know no places in a request that they did not write."""
    request = translate(Objects.of(OBJECTS)).request
    fields = ("gangs[0].priority", "snapshot.nodes[1]", "snapshot.nodes[9]", "policy")
    error = kubernetes.named(InvalidRequest([Violation(f, "is wrong") for f in fields], 7), request)
    assert error.count == 7
    assert [violation.field for violation in error.violations] == [
        "gangs[namespaces/ml/podgangs/train].priority",
        "snapshot.nodes[nodes/free]",
        "snapshot.nodes[9]",
        "policy",
    ]
