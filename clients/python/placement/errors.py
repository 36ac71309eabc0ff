"""What a call to the service can fail with: one small tree, mirrored on ``ErrorReason``.

That a gang is not placed is an answer, not an error. `from_rpc_error` makes them from the errors of
gRPC; `to_status` and `from_status` are inverses of each other, so that a test can send any of these
errors over a real connection (see `placement.testing`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar, cast

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from placement.v1 import ErrorReason

#: Domain of the service's ``google.rpc.ErrorInfo``.
DOMAIN = "placement.v1"

_CODES: Mapping[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule of a request: where (a path such as ``gangs[2].name``) and what."""

    field: str
    description: str


class PlacementError(Exception):
    """No answer. The root of the tree, used itself for errors that have no class of their own.

    `code` is the gRPC status and `message` what was said with it. The error of gRPC is
    the ``__cause__``.
    """

    #: Reason that the service gives; unspecified when it did not say one.
    reason: ClassVar[ErrorReason] = ErrorReason.ERROR_REASON_UNSPECIFIED

    def __init__(self, message: str, *, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class InvalidRequestError(PlacementError):
    """The request breaks rules of its fields, and will break them again when repeated.

    `violations` are the first hundred; `violation_count` is how many there are.
    """

    reason = ErrorReason.ERROR_REASON_INVALID_REQUEST

    def __init__(
        self,
        message: str = "",
        *,
        violations: Sequence[Violation] = (),
        violation_count: int | None = None,
    ) -> None:
        super().__init__(message, code=grpc.StatusCode.INVALID_ARGUMENT)
        self.violations = tuple(violations)
        self.violation_count = len(violations) if violation_count is None else violation_count

    def __str__(self) -> str:
        if not self.violations:
            return self.message
        lines = [f"{v.field}: {v.description}" for v in self.violations]
        if (more := self.violation_count - len(self.violations)) > 0:
            lines.append(f"and {more} more")
        return "\n".join(lines)


class BusyError(PlacementError):
    """The server already computes and queues as much as it may; try again later.

    `retry_after` is the wait that the server advises, in seconds, None when it does not.
    """

    reason = ErrorReason.ERROR_REASON_BUSY

    def __init__(
        self,
        message: str = "",
        *,
        retry_after: float | None = None,
        maximum_pending: int | None = None,
    ) -> None:
        super().__init__(message, code=grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.retry_after = retry_after
        self.maximum_pending = maximum_pending


class DeadlineTooShortError(PlacementError):
    """The deadline of the call passed before there was any answer.

    `elapsed` is how long the server had worked on it, in seconds; None when the client's
    own clock ended the call before the server said so.
    """

    reason = ErrorReason.ERROR_REASON_DEADLINE_TOO_SHORT

    def __init__(self, message: str = "", *, elapsed: float | None = None) -> None:
        super().__init__(message, code=grpc.StatusCode.DEADLINE_EXCEEDED)
        self.elapsed = elapsed


class UnavailableError(PlacementError):
    """No server was reached, also after the retries."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message, code=grpc.StatusCode.UNAVAILABLE)


class DrainingError(UnavailableError):
    """The server that was reached shuts down, also after the retries."""

    reason = ErrorReason.ERROR_REASON_DRAINING


class SnapshotUnknownError(PlacementError):
    """The service does not hold the base of the request; a session sends the whole by itself.

    `digest` is that of the base.
    """

    reason = ErrorReason.ERROR_REASON_SNAPSHOT_UNKNOWN

    def __init__(self, message: str = "", *, digest: str = "") -> None:
        super().__init__(message, code=grpc.StatusCode.FAILED_PRECONDITION)
        self.digest = digest


class InternalError(PlacementError):
    """A defect of the service. `dump` names the request it saved for replay, may be empty."""

    reason = ErrorReason.ERROR_REASON_INTERNAL

    def __init__(self, message: str = "", *, dump: str = "") -> None:
        super().__init__(message, code=grpc.StatusCode.INTERNAL)
        self.dump = dump


def from_rpc_error(error: grpc.RpcError) -> PlacementError:
    """The typed error for what gRPC raised. Raise it ``from`` the original."""
    if not isinstance(
        error, grpc.Call | grpc.aio.AioRpcError
    ):  # An interceptor's own; gRPC's errors are calls.
        return PlacementError(str(error))
    return from_status(_rich_status(error) or _plain_status(error))


def is_of_own_clock(error: PlacementError) -> bool:
    """Whether the client's own clock ended the call, before a server did."""
    return isinstance(error, DeadlineTooShortError) and error.elapsed is None


def not_reached() -> DeadlineTooShortError:
    """For a call that ended before there was a connection; gRPC says only that its time was up."""
    return DeadlineTooShortError("the time was up before any server was reached")


#: What gRPC says of a request that is larger than the service takes.
_TOO_LARGE = "Received message larger than max"


def from_status(status: Status) -> PlacementError:
    """The typed error for a status; by its reason, else by its code."""
    info = _detail(status, ErrorInfo)
    if info is not None and info.domain == DOMAIN and info.reason in _BY_REASON:
        return _BY_REASON[info.reason](status, info.metadata)
    code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
    if code is grpc.StatusCode.UNAVAILABLE:
        return UnavailableError(status.message)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineTooShortError(status.message)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in status.message:
        # gRPC of the service says so, which knows no setting.
        told = f"PLACEMENT_MAX_MESSAGE_BYTES of the service does not allow it: {status.message}"
        return PlacementError(told, code=code)
    return PlacementError(status.message, code=code)


def to_status(error: PlacementError) -> Status:
    """The status that the service sends for this error."""
    metadata: dict[str, str] = {}
    details: list[Message] = []
    match error:
        case InvalidRequestError():
            metadata["violation_count"] = str(error.violation_count)
            details.append(
                BadRequest(
                    field_violations=[
                        BadRequest.FieldViolation(field=v.field, description=v.description)
                        for v in error.violations
                    ]
                )
            )
        case BusyError():
            if error.maximum_pending is not None:
                metadata["maximum_pending"] = str(error.maximum_pending)
            if error.retry_after is not None:
                advice = RetryInfo()
                advice.retry_delay.FromNanoseconds(round(error.retry_after * 1e9))
                details.append(advice)
        case DeadlineTooShortError(elapsed=float(elapsed)):
            metadata["elapsed_ms"] = str(round(elapsed * 1000))
        case SnapshotUnknownError():
            metadata["digest"] = error.digest
        case InternalError():
            metadata["dump"] = error.dump
    if error.reason != ErrorReason.ERROR_REASON_UNSPECIFIED:
        name = ErrorReason.Name(error.reason).removeprefix("ERROR_REASON_")
        details.insert(0, ErrorInfo(reason=name, domain=DOMAIN, metadata=metadata))
    status = Status(code=error.code.value[0], message=error.message)
    for detail in details:
        status.details.add().Pack(detail)
    return status


def _rich_status(call: grpc.Call | grpc.aio.AioRpcError) -> Status | None:
    """The ``google.rpc.Status`` that came with the error; None when none, or not ours, did."""
    try:
        return rpc_status.from_call(cast("grpc.Call", call))
    except (DecodeError, ValueError):  # A proxy between us and the server wrote its own.
        return None


def _plain_status(call: grpc.Call | grpc.aio.AioRpcError) -> Status:
    return Status(code=call.code().value[0], message=call.details() or "")


_Detail = TypeVar("_Detail", bound=Message)


def _detail(status: Status, kind: type[_Detail]) -> _Detail | None:
    """The status' detail of this kind. Each kind comes at most once."""
    packed: AnyMessage
    for packed in status.details:
        message = kind()
        if packed.Unpack(message):
            return message
    return None


def _invalid_request(status: Status, metadata: Mapping[str, str]) -> InvalidRequestError:
    request = _detail(status, BadRequest) or BadRequest()
    return InvalidRequestError(
        status.message,
        violations=[Violation(v.field, v.description) for v in request.field_violations],
        violation_count=_number(metadata, "violation_count"),
    )


def _busy(status: Status, metadata: Mapping[str, str]) -> BusyError:
    advice = _detail(status, RetryInfo)
    return BusyError(
        status.message,
        retry_after=None if advice is None else advice.retry_delay.ToNanoseconds() / 1e9,
        maximum_pending=_number(metadata, "maximum_pending"),
    )


def _draining(status: Status, metadata: Mapping[str, str]) -> DrainingError:
    return DrainingError(status.message)


def _deadline_too_short(status: Status, metadata: Mapping[str, str]) -> DeadlineTooShortError:
    elapsed_ms = _number(metadata, "elapsed_ms")
    return DeadlineTooShortError(
        status.message, elapsed=None if elapsed_ms is None else elapsed_ms / 1000
    )


def _snapshot_unknown(status: Status, metadata: Mapping[str, str]) -> SnapshotUnknownError:
    return SnapshotUnknownError(status.message, digest=metadata.get("digest", ""))


def _internal(status: Status, metadata: Mapping[str, str]) -> InternalError:
    return InternalError(status.message, dump=metadata.get("dump", ""))


def _number(metadata: Mapping[str, str], key: str) -> int | None:
    value = metadata.get(key, "")
    return int(value) if value.isdecimal() else None


_BY_REASON: Mapping[str, Callable[[Status, Mapping[str, str]], PlacementError]] = {
    "INVALID_REQUEST": _invalid_request,
    "BUSY": _busy,
    "DRAINING": _draining,
    "DEADLINE_TOO_SHORT": _deadline_too_short,
    "SNAPSHOT_UNKNOWN": _snapshot_unknown,
    "INTERNAL": _internal,
}
