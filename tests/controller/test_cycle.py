"""Who is asked about, when, and what becomes of the answer, cycle after cycle.

What a cycle does in a whole cluster is tested on a real API server. The tests here, and those in
`test_cycle_reports` and `test_cycle_gates`, are about events that take too long there, or that
happen there only by luck.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from controller.batch import Window
from placement import v1
from placement.errors import BusyError, InvalidRequestError, UnavailableError, Violation
from tests.controller.bodies import gang, pod
from tests.controller.cycle_setting import (
    Setting,
    all_on_first_node,
    nobody_fits,
    raises,
)
from tests.kubernetes import build


def unreadable(name: str) -> build.Body:
    return gang(name, f"{name}-a", priorityClassName="there-is-none")


def test_a_gang_that_has_a_place_is_bound(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a", "b"), pod("a"), pod("b"))
    setting.cycle.once()
    assert setting.bound == ["a on n1", "b on n1"]
    assert setting.told()[-1]["status"] == "True"


def test_a_service_that_is_busy_for_years_is_asked_again_within_a_minute(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    setting.answer = raises(BusyError("busy", retry_after=1e9))
    setting.cycle.once()
    assert setting.pause == 60.0


def test_after_a_failure_who_is_refused_does_not_keep_it_busy(setting: Setting) -> None:
    """The gang that the service was asked about in vain is gone, the refused one is not."""
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    setting.answer = raises(UnavailableError("down"))
    setting.cycle.once()
    setting.observe(unreadable("h"), pod("h-a"))
    setting.cache.observe("PodGang", gang("g", "a"), deleted=True)
    setting.clock.now += 20.0
    assert setting.pause <= 0
    setting.cycle.once()
    assert setting.pause >= 1.0


def test_without_an_answer_the_question_stays(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    setting.answer = raises(UnavailableError("down"))
    setting.cycles(100.0)
    # At most every ten seconds, and never given up.
    assert 10 <= len(setting.asked) <= 16
    setting.answer = all_on_first_node
    setting.cycles(10.0)
    assert setting.bound == ["a on n1"]


def test_where_others_bind_all_the_time_it_asks_for_quicker_answers(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    others = iter(range(10_000))

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        if request.time_limit.ToTimedelta().total_seconds() > 1.5:
            setting.observe(build.pod(f"x{next(others)}", nodeName="n1"))
        return all_on_first_node(request)

    setting.answer = answer
    setting.cycles(10.0)
    assert setting.bound == ["a on n1"]
    assert [one.time_limit.seconds for one in setting.asked] == [8, 4, 2, 1]
    setting.observe(gang("h", "b"), pod("b"))
    setting.clock.now += 1.0
    setting.cycle.once()
    assert setting.asked[-1].time_limit.seconds == 8


def test_a_plan_of_an_earlier_term_is_not_carried_out(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        # The lease was lost, another led, and it is ours again.
        setting.lease.term += 1
        return all_on_first_node(request)

    setting.answer = answer
    setting.cycle.once()
    assert setting.bound == []
    assert not setting.authority.leads()


def test_of_more_gangs_than_a_question_takes_everybody_has_a_turn(
    pool: ThreadPoolExecutor,
) -> None:
    setting = Setting(pool, window=Window(idle=0.0, longest=0.0, most=2))
    setting.observe(build.node("n1"))
    for name in "abcde":
        setting.observe(gang(name, f"{name}-a"), pod(f"{name}-a"))
    setting.answer = nobody_fits
    setting.cycles(600.0)
    turns = Counter(one.name for request in setting.asked for one in request.gangs)
    assert len(turns) == 5
    assert min(turns.values()) >= 9
    # And back-off holds: at the longest one three questions a minute do for five gangs.
    assert len(setting.asked) < 60


def test_gangs_without_a_score_wait_until_there_is_room_in_the_question(
    pool: ThreadPoolExecutor,
) -> None:
    setting = Setting(pool, window=Window(idle=0.0, longest=0.0, most=2))
    setting.observe(build.node("n1"), gang("runs", "r"), pod("r", node="n1"))
    setting.answer = nobody_fits
    for name in "abc":
        setting.observe(gang(name, f"{name}-a"), pod(f"{name}-a"))
    setting.cycles(100.0)
    # Back-off holds: without it there would be one every quarter of a second.
    assert len(setting.asked) < 40


def test_a_gang_about_which_nothing_is_said_is_not_asked_about_without_end(
    setting: Setting,
) -> None:
    setting.observe(build.node("n1"), gang("runs", "r"), pod("r", node="n1"))
    setting.answer = lambda request: v1.Placement()
    setting.cycles(10.0)
    assert len(setting.asked) == 1


def test_a_dry_run_logs_each_plan_once(
    pool: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    setting = Setting(pool, binds=False)
    caplog.set_level("INFO", "controller.binding.dry_run")

    def logged() -> list[str]:
        return [m for m in caplog.messages if m.startswith(("would", "no longer has"))]

    setting.observe(build.node("n1"), gang("g", "a"), pod("a"), gang("h", "b"), pod("b"))
    setting.cycles(200.0)
    assert len(setting.asked) > 3
    assert logged() == ["would bind a on n1", "would bind b on n1"]
    setting.answer = nobody_fits
    setting.cycles(200.0)
    assert logged()[2:] == ["no longer has a place"] * 2
    assert setting.bound == []


def test_what_is_planned_without_is_told_once(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    """A node that cannot be read, and one that the service finds fault with, again and again."""
    setting.observe(build.node("n0", allocatable={"cpu": "many"}), build.node("n1"))
    setting.observe(build.node("n2"), gang("g", "a"), pod("a"))

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        names = [node.name for node in request.snapshot.nodes]
        if "nodes/n1" in names:
            field = f"snapshot.nodes[{names.index('nodes/n1')}].name"
            raise InvalidRequestError(violations=[Violation(field, "is odd")])
        return nobody_fits(request)

    setting.answer = answer
    setting.cycles(30.0)
    assert len(setting.asked) > 2
    assert [(r.object, r.getMessage()) for r in caplog.records if hasattr(r, "object")] == [
        ("Node n0", "left out: status.allocatable[cpu]: 'many' is not a quantity"),
        ("Node n1", "left out: name: is odd"),
    ]


def test_an_answer_is_logged_with_the_digest_of_its_request(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "controller.asking")
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        placement = nobody_fits(request)
        placement.request_digest = "sha256:ab12"
        return placement

    setting.answer = answer
    setting.cycle.once()
    (line,) = (one for one in caplog.records if hasattr(one, "request"))
    assert (line.message, line.request) == ("answered: 0 bindings for 1 gangs", "sha256:ab12")
