"""What is asked, in the compute process: from the bytes of a call to the one kind of request.

Each call has its own messages; behind them stands the same question, and the same placement
is the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from google.protobuf.message import DecodeError, Message

from placement.v1 import ComputePlacementRequest, Placement, placement_service_pb2
from placement_service.api.envelope import not_a_message
from placement_service.api.methods import TOLD_OF_PROGRESS, Call


@dataclass(frozen=True, slots=True)
class Question:
    """A request, and warnings about what it was made from."""

    message: ComputePlacementRequest
    warnings: tuple[str, ...] = ()


def read(call: Call, content: bytes) -> Question:
    """The question in the bytes of a call. Raises InvalidRequest."""
    try:
        if call is Call.PLACE_OBJECTS:
            return Question(*_kubernetes().question(content))
        return Question(ComputePlacementRequest.FromString(content))
    except DecodeError as error:
        raise not_a_message() from error


def answer(call: Call, placement: Placement, warnings: tuple[str, ...]) -> Message:
    """The message that answers a call with a placement."""
    message: Message
    if call is Call.PLACE_OBJECTS:
        message = _kubernetes().answer(placement, warnings)
    elif call in TOLD_OF_PROGRESS:
        # The events of both calls have the same fields.
        message = placement_service_pb2.StreamPlacementResponse(placement=placement)
    else:
        message = placement_service_pb2.ComputePlacementResponse(placement=placement)
    return message


def translation(content: bytes) -> Message:
    """The answer to TranslateObjects. Raises InvalidRequest."""
    try:
        message: Message = _kubernetes().translation(content)
    except DecodeError as error:
        raise not_a_message() from error
    return message


def _kubernetes() -> ModuleType:
    # Only when it is asked for: most callers translate themselves.
    from placement_service.api import kubernetes

    return kubernetes
