"""Points in time and durations, as Kubernetes and Go write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from placement.kubernetes.objects import Object
from placement.kubernetes.values.reading import At

#: The form that Kubernetes writes.
_ONE_FORM: Final = re.compile(
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3])(:[0-5][0-9]){2}Z"
)
#: Conditions say when they changed, nodes when they were last heard of.
_CONDITION_TIMES: Final = ("lastTransitionTime", "lastHeartbeatTime", "lastProbeTime")

_GO_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|us|µs|ns|h|m|s)", re.ASCII)
#: Ten thousand years: what a message can hold.
_MOST_SECONDS: Final = 315_576_000_000
_GO_UNITS: Final = {
    "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9,
}  # fmt: skip


@lru_cache(maxsize=8192)
def parse_time(text: str) -> datetime | None:
    """A time in RFC 3339; None when it is none. Without an offset it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        return None


def parse_duration(text: str) -> timedelta | None:
    """A duration of Go, such as "1h30m"; None when it is none."""
    parts = _GO_DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return timedelta() if text == "0" else None
    seconds = sum(float(number) * _GO_UNITS[unit] for number, unit in parts)
    return timedelta(seconds=seconds) if seconds <= _MOST_SECONDS else None


def read_time(at: At) -> datetime | None:
    """A time that may be absent."""
    text = at.text()
    if not text:
        return None
    moment = parse_time(text)
    if moment is None:
        at.problem(f"{text[:40]!r} is not a time such as 2026-01-31T12:00:00Z")
    return moment


def is_deleted(metadata: At) -> bool:
    """Whether an object is being deleted, by the time in its metadata."""
    at = metadata.get("deletionTimestamp")
    if at.absent:
        return False
    if read_time(at) is None and at.value == "":
        at.must_be("a time such as 2026-01-31T12:00:00Z")
    return True


def read_duration(at: At) -> timedelta | None:
    """A duration that may be absent."""
    text = at.text()
    if not text:
        return None
    span = parse_duration(text)
    if span is None:
        at.problem(f"{text[:40]!r} is not a duration such as 1h30m")
    return span


def newest(objects: Iterable[Object]) -> datetime | None:
    """The newest time that any object names: when the input was taken, as far as it tells.

    Times that lie ahead by intention, as that of a deletion, do not count.
    """
    return newest_of(text for one in objects for text in times_in(one.body))


def newest_of(texts: Iterable[str]) -> datetime | None:
    """The newest of times as they are written; what is none is passed over."""
    best = ""
    best_time: datetime | None = None
    seen: set[str] = set()
    for text in texts:
        # Nearly all have one form, in which the order of texts is the order of times.
        if text <= best and text.endswith("Z"):
            continue
        if text in seen:
            continue
        seen.add(text)
        moment = parse_time(text)
        if moment is not None and (best_time is None or moment > best_time):
            best_time = moment
            best = text if _has_one_form(text) else best
    return best_time


def times_in(body: Any) -> tuple[str, ...]:
    """The times in an object that may be its newest."""
    texts = tuple(_times(body))
    return (max(texts),) if len(texts) > 1 and all(map(_has_one_form, texts)) else texts


def _has_one_form(text: str) -> bool:
    return _ONE_FORM.fullmatch(text) is not None


def _times(body: Any) -> Iterable[str]:
    metadata = body.get("metadata")
    status = body.get("status")
    found: list[Any] = []
    if isinstance(metadata, dict):
        found.append(metadata.get("creationTimestamp"))
    if isinstance(status, dict):
        found.append(status.get("startTime"))
        conditions = status.get("conditions")
        for condition in conditions if isinstance(conditions, list) else ():
            if isinstance(condition, dict):
                found += (condition.get(field) for field in _CONDITION_TIMES)
    return (text for text in found if isinstance(text, str) and text)
