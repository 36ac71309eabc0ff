"""Sessions in objects: what is sent, what follows from errors, and the real service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from placement.aio import AsyncPlacementClient
from placement.client import PlacementClient
from placement.errors import InvalidRequestError, SnapshotUnknownError, Violation
from placement.kubernetes.v1 import PlaceObjectsRequest, PlaceObjectsResponse
from placement.objects import AsyncObjectsSession, LocalObjects, ObjectKey, ObjectsSession
from placement.testing import serve
from tests.kubernetes.build import Body, gang, group, node, pod, thing
from tests.waiting import LONG

OBJECTS = (node("a"), pod("p"), gang("train", podgroups=[group("workers", "p")]))

#: Asks once in a session, without or with asyncio.
Ask = Callable[[str, LocalObjects], PlaceObjectsResponse]


def blocking(address: str, objects: LocalObjects) -> PlaceObjectsResponse:
    with PlacementClient(address, timeout=LONG) as client:
        return ObjectsSession(client, objects).place()


def awaited(address: str, objects: LocalObjects) -> PlaceObjectsResponse:
    async def work() -> PlaceObjectsResponse:
        async with AsyncPlacementClient(address, timeout=LONG) as client:
            return await AsyncObjectsSession(client, objects).place()

    return asyncio.run(work())


both = pytest.mark.parametrize("ask", [blocking, awaited])


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    with serve() as address:
        yield address


@both
def test_what_has_changed_is_enough(service: str, ask: Ask) -> None:
    objects = LocalObjects()
    objects.set(*OBJECTS)

    def where() -> list[str]:
        return [binding.node for binding in ask(service, objects).placement.bindings]

    assert where() == ["nodes/a"]
    assert not objects.question().is_whole
    objects.set(node("b"))
    objects.remove(node("a"))
    question = objects.question()
    assert question.keys == (ObjectKey("v1", "Node", "", "b"),)
    assert [one.name for one in question.request.base.gone] == ["a"]
    assert where() == ["nodes/b"]
    # Listed anew, and nothing has changed.
    objects.replace([node("b"), *OBJECTS[1:]])
    assert objects.question().keys == ()
    # The base of a service that was restarted: the whole follows within the call.
    objects.answered(objects.question(), PlaceObjectsResponse(objects_digest="sha256:" + "0" * 64))
    assert where() == ["nodes/b"]


@both
def test_faults_are_told_by_name_and_go_with_their_object(service: str, ask: Ask) -> None:
    objects = LocalObjects()
    objects.set(*OBJECTS)
    ask(service, objects)
    wrong = node("wrong", spec={"taints": "none"})
    objects.set(wrong)
    with pytest.raises(InvalidRequestError) as caught:
        ask(service, objects)
    assert [v.field for v in caught.value.violations] == ["objects[Node wrong].spec.taints"]
    objects.remove(ObjectKey("v1", "Node", "", "wrong"))
    assert ask(service, objects).placement.bindings


@both
def test_warnings_name_their_object_whenever_it_was_told(service: str, ask: Ask) -> None:
    objects = LocalObjects()
    kind = "Reservation", "scheduling.koordinator.sh/v1alpha1"
    status = {"phase": "Available", "nodeName": "gone", "allocatable": {"cpu": "1"}}
    objects.set(*OBJECTS, thing(*kind, "held", spec={"ttl": "0s"}, status=status))
    first = list(ask(service, objects).warnings)
    assert first[0].startswith("objects[Reservation held]: ")
    objects.set(node("more"))
    assert list(ask(service, objects).warnings) == first


def test_names_of_places_stay_what_they_are_where_nothing_was_sent() -> None:
    objects = LocalObjects()
    objects.set(node("a"))
    places = ("objects[0].spec", "objects[9]", "time_limit", "objects[Pod ml/a]")
    error = InvalidRequestError("wrong", violations=[Violation(p, "") for p in places])
    found = objects.named(objects.question(), error)
    assert [v.field for v in found.violations] == ["objects[Node a].spec", *places[1:]]


@pytest.mark.parametrize("body", [{}, {"kind": "Node", "apiVersion": "v1", "metadata": "a"}])
def test_an_object_without_a_name_is_a_mistake(body: Body) -> None:
    with pytest.raises(ValueError, match=r"metadata\.name"):
        LocalObjects().set(body)


def test_a_request_with_objects_of_its_own_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="a session adds"):
        LocalObjects().question(PlaceObjectsRequest(objects=[b"{}"]))


def test_a_service_of_before_sessions_is_told_apart() -> None:
    objects = LocalObjects()
    objects.set(node("a"))
    objects.answered(objects.question(), PlaceObjectsResponse(objects_digest="D1"))
    with pytest.raises(SnapshotUnknownError):
        objects.answered(objects.question(), PlaceObjectsResponse())


def test_managed_fields_are_left_out_and_reprs_are_short() -> None:
    objects = LocalObjects()
    body = node("a")
    body["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    objects.set(body)
    assert b"kubelet" not in objects.question().request.objects[0]
    assert "managedFields" in body["metadata"]
    with PlacementClient("localhost:1") as client:
        assert repr(ObjectsSession(client, objects)) == (
            "<ObjectsSession: <PlacementClient: localhost:1>,"
            " <LocalObjects: 1 objects, the service knows nothing>>"
        )
