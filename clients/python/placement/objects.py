"""Asks with Kubernetes objects as they are, again and again about a cluster that hardly changes.

For programs that hold objects, as an informer shows them, and do not want to translate them::

    with PlacementClient("localhost:50051") as client:
        session = ObjectsSession(client)
        session.objects.set(*nodes, *pods, *pod_gangs)
        answer = session.place()

The service gets all objects once, and then what has changed. If it does not know the earlier
objects (it was restarted, another replica answers) it gets all of them again within the same call.
Needs the extra ``kubernetes``.
"""

from __future__ import annotations

import time

import grpc

from placement import aio, client
from placement.aio import AsyncPlacementClient
from placement.client import PlacementClient
from placement.errors import InvalidRequestError, SnapshotUnknownError
from placement.kubernetes.v1 import PlaceObjectsRequest, PlaceObjectsResponse
from placement.kubernetes.v1.kubernetes_placement_service_pb2_grpc import (
    KubernetesPlacementServiceStub,
)
from placement.local_objects import LocalObjects, ObjectKey

__all__ = ["AsyncObjectsSession", "LocalObjects", "ObjectKey", "ObjectsSession"]


class ObjectsSession:
    """Questions about `objects`, which the caller keeps equal to those of the cluster. For several
    threads.

    `objects` may be those of another session, to go on with after a new connection.
    """

    def __init__(self, client: PlacementClient, objects: LocalObjects | None = None) -> None:
        self._client = client
        self.objects = LocalObjects() if objects is None else objects
        stub = KubernetesPlacementServiceStub(client.channel)
        self._place: grpc.UnaryUnaryMultiCallable[PlaceObjectsRequest, PlaceObjectsResponse] = (
            stub.PlaceObjects
        )

    def place(
        self, request: PlaceObjectsRequest | None = None, *, timeout: float | None = None
    ) -> PlaceObjectsResponse:
        """The answer to a request that leaves its objects out, within ``timeout`` seconds.

        Raises a `placement.errors.PlacementError`, and ValueError for a request with objects.
        """
        end = time.monotonic() + (self._client.timeout if timeout is None else timeout)
        question = self.objects.question(request)
        while True:
            try:
                left = max(0.0, end - time.monotonic())
                call = self._place.future(question.request, timeout=left)
                response = client.result(call, self._client.channel)
                self.objects.answered(question, response)
            except SnapshotUnknownError:
                question = self.objects.retold(question, request)
            except InvalidRequestError as error:
                raise self.objects.named(question, error) from error
            else:
                self.objects.name_warnings(question, response)
                return response

    def __repr__(self) -> str:
        return f"<ObjectsSession: {self._client!r}, {self.objects!r}>"


class AsyncObjectsSession:
    """As `ObjectsSession`, awaited."""

    def __init__(self, client: AsyncPlacementClient, objects: LocalObjects | None = None) -> None:
        self._client = client
        self.objects = LocalObjects() if objects is None else objects
        self._stub = KubernetesPlacementServiceStub(client.channel)

    async def place(
        self, request: PlaceObjectsRequest | None = None, *, timeout: float | None = None
    ) -> PlaceObjectsResponse:
        """As `ObjectsSession.place`."""
        end = time.monotonic() + (self._client.timeout if timeout is None else timeout)
        question = self.objects.question(request)
        while True:
            try:
                left = max(0.0, end - time.monotonic())
                call = self._stub.PlaceObjects(question.request, timeout=left)
                response: PlaceObjectsResponse = await aio.result(call, self._client.channel)
                self.objects.answered(question, response)
            except SnapshotUnknownError:
                question = self.objects.retold(question, request)
            except InvalidRequestError as error:
                raise self.objects.named(question, error) from error
            else:
                self.objects.name_warnings(question, response)
                return response

    def __repr__(self) -> str:
        return f"<AsyncObjectsSession: {self._client!r}, {self.objects!r}>"
