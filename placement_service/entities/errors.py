"""Why the service could not answer: a small tree of errors with fields, without gRPC.

Not placing a gang is an answer, not an error. `status` turns these errors into
what goes over the wire; `reason` is the name of a `placement.v1.ErrorReason`
and `metadata` holds the keys documented there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

#: At most this many violations are listed; all of them are counted.
MAX_VIOLATIONS = 100


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule of the request: where (a field path) and what."""

    field: str
    description: str


class PlacementError(Exception):
    """The root: every error that the service returns on purpose."""

    reason: ClassVar[str]

    @property
    def metadata(self) -> Mapping[str, str]:
        return {}


class InvalidRequest(PlacementError):
    """The request breaks rules of its fields.

    `violations` are the first ones, at most `MAX_VIOLATIONS`; `count` is how
    many there are.
    """

    reason = "INVALID_REQUEST"

    def __init__(self, violations: Sequence[Violation], count: int | None = None) -> None:
        self.violations = tuple(violations[:MAX_VIOLATIONS])
        self.count = len(violations) if count is None else count
        first = self.violations[0]
        more = f" (and {self.count - 1} more)" if self.count > 1 else ""
        super().__init__(f"{first.field}: {first.description}{more}")

    @property
    def metadata(self) -> Mapping[str, str]:
        return {"violation_count": str(self.count)}


class Busy(PlacementError):
    """The server already computes or queues as many requests as it allows."""

    reason = "BUSY"

    def __init__(self, *, maximum_pending: int, retry_after_seconds: float, why: str = "") -> None:
        """`why` says what is full; by default the queue of requests."""
        self.maximum_pending = maximum_pending
        self.retry_after_seconds = retry_after_seconds
        super().__init__(f"{why or f'{maximum_pending} requests wait already'}; try again later")

    @property
    def metadata(self) -> Mapping[str, str]:
        return {"maximum_pending": str(self.maximum_pending)}


class Draining(PlacementError):
    """The server shuts down; another replica answers."""

    reason = "DRAINING"

    def __init__(self) -> None:
        super().__init__("the server is shutting down")


class DeadlineTooShort(PlacementError):
    """The call's deadline passed before there was even a first answer."""

    reason = "DEADLINE_TOO_SHORT"

    def __init__(self, *, elapsed_seconds: float) -> None:
        self.elapsed_seconds = elapsed_seconds
        super().__init__(f"there was no answer after {elapsed_seconds:.3f} s")

    @property
    def metadata(self) -> Mapping[str, str]:
        return {"elapsed_ms": str(round(self.elapsed_seconds * 1000))}


class NotArrived(DeadlineTooShort):
    """A call was made, but its request did not arrive."""

    def __init__(self, *, seconds: float) -> None:
        super().__init__(elapsed_seconds=seconds)
        self.args = (f"the request did not arrive within {seconds:g} s",)


class SnapshotUnknown(PlacementError):
    """The service does not hold the snapshot that the request is based on, or no longer."""

    reason = "SNAPSHOT_UNKNOWN"

    def __init__(self, digest: str) -> None:
        self.digest = digest
        super().__init__("the base is not held here; send the whole snapshot")

    @property
    def metadata(self) -> Mapping[str, str]:
        return {"digest": self.digest}


class Internal(PlacementError):
    """A defect of the service. `dump` names the saved request, "" if none was."""

    reason = "INTERNAL"

    def __init__(self, *, dump: str) -> None:
        self.dump = dump
        super().__init__("the service failed on this request; its log says why")

    @property
    def metadata(self) -> Mapping[str, str]:
        return {"dump": self.dump}
