"""What is asked, in the compute process: from the bytes of a call to the one kind of request.

Each call has its own messages; behind them stands the same question, and the same placement
is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType

from google.protobuf.message import DecodeError, Message

from placement.v1 import ComputePlacementRequest, Placement, placement_service_pb2
from placement_service.api.envelope import not_a_message
from placement_service.api.methods import TOLD_OF_PROGRESS, Call
from placement_service.api.snapshots import content, versions
from placement_service.api.snapshots.held import Held
from placement_service.entities.errors import InvalidRequest, SnapshotUnknown
from placement_service.entities.request import Request


@dataclass(frozen=True, slots=True)
class Question:
    """A request, and what the answer says besides: digests, and warnings about objects.

    `digest` is that of the request.
    """

    request: Request
    digest: bytes
    snapshot_digest: str
    warnings: tuple[str, ...] = ()
    objects_digest: str = ""
    own_levels: Mapping[str, str] = field(default_factory=dict)


def tell(call: Call, told: bytes, held: Held) -> None:
    """Holds what a call's base was told with. What cannot be read is left out: it is no base."""
    try:
        if call is Call.PLACE_OBJECTS:
            kubernetes = _kubernetes()
            held.keep(kubernetes.told(told, partial(held.base, kind=kubernetes.ObjectsVersion)))
        else:
            held.read(ComputePlacementRequest.FromString(told))
    except (DecodeError, InvalidRequest, SnapshotUnknown):
        # A caller gave the digest of something else; the question will say that it is unknown.
        return


def read(call: Call, told: bytes, held: Held) -> Question:
    """The question in the bytes of a call, whose snapshot is held from now on.

    Raises InvalidRequest, and SnapshotUnknown when its base is not held.
    """
    try:
        if call is Call.PLACE_OBJECTS:
            return _objects(told, held)
        return snapshot(ComputePlacementRequest.FromString(told), held)
    except DecodeError as error:
        raise not_a_message() from error


def snapshot(message: ComputePlacementRequest, held: Held) -> Question:
    """The question in a message, which loses its snapshot; raises as `read` does."""
    request, version = held.read(message)
    digest = content.request_digest(message, version.digest)
    return Question(request, digest, content.text(version.digest))


def _objects(told: bytes, held: Held) -> Question:
    kubernetes = _kubernetes()
    asked = kubernetes.question(told, partial(held.base, kind=kubernetes.ObjectsVersion))
    try:
        # Callers do not see the request that objects stand for, so none uses it as a base.
        request, version = versions.read(asked.message, None)
    except InvalidRequest as error:
        raise kubernetes.named(error, asked.message) from error
    held.keep(asked.version)
    return Question(
        request,
        content.request_digest(asked.message, version.digest),
        content.text(version.digest),
        asked.warnings,
        content.text(asked.version.digest),
        asked.own_levels,
    )


def answer(call: Call, placement: Placement, question: Question) -> Message:
    """The message that answers a call with a placement."""
    message: Message
    if call is Call.PLACE_OBJECTS:
        message = _kubernetes().answer(
            placement, question.warnings, question.objects_digest, question.own_levels
        )
    elif call in TOLD_OF_PROGRESS:
        # The events of both calls have the same fields.
        message = placement_service_pb2.StreamPlacementResponse(placement=placement)
    else:
        message = placement_service_pb2.ComputePlacementResponse(placement=placement)
    return message


def translation(told: bytes) -> Message:
    """The answer to TranslateObjects. Raises InvalidRequest."""
    try:
        message: Message = _kubernetes().translation(told)
    except DecodeError as error:
        raise not_a_message() from error
    return message


def _kubernetes() -> ModuleType:
    # Only when it is asked for: most callers translate themselves.
    from placement_service.api import kubernetes

    return kubernetes
