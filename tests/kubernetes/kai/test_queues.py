"""Queues of KAI: what their numbers mean, and where gangs run."""

from __future__ import annotations

import pytest

from placement.kubernetes.queues import UNLIMITED
from tests.kubernetes.build import (
    gang,
    group,
    kai_queue,
    node,
    pod,
    problems,
    queues,
    said,
    translated,
)


def test_minus_one_is_no_limit_and_zero_is_a_limit() -> None:
    found = queues(kai_queue("none", limit=-1), kai_queue("zero", limit=0), kai_queue("x", limit=8))
    assert [dict(found[n].limit) for n in ("none", "zero", "x")] == [{}, {"gpus": 0}, {"gpus": 8}]


def test_a_quota_that_is_not_given_is_zero_and_one_without_end_holds_all() -> None:
    resources = {"cpu": {"quota": -1}, "memory": {"quota": 2, "limit": 3}}
    found = queues(kai_queue("q", quota=-1, resources=resources), kai_queue("r"))
    assert dict(found["q"].guaranteed) == {"gpus": UNLIMITED, "memory": 2_000_000}
    assert dict(found["q"].limit) == {"memory": 3_000_000}
    assert dict(found["r"].guaranteed) == {"gpus": 0, "cpu": 0, "memory": 0}


def test_a_limit_of_more_digits_than_floats_have_limits_nothing() -> None:
    found = queues(kai_queue("q", quota=10**400, limit=10**400))["q"]
    assert dict(found.limit) == dict(gpus=UNLIMITED)
    assert found.guaranteed["gpus"] == UNLIMITED


def test_a_label_that_names_no_queue_is_a_problem_of_its_gang() -> None:
    waiting = gang(podgroups=[group("w", "a")])
    named = pod("a", labels={"kai.scheduler/queue": "team a"})
    assert problems(kai_queue("q"), node("n1"), named, waiting) == [
        ("PodGang ml/g", "", "'team a' is not a queue name")
    ]


@pytest.mark.parametrize(("queue", "warned"), [("org", 1), ("leaf", 0)])
def test_a_gang_in_a_queue_of_kai_with_queues_below_it_is_warned_of(
    queue: str, warned: int
) -> None:
    waiting = [
        node("n1"),
        pod("a", labels={"kai.scheduler/queue": queue}),
        gang(podgroups=[group("w", "a")]),
    ]
    found = said(translated(kai_queue("org"), kai_queue("leaf", "org"), *waiting).warnings)
    assert len([one for one in found if one.startswith("Queue org: spec: has queues")]) == warned
