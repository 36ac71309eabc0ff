"""What is written about gangs and pods, and what is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from controller.cluster.gang_state import GangState, GroupState, Lifecycle
from controller.reports.notices import Notice, of_half_bound, of_result, of_waiting
from controller.reports.report import GangStatus, patch, pod_patch, wanted_status
from placement import v1

INITIALIZED = {"type": "Initialized", "status": "True", "reason": "PodGangPodsCreated"}
NOW = "2026-11-01T10:00:00Z"
WAITS = Notice("InsufficientResources", "rack r1 has room for 3 of 4 pods")


def state(
    *, bound: int, ready: int = 0, free: int = 0, lifecycle: Lifecycle = Lifecycle.PENDING
) -> GangState:
    keys = tuple(("ml", f"p{i}") for i in range(free))
    return GangState(("ml", "g"), "1", 1, lifecycle, (GroupState("w", 2, bound, ready, keys),))


def body(*conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ml", "name": "g", "resourceVersion": "7", "generation": 3},
        "status": {"phase": "Pending", "conditions": list(conditions), **status},
    }


@pytest.mark.parametrize(
    ("stands", "notice", "want_phase", "want_scheduled"),
    [
        pytest.param(state(bound=2, ready=2), None, "Running", True, id="runs"),
        pytest.param(state(bound=2, ready=1), None, "Starting", True, id="starts"),
        pytest.param(state(bound=1, ready=1, free=1), WAITS, "Pending", False, id="half"),
        pytest.param(state(bound=0, free=2), WAITS, "Pending", False, id="waits"),
    ],
)
def test_phase_and_condition_follow_the_pods(
    stands: GangState, notice: Notice | None, want_phase: str, want_scheduled: bool
) -> None:
    wanted = wanted_status(stands, notice)
    assert wanted is not None
    assert (wanted.phase, wanted.scheduled) == (want_phase, want_scheduled)


def test_nothing_is_said_before_something_is_known() -> None:
    assert wanted_status(state(bound=0, free=2), None) is None


@pytest.mark.parametrize(
    "lifecycle", [Lifecycle.FOREIGN, Lifecycle.UNINITIALIZED, Lifecycle.ENDING]
)
def test_nothing_is_said_of_gangs_that_are_not_ours(lifecycle: Lifecycle) -> None:
    assert wanted_status(state(bound=2, lifecycle=lifecycle), WAITS) is None


def test_one_pod_is_told_as_one() -> None:
    groups = (GroupState("w", 1, 1, 1, ()),)
    wanted = wanted_status(GangState(("ml", "g"), "1", 1, Lifecycle.PENDING, groups), None)
    assert wanted is not None
    assert wanted.message == "1 pod is bound, the minimum is 1"


def test_extras_that_wait_are_told_with_the_reason() -> None:
    wanted = wanted_status(state(bound=2, free=1), WAITS)
    assert wanted is not None
    assert wanted.scheduled
    assert wanted.message == (
        "2 pods are bound, the minimum is 2, 1 more waits: rack r1 has room for 3 of 4 pods"
    )


def test_conditions_of_others_are_carried_along_and_guarded_by_the_version() -> None:
    change = patch(body(INITIALIZED), GangStatus("Starting", True, "Placed", "m", 0.5), now=NOW)
    assert change is not None
    assert change["metadata"] == {"resourceVersion": "7"}
    assert change["status"]["phase"] == "Starting"
    assert change["status"]["placementScore"] == 0.5
    first, own = change["status"]["conditions"]
    assert first == INITIALIZED
    assert own == {
        "type": "Scheduled",
        "status": "True",
        "reason": "Placed",
        "message": "m",
        "observedGeneration": 3,
        "lastTransitionTime": NOW,
    }


def test_what_is_written_is_not_written_again() -> None:
    wanted = GangStatus("Starting", True, "Placed", "m", 1.0)
    change = patch(body(INITIALIZED), wanted, now=NOW)
    assert change is not None
    written = body(*change["status"]["conditions"], phase="Starting", placementScore=1.0)
    assert patch(written, wanted, now="2026-11-01T11:00:00Z") is None


def test_the_transition_time_changes_with_the_status_alone() -> None:
    def write(before: dict[str, Any], wanted: GangStatus, now: str) -> dict[str, Any]:
        change = patch(before, wanted, now=now)
        assert change is not None
        return body(*change["status"]["conditions"], phase=wanted.phase)

    waits = write(body(), GangStatus("Pending", False, "A", "a"), "T1")
    on = write(waits, GangStatus("Pending", False, "B", "b"), "T2")
    assert on["status"]["conditions"][0]["lastTransitionTime"] == "T1"
    placed = write(on, GangStatus("Starting", True, "Placed", "c"), "T3")
    assert placed["status"]["conditions"][0]["lastTransitionTime"] == "T3"


def test_a_score_is_left_alone_while_unknown_and_removed_with_the_placement() -> None:
    scored = body(placementScore=0.5)
    kept = patch(scored, GangStatus("Running", True, "Placed", "m"), now=NOW)
    assert kept is not None
    assert "placementScore" not in kept["status"]
    lost = patch(scored, GangStatus("Pending", False, "A", "m"), now=NOW)
    assert lost is not None
    assert lost["status"]["placementScore"] is None


def test_a_pod_without_a_place_says_so_once() -> None:
    pod: dict[str, Any] = {"status": {"conditions": []}}
    change = pod_patch(pod, WAITS, now=NOW)
    assert change is not None
    (condition,) = change["status"]["conditions"]
    assert condition["type"] == "PodScheduled"
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert pod_patch({"status": {"conditions": [condition]}}, WAITS, now="later") is None


@pytest.mark.parametrize("reason", ["Refused", "NoAnswer", "WaitingForPods", "Unsupported"])
def test_autoscalers_are_not_called_where_room_would_not_help(reason: str) -> None:
    change = pod_patch({"status": {}}, Notice(reason, "m"), now=NOW)
    assert change is not None
    assert change["status"]["conditions"][0]["reason"] == "SchedulerError"


def test_a_notice_has_the_first_reasons_word_and_every_reasons_message() -> None:
    result = v1.GangResult(
        reasons=[
            v1.Reason(code=v1.ReasonCode.REASON_CODE_REQUIRED_DOMAIN_TOO_SMALL, message="one"),
            v1.Reason(code=v1.ReasonCode.REASON_CODE_OUTCOMPETED, message="two"),
        ]
    )
    assert of_result(result) == Notice("RequiredDomainTooSmall", "one; two")
    assert of_result(v1.GangResult(placed=True, placement_score=1.0)) == Notice(score=1.0)


def test_messages_are_joined_to_one_sentence() -> None:
    reasons = [v1.Reason(message="cpu binds."), v1.Reason(message="its own priority is 0.")]
    assert of_result(v1.GangResult(reasons=reasons)).message == "cpu binds; its own priority is 0."


def test_a_priority_that_only_keeps_room_is_not_told() -> None:
    """Gated gangs are asked about with one more than their own."""
    text = "the gang fits if gangs a (priority 1001), b/c (priority 1001) and c (priority 9) wait"
    name = "namespaces/ml/podgangs/late"
    result = v1.GangResult(name=name, reasons=[v1.Reason(message=text)])
    assert of_result(result).message == text
    assert of_result(result, kept=[("ml", "a"), ("b", "c")]).message == (
        "the gang fits if gangs a, b/c and c (priority 9) wait"
    )


@pytest.mark.parametrize("code", v1.ReasonCode.values())
def test_every_reason_makes_a_word_that_a_condition_takes(code: v1.ReasonCode) -> None:
    notice = of_result(v1.GangResult(reasons=[v1.Reason(code=code, message="m")]))
    assert notice.reason.isalpha()


def test_half_a_gang_is_told_exactly() -> None:
    notice = of_half_bound(state(bound=1, free=1), WAITS, None)
    assert notice.message == (
        "group w runs 1 of 2 pods; the rest waits: rack r1 has room for 3 of 4 pods"
    )


def test_missing_pods_are_counted() -> None:
    gated = GangState(
        ("ml", "g"), "1", 1, Lifecycle.WAITING, (GroupState("w", 3, 1, 0, (), gated=1),)
    )
    assert of_waiting(gated).message == (
        "group w has 1 of 3 pods that run or may be bound, 1 is gated"
    )


def test_long_messages_are_cut() -> None:
    result = v1.GangResult(
        reasons=[v1.Reason(code=v1.ReasonCode.REASON_CODE_POD_RULES, message="x" * 5000)]
    )
    assert len(of_result(result).message) <= 1500


@pytest.mark.parametrize(
    "code",
    [
        v1.ReasonCode.REASON_CODE_PODS_MISSING,
        v1.ReasonCode.REASON_CODE_UNINITIALIZED,
        v1.ReasonCode.REASON_CODE_BASE_NOT_PLACED,
        v1.ReasonCode.REASON_CODE_QUEUE_LIMIT,
    ],
)
def test_what_no_room_helps_makes_no_autoscaler_act(code: v1.ReasonCode) -> None:
    notice = of_result(v1.GangResult(reasons=[v1.Reason(code=code, message="m")]))
    change = pod_patch({"metadata": {}, "spec": {}, "status": {}}, notice, now=NOW)
    assert change is not None
    assert change["status"]["conditions"][0]["reason"] == "SchedulerError"
