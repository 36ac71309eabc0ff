"""Times and durations: what the well-known messages hold, as numbers."""

from __future__ import annotations

from google.protobuf import duration_pb2, timestamp_pb2

_NANOS = 1_000_000_000


def duration(seconds: float) -> duration_pb2.Duration:
    nanos = round(seconds * _NANOS)
    # In a negative duration both parts carry the sign.
    whole, part = divmod(abs(nanos), _NANOS)
    sign = -1 if nanos < 0 else 1
    return duration_pb2.Duration(seconds=sign * whole, nanos=sign * part)


def seconds(message: duration_pb2.Duration) -> float:
    return (message.seconds * _NANOS + message.nanos) / _NANOS


def whole_seconds(message: duration_pb2.Duration) -> int:
    """The whole seconds of a duration, rounded down."""
    return (message.seconds * _NANOS + message.nanos) // _NANOS


def timestamp(time: int | None) -> timestamp_pb2.Timestamp | None:
    return None if time is None else timestamp_pb2.Timestamp(seconds=time)
