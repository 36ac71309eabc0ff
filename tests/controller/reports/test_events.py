"""Events: what repeats is counted up, whatever was asked between, and names the last request."""

from __future__ import annotations

from typing import Any

from controller.reports.events import REQUEST, Recorder
from placement.cluster import ApiError

GANG = {
    "apiVersion": "scheduler.grove.io/v1alpha1",
    "kind": "PodGang",
    "metadata": {"namespace": "ml", "name": "g", "uid": "u"},
}


class Written:
    """A cluster that takes events, and forgets them when told to."""

    def __init__(self) -> None:
        self.events: dict[str, Any] = {}

    def request(self, method: str, path: str, *, body: Any, **_: Any) -> None:
        if method == "POST":
            self.events[body["metadata"]["name"]] = dict(body)
            return
        event = self.events.get(path.rpartition("/")[2])
        if event is None:
            raise ApiError(404, "not found")
        event["metadata"] |= body["metadata"]
        event["series"] = body["series"]


def test_an_event_that_repeats_is_counted_up_and_names_the_latest_request() -> None:
    cluster, now = Written(), [0.0]
    recorder = Recorder(
        cluster,  # type: ignore[arg-type]
        controller="placement",
        instance="i",
        repeat=300.0,
        clock=lambda: now[0],
    )

    def record(note: str, request: str) -> bool:
        now[0] += 300.0
        return recorder.record(
            GANG,
            type="Warning",
            reason="FailedScheduling",
            topic="Resources",
            action="Scheduling",
            note=note,
            request=request,
        )

    assert record("no room", "sha256:a")
    assert record("no room", "sha256:b")
    (event,) = cluster.events.values()
    assert (event["note"], event["series"]["count"]) == ("no room", 2)
    assert event["metadata"]["annotations"] == {REQUEST: "sha256:b"}
    # Other words are another event, and so is one that the cluster has forgotten.
    assert record("no room at all", "sha256:c")
    assert len(cluster.events) == 2
    cluster.events.clear()
    assert record("no room at all", "")
    (event,) = cluster.events.values()
    assert "annotations" not in event["metadata"]
    now[0] -= 299.0
    assert not record("no room at all", "sha256:d")


def test_a_note_is_cut_to_the_bytes_that_the_api_server_takes() -> None:
    cluster = Written()
    recorder = Recorder(cluster, controller="c", instance="i", repeat=1.0)  # type: ignore[arg-type]
    recorder.record(
        GANG, type="Warning", reason="R", topic="t", action="a", note="x" + "\u2603" * 500
    )
    (event,) = cluster.events.values()
    assert event["note"] == "x" + "\u2603" * 339 + " ..."
    assert len(event["note"].encode()) <= 1024
