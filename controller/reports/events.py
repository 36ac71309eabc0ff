"""Events of events.k8s.io: repeated ones are counted up, at limited rate. The numbers in a note
change all the time, and a gang may have a thousand pods. So an object has one event at a time about
one topic, whatever the words. What was reported is remembered in this process only; after a restart
it may be reported once more. An event that cannot be written is lost.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from placement.cluster import MERGE_PATCH, ApiError, Cluster
from placement.resources import EVENTS

#: Annotation of an event: the digest of the latest request whose answer it tells, by which the
#: service may have saved it.
REQUEST: Final = "placement-service/request-digest"
#: The longest note that the API server accepts, in bytes.
_LONGEST_NOTE: Final = 1024
#: Events remembered; the oldest are forgotten.
_MOST_REMEMBERED: Final = 50_000


@dataclass(slots=True)
class _RecordedEvent:
    name: str
    note: str
    count: int
    at: float


class Recorder:
    """Writes events about objects. May be used by several threads.

    `repeat` is the least time between two events about an object's topic, or two updates of
    one, in seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        controller: str,
        instance: str,
        repeat: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._controller = controller
        self._instance = instance
        self._repeat = repeat
        self._clock = clock
        self._recorded: OrderedDict[tuple[str, str, str], _RecordedEvent] = OrderedDict()

    def record(
        self,
        about: Mapping[str, Any],
        *,
        type: str,
        reason: str,
        topic: str,
        action: str,
        note: str,
        request: str = "",
    ) -> bool:
        """Writes an event, or counts up the one with the same note; returns false if it does
        neither.

        `topic` is finer than the reason and coarser than the note. `request` is the digest of the
        request that was answered: the annotation `REQUEST` names the latest one, because every
        digest is different and a note cannot be changed. Raises `ApiError`.
        """
        metadata = about["metadata"]
        note = _cut(note)
        key = metadata.get("uid", ""), reason, topic
        recorded = self._recorded.get(key)
        now = self._clock()
        if recorded is not None and now - recorded.at < self._repeat:
            return False
        namespace = metadata.get("namespace") or "default"
        if recorded is not None and recorded.note == note:
            recorded.at = now
            try:
                self._count_up(namespace, recorded, request)
            except ApiError as error:
                if error.status != 404:
                    raise
                # The cluster forgets events after a while; then it is reported again.
            else:
                return True
        # The name is a digest of object and note: written twice, it is still one event.
        text = "\0".join((self._instance, *key, note, str(now)))
        # Between two dots of a name, it begins and ends with a letter or digit.
        begin = metadata["name"][:200].rstrip("-.")
        name = f"{begin}.{sha256(text.encode()).hexdigest()[:16]}"
        self._recorded[key] = _RecordedEvent(name, note, 1, now)
        while len(self._recorded) > _MOST_REMEMBERED:
            self._recorded.popitem(last=False)
        self._cluster.request(
            "POST",
            EVENTS.path_in(namespace),
            body={
                "apiVersion": EVENTS.api_version,
                "kind": EVENTS.kind,
                "metadata": {"namespace": namespace, "name": name, **_annotations(request)},
                "eventTime": _micro_time(),
                "reportingController": self._controller,
                "reportingInstance": self._instance[:128],
                "action": action,
                "reason": reason,
                "type": type,
                "note": note,
                "regarding": {
                    "apiVersion": about.get("apiVersion"),
                    "kind": about.get("kind"),
                    "namespace": metadata.get("namespace", ""),
                    "name": metadata["name"],
                    "uid": metadata.get("uid", ""),
                },
            },
        )
        return True

    def _count_up(self, namespace: str, recorded: _RecordedEvent, request: str) -> None:
        recorded.count += 1
        series = {"count": recorded.count, "lastObservedTime": _micro_time()}
        self._cluster.request(
            "PATCH",
            EVENTS.path_of(recorded.name, namespace),
            body={"metadata": _annotations(request), "series": series},
            content_type=MERGE_PATCH,
        )


def _cut(note: str) -> str:
    content = note.encode()
    if len(content) <= _LONGEST_NOTE:
        return note
    return content[: _LONGEST_NOTE - 4].decode(errors="ignore") + " ..."


def _annotations(request: str) -> dict[str, dict[str, str]]:
    return {"annotations": {REQUEST: request}} if request else {}


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
