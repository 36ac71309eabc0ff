"""A caller's own copy of Kubernetes objects, and which of them the service does not know yet.

This is the logic of sessions in objects, without any call in it: `placement.objects` asks with
it. It may be used by several threads, and by several calls at once.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from placement.copies import Copies, Known
from placement.errors import InvalidRequestError, SnapshotUnknownError, Violation
from placement.kubernetes.v1 import (
    ObjectName,
    ObjectsBase,
    PlaceObjectsRequest,
    PlaceObjectsResponse,
)

#: The place of an object in a request.
_PLACE = re.compile(r"^objects\[(\d+)\]")

Body = Mapping[str, Any]


class ObjectKey(NamedTuple):
    """Which object is meant; `namespace` is empty for kinds without."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, body: Body) -> ObjectKey:
        """That of an object. Raises ValueError when it does not say."""
        metadata = body.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        key = (body.get("apiVersion"), body.get("kind"), name)
        if not all(isinstance(part, str) and part for part in key):
            raise ValueError("an object needs apiVersion, kind and metadata.name")
        namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
        return cls(str(key[0]), str(key[1]), str(namespace or ""), str(name))

    def __str__(self) -> str:
        """As violations name it: "Pod ml/a", "Node n1"."""
        return f"{self.kind} {self.namespace}/{self.name}".replace(" /", " ")


@dataclass(frozen=True, slots=True)
class ObjectsQuestion:
    """A request as it is sent: changes to a base, or the whole.

    `keys` are those of the objects in it, and `state` says what it is about.
    """

    request: PlaceObjectsRequest
    keys: tuple[ObjectKey, ...]
    state: int

    @property
    def is_whole(self) -> bool:
        return not self.request.HasField("base")


class LocalObjects:
    """Objects as they are now, each as a mapping with apiVersion and kind.

    Objects are copied in. Their managedFields, which are large and not needed, are left out.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Counts changes; the service knows an earlier state.
        self._state = 0
        self._objects = Copies[ObjectKey, bytes]()
        self._known = Known()

    def set(self, *objects: Body) -> None:
        """Adds objects, or replaces those of the same key. Raises ValueError for one without."""
        self._set({ObjectKey.of(body): _encoded(body) for body in objects})

    def remove(self, *objects: Body | ObjectKey) -> None:
        """Takes out objects; those that are not there do no harm."""
        keys = [one if isinstance(one, ObjectKey) else ObjectKey.of(one) for one in objects]
        with self._lock:
            self._state += 1
            self._objects.remove(keys, self._state)

    def replace(self, objects: Iterable[Body]) -> None:
        """Replaces all objects by these; equal ones count as unchanged."""
        self._set({ObjectKey.of(body): _encoded(body) for body in objects}, only=True)

    def _set(self, encoded: Mapping[ObjectKey, bytes], *, only: bool = False) -> None:
        with self._lock:
            self._state += 1
            if only:
                self._objects.keep(encoded.keys(), self._state)
            for key, content in encoded.items():
                if self._objects.differs(key, content):
                    self._objects.set(key, content, self._state)

    def question(
        self, request: PlaceObjectsRequest | None = None, *, whole: bool = False
    ) -> ObjectsQuestion:
        """The request to send for one that leaves its objects and its base out.

        `whole` where changes are not enough. Raises ValueError when it does not leave them out.
        """
        message = PlaceObjectsRequest()
        if request is not None:
            if request.HasField("base") or request.objects:
                raise ValueError("a session adds objects and base to its requests itself")
            message.CopyFrom(request)
        with self._lock:
            told = self._objects.items()
            if self._known.digest and not whole:
                told, gone = self._objects.since()
                names = [ObjectName(**key._asdict()) for key in gone]
                message.base.MergeFrom(ObjectsBase(digest=self._known.digest, gone=names))
            message.objects.extend(told.values())
            return ObjectsQuestion(message, tuple(told), self._state)

    def answered(self, question: ObjectsQuestion, response: PlaceObjectsResponse) -> None:
        """Notes that the service knows the state of a question.

        Raises SnapshotUnknownError when the service is so old that it ignored the base.
        """
        if not question.is_whole and not response.objects_digest:
            raise SnapshotUnknownError(
                "the service is of a version without sessions of objects",
                digest=question.request.base.digest,
            )
        with self._lock:
            if self._known.learned(response.objects_digest, question.state):
                self._objects.forget(question.state)

    def retold(
        self, question: ObjectsQuestion, request: PlaceObjectsRequest | None
    ) -> ObjectsQuestion:
        """What to send when the service does not know the base of a question: the whole.

        Inside an ``except`` block: raises that error again when the question was whole.
        """
        if question.is_whole:
            raise
        with self._lock:
            self._known.lost(question.request.base.digest)
        return self.question(request, whole=True)

    @staticmethod
    def named(question: ObjectsQuestion, error: InvalidRequestError) -> InvalidRequestError:
        """The error with names instead of places in what was sent, which callers do not see.

        For example ``objects[Pod ml/a].spec``.
        """
        return InvalidRequestError(
            error.message,
            violations=[
                Violation(_named(question, v.field), v.description) for v in error.violations
            ],
            violation_count=error.violation_count,
        )

    @staticmethod
    def name_warnings(question: ObjectsQuestion, response: PlaceObjectsResponse) -> None:
        """Puts names into the warnings of an answer, too."""
        response.warnings[:] = [_named(question, text) for text in response.warnings]

    def __len__(self) -> int:
        return len(self._objects)

    def __repr__(self) -> str:
        return f"<LocalObjects: {len(self)} objects, the service knows {self._known}>"


def _named(question: ObjectsQuestion, text: str) -> str:
    def name(found: re.Match[str]) -> str:
        place = int(found[1])
        return f"objects[{question.keys[place] if place < len(question.keys) else place}]"

    return _PLACE.sub(name, text)


def _encoded(body: Body) -> bytes:
    metadata = body["metadata"]
    if "managedFields" in metadata:
        metadata = {name: metadata[name] for name in metadata if name != "managedFields"}
        body = {**body, "metadata": metadata}
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
