"""Errors as they leave the server: one table from error to google.rpc.Status."""

from __future__ import annotations

from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from placement_service.entities.errors import (
    Busy,
    DeadlineTooShort,
    Draining,
    Internal,
    InvalidRequest,
    NotArrived,
    PlacementError,
    SnapshotUnknown,
)

DOMAIN = "placement.v1"

#: Space for violations. Details travel in trailers, and many gRPC clients refuse
#: trailers above 8 KiB; base64 and the message itself take their share.
MAX_VIOLATION_BYTES = 5_000

CODES: dict[type[PlacementError], int] = {
    InvalidRequest: code_pb2.INVALID_ARGUMENT,
    Busy: code_pb2.RESOURCE_EXHAUSTED,
    Draining: code_pb2.UNAVAILABLE,
    DeadlineTooShort: code_pb2.DEADLINE_EXCEEDED,
    NotArrived: code_pb2.DEADLINE_EXCEEDED,
    SnapshotUnknown: code_pb2.FAILED_PRECONDITION,
    Internal: code_pb2.INTERNAL,
}


def to_status(error: PlacementError) -> status_pb2.Status:
    """The status of an error, with ErrorInfo and what else its kind carries."""
    info = error_details_pb2.ErrorInfo(
        reason=error.reason, domain=DOMAIN, metadata=dict(error.metadata)
    )
    return status_pb2.Status(
        code=CODES[type(error)],
        message=str(error),
        details=[_pack(detail) for detail in (info, *_more(error))],
    )


def _more(error: PlacementError) -> tuple[Message, ...]:
    match error:
        case InvalidRequest():
            return (_bad_request(error),)
        case Busy():
            nanos = round(error.retry_after_seconds * 1e9)
            delay = duration_pb2.Duration(seconds=nanos // 10**9, nanos=nanos % 10**9)
            return (error_details_pb2.RetryInfo(retry_delay=delay),)
        case _:
            return ()


def _bad_request(error: InvalidRequest) -> error_details_pb2.BadRequest:
    message = error_details_pb2.BadRequest()
    size = 0
    for violation in error.violations:
        entry = error_details_pb2.BadRequest.FieldViolation(
            field=violation.field, description=violation.description
        )
        size += entry.ByteSize() + 4
        if message.field_violations and size > MAX_VIOLATION_BYTES:
            break
        message.field_violations.append(entry)
    return message


def _pack(message: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
