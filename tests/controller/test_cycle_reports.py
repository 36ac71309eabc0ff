"""What is reported cycle after cycle, and what is not reported twice."""

from __future__ import annotations

import pytest

from controller.binding.apply import BindAttempt, Result
from placement import v1
from placement.errors import UnavailableError
from tests.controller.bodies import gang, pod
from tests.controller.cycle_setting import (
    NO_ROOM,
    Setting,
    all_on_first_node,
    gated,
    nobody_fits,
    raises,
)
from tests.kubernetes import build


def test_failures_whose_words_differ_are_told_once(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    words = iter(range(1000))
    setting.answer = lambda _: raises(UnavailableError(f"address {next(words)}"))(None)
    setting.cycles(200.0)
    assert [one["reason"] for one in setting.told()] == ["NoAnswer"]


def test_a_gang_of_which_no_pod_can_be_bound_is_reported(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a", "b"), pod("a"), pod("b"))
    setting.binds = lambda binding: BindAttempt(binding, Result.REFUSED, "403 by a webhook")
    setting.cycles(29.0)
    assert setting.told() == []
    setting.cycles(30.0)
    told = setting.told()[-1]
    assert (told["status"], told["reason"]) == ("False", "NotBound")
    assert "a on n1: 403 by a webhook" in told["message"]
    pods = [body for path, body in setting.server.patches if "/pods/" in path]
    assert {one["status"]["conditions"][0]["reason"] for one in pods} == {"SchedulerError"}
    setting.binds = lambda binding: BindAttempt(binding, Result.BOUND)
    setting.cycles(70.0)
    assert setting.told()[-1]["status"] == "True"


def test_a_gang_whose_plans_are_always_overtaken_is_reported(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    others = iter(range(10_000))

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        # While the answer is made, another scheduler binds a pod to the node.
        setting.observe(build.pod(f"x{next(others)}", nodeName="n1"))
        return all_on_first_node(request)

    setting.answer = answer
    setting.cycles(40.0)
    assert setting.bound == []
    assert [one["reason"] for one in setting.told()] == ["NotBound"]
    assert "overtaken by events: node n1 has changed" in setting.told()[-1]["message"]


def test_who_does_not_lead_any_more_tells_no_old_figures(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    setting.answer = raises(UnavailableError("down"))
    setting.cycle.once()

    def pending() -> float | None:
        return setting.metrics.registry.get_sample_value(
            "placement_controller_gangs", {"state": "pending"}
        )

    assert pending() == 1
    setting.metrics.nothing_known()
    assert pending() == 0


def test_what_cannot_be_written_keeps_no_other_report_waiting(setting: Setting) -> None:
    setting.server.refused["bad"] = 0
    setting.observe(build.node("n1"), gang("bad", "a"), pod("a"))
    setting.cycles(100.0)
    # After 2, 4, 8 seconds, and then every 15.
    assert 7 <= setting.server.refused["bad"] <= 12
    setting.observe(gang("good", "b"), pod("b"))
    setting.cycles(1.0)
    assert setting.told()[-1]["status"] == "True"
    attempts = setting.server.refused.pop("bad")
    assert attempts >= 7
    setting.cycles(16.0)
    assert sum("podgangs/bad" in path for path, _ in setting.server.patches) == 1


def test_numbers_that_change_make_no_new_events(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    numbers = iter(range(1000))

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        reason = v1.Reason(code=NO_ROOM.code, message=f"room for {next(numbers)}")
        return v1.Placement(gangs=[v1.GangResult(name=request.gangs[0].name, reasons=[reason])])

    setting.answer = answer
    setting.cycles(280.0)
    # The gang's condition has them all; the gang and its pod have an event each.
    assert len(setting.told()) >= 8
    assert len(setting.server.events) == 2


def test_pods_get_the_last_message_too_if_later(setting: Setting) -> None:
    """They get one a minute; what was said in between must not stay for ever."""
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    message = "room for 3"

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        reason = v1.Reason(code=NO_ROOM.code, message=message)
        return v1.Placement(gangs=[v1.GangResult(name=request.gangs[0].name, reasons=[reason])])

    def written() -> list[str]:
        bodies = [body for path, body in setting.server.patches if "/pods/" in path]
        for body in bodies:
            setting.observe({**pod("a"), "status": body["status"]})
        return [body["status"]["conditions"][0]["message"] for body in bodies]

    setting.answer = answer
    setting.cycles(10.0)
    assert written() == ["Outcompeted: room for 3"]
    message = "room for 2"
    setting.cycles(10.0)
    assert written() == ["Outcompeted: room for 3"]
    setting.cycles(130.0)
    assert written() == ["Outcompeted: room for 3", "Outcompeted: room for 2"]
    setting.cycles(130.0)
    assert len(written()) == 2


def test_a_later_gang_of_the_name_is_not_told_what_was_said_about_the_first(
    setting: Setting,
) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    later = gang("g", "b")
    later["metadata"]["uid"] = "later"

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        # Meanwhile it is deleted and made anew.
        setting.observe(later, pod("b"))
        return nobody_fits(request)

    setting.answer = answer
    setting.cycle.once()
    assert setting.told() == []
    setting.answer = all_on_first_node
    setting.cycles(3.0)
    assert setting.bound == ["b on n1"]
    assert [one["status"] for one in setting.told()] == ["True"] * len(setting.told())


def test_an_answer_about_pods_that_are_gone_is_forgotten(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    setting.answer = nobody_fits
    setting.cycle.once()
    assert [one["reason"] for one in setting.told()] == ["Outcompeted"]
    setting.observe({**gated("a"), "metadata": {**gated("a")["metadata"], "uid": "new"}})
    setting.cycles(5.0)
    setting.answer = raises(UnavailableError("down"))
    setting.observe({**pod("a"), "metadata": {**pod("a")["metadata"], "uid": "new"}})
    setting.cycles(5.0)
    pods = [path for path, _ in setting.server.patches if "/pods/" in path]
    assert len(pods) == 1


def test_a_gang_whose_node_is_gone_is_told_so_at_once(setting: Setting) -> None:
    runs = gang("g", "a")
    placed = {"type": "Scheduled", "status": "True", "reason": "Placed", "lastTransitionTime": "x"}
    runs["status"]["conditions"] = [*runs["status"]["conditions"], placed]
    setting.observe(build.node("n1"), runs, pod("a", node="n1"))
    setting.cycles(1.0)
    setting.cache.observe("Node", build.node("n1"), deleted=True)
    setting.cycles(1.0)
    assert (setting.told()[-1]["status"], setting.told()[-1]["reason"]) == (
        "False",
        "WaitingForPods",
    )


def test_reports_that_cannot_be_written_are_told_of_once(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"g{i}" for i in range(9)]
    setting.observe(build.node("n1"), *(gang(name, f"{name}-a") for name in names))
    setting.observe(*(pod(f"{name}-a") for name in names))
    setting.answer = nobody_fits
    for name in names:
        setting.server.refused[name] = setting.server.refused[f"{name}-a"] = 0
    setting.cycle.once()
    told = [one.message for one in caplog.records if "not written" in one.message]
    assert told == ["report not written: 403 by a webhook", "17 more reports not written"]
