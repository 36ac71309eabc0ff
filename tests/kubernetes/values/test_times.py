"""Times, durations, when the input was taken, and disruption budgets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placement.kubernetes import Objects, translate
from placement.kubernetes.values.times import parse_duration, parse_time
from tests.kubernetes.build import (
    Body,
    gang,
    group,
    node,
    only_gang,
    pod,
    problems,
    request,
    said,
    thing,
    translated,
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T14:00:00+02:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00.250000Z", datetime(2026, 1, 31, 12, 0, 0, 250_000, UTC)),
        ("yesterday", None),
        ("", None),
    ],
)
def test_times_are_in_utc(text: str, want: datetime | None) -> None:
    assert parse_time(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1h30m", timedelta(minutes=90)),
        ("1.5s", timedelta(seconds=1.5)),
        ("250ms", timedelta(milliseconds=250)),
        ("0", timedelta()),
        ("5", None),
        ("1h x", None),
        ("999999999h", None),
        ("", None),
    ],
)
def test_durations_of_go(text: str, want: timedelta | None) -> None:
    assert parse_duration(text) == want


def stamped(body: Body, moment: str) -> Body:
    body["metadata"]["creationTimestamp"] = moment
    return body


def test_a_gang_waits_since_it_was_made() -> None:
    sent = only_gang(stamped(gang(podgroups=[group("w", least=0)]), "2026-01-01T00:00:00Z"))
    assert sent.create_time.ToJsonString() == "2026-01-01T00:00:00Z"
    assert not only_gang(gang(podgroups=[group("w", least=0)])).HasField("create_time")


def test_the_input_was_taken_at_its_newest_time() -> None:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-02T00:00:00Z"}
    heard = node("n1", conditions=[ready])
    old = stamped(pod("a"), "2026-01-01T23:59:59Z")
    assert request(heard, old).snapshot.as_of.ToJsonString() == "2026-01-02T00:00:00Z"


def test_what_is_no_time_hides_none_of_the_same_object() -> None:
    wrong = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-13-02T00:00:00Z"}
    heard = stamped(node("n1", conditions=[wrong]), "2026-01-02T00:00:00Z")
    assert request(heard).snapshot.as_of.ToJsonString() == "2026-01-02T00:00:00Z"


def test_what_lies_ahead_by_intention_is_not_now() -> None:
    leaving = pod("a", metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"})
    assert not request(node(), leaving).snapshot.HasField("as_of")


def test_as_of_may_be_given() -> None:
    late = datetime(2027, 1, 1)
    objects = Objects.of([stamped(node(), "2026-01-01T00:00:00Z")])
    sent = translate(objects, as_of=late).request
    assert sent.snapshot.as_of.ToJsonString() == "2027-01-01T00:00:00Z"


def test_a_time_that_is_none_is_a_problem() -> None:
    assert problems(stamped(gang(podgroups=[group("w", least=0)]), "soon")) == [
        (
            "PodGang ml/g",
            "metadata.creationTimestamp",
            "'soon' is not a time such as 2026-01-31T12:00:00Z",
        )
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("yes", "'yes' is not a time such as 2026-01-31T12:00:00Z"),
        ("", "must be a time such as 2026-01-31T12:00:00Z, not empty"),
        (True, "must be a string, not true; put it in quotes"),
    ],
)
def test_the_time_of_a_deletion_is_a_time(text: Any, told: str) -> None:
    deleted = {"deletionTimestamp": text}
    assert problems(
        node(),
        pod("a", metadata=deleted),
        gang(metadata=deleted, podgroups=[group("w", "a")]),
    ) == [
        ("Pod ml/a", "metadata.deletionTimestamp", told),
        ("PodGang ml/g", "metadata.deletionTimestamp", told),
    ]


def test_a_note_of_the_start_that_is_no_time_is_told() -> None:
    note = "kai.scheduler/last-start-timestamp"
    runs = pod("a", nodeName="n1", phase="Running")
    runs["status"]["startTime"] = "2026-01-01T00:00:00Z"
    noted = {"annotations": {note: "yesterday"}}
    done = translated(node(), runs, gang(metadata=noted, podgroups=[group("w", "a")]))
    assert done.request.gangs[0].start_time.ToJsonString() == "2026-01-01T00:00:00Z"
    assert said(done.warnings) == (
        f"PodGang ml/g: metadata.annotations[{note}]: 'yesterday' is not a time:"
        " the start of its youngest pod counts",
    )


def budget(status: Body | None = None, **spec: Any) -> Body:
    selector = {"selector": {"matchLabels": {"app": "x"}}}
    return thing("PodDisruptionBudget", "policy/v1", "b", namespace="ml",
                 spec={**selector, **spec}, status=status or {})  # fmt: skip


def allowed(body: Body) -> int:
    pods = [pod(f"p{i}", labels={"app": "x"}, nodeName="n1" if i < 3 else "") for i in range(4)]
    (sent,) = request(node("n1"), *pods, body).snapshot.disruption_budgets
    return sent.allowed


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (budget({"disruptionsAllowed": 2}, minAvailable=3), 2),
        (budget(minAvailable=2), 1),
        (budget(minAvailable="50%"), 1),
        (budget(minAvailable="100%"), 0),
        (budget(maxUnavailable=2), 1),
        (budget(maxUnavailable="50%"), 1),
        (budget(maxUnavailable=0), 0),
        (budget(selector=None, minAvailable=0), 0),
    ],
)
def test_a_budget_allows_what_the_cluster_says_or_the_pods_leave(body: Body, want: int) -> None:
    """Three of four pods run."""
    assert allowed(body) == want


def test_a_pod_that_is_not_ready_is_missing_to_a_budget() -> None:
    """A pod without the condition counts as ready."""
    says = {"Ready": "True", "Starting": "False", "Lost": "Unknown", "Silent": ""}
    pods = [pod(name.lower(), labels={"app": "x"}, nodeName="n1") for name in says]
    for body, status in zip(pods, says.values(), strict=True):
        body["status"]["conditions"] = [{"type": "Ready", "status": status}] if status else []
    sent = request(node("n1"), *pods, budget(minAvailable=1), gang(podgroups=[group("w", "ready")]))
    assert sent.snapshot.disruption_budgets[0].allowed == 1
    pods[0]["status"]["conditions"][0]["status"] = "yes"
    assert problems(node("n1"), *pods, budget(minAvailable=1)) == [
        (
            "Pod ml/ready",
            "status.conditions[0].status",
            "must be one of True, False, Unknown, not yes",
        )
    ]


def test_a_budget_is_sent_with_the_labels_that_it_looks_at() -> None:
    sent = request(
        node("n1"), pod("a", labels={"app": "x", "z": "y"}, nodeName="n1"), budget(minAvailable=0),
        gang(podgroups=[group("w", "a")]),
    )  # fmt: skip
    (only,) = sent.snapshot.disruption_budgets
    assert (only.name, dict(only.selector.match_labels)) == (
        "namespaces/ml/poddisruptionbudgets/b", {"app": "x"},
    )  # fmt: skip
    assert dict(sent.gangs[0].groups[0].pod_sets[0].template.labels) == {"app": "x"}
