"""Gangs with gated pods, cycle after cycle: they are asked about, and room is kept for them."""

from __future__ import annotations

from placement import v1
from placement.errors import UnavailableError
from tests.controller.bodies import gang, pod
from tests.controller.cycle_setting import (
    Setting,
    all_on_first_node,
    gated,
    nobody_fits,
    raises,
)
from tests.kubernetes import build


def test_what_was_answered_about_a_gated_gang_is_not_its_state(setting: Setting) -> None:
    """It is asked along with its base; once its gate has gone it is another gang."""
    setting.observe(build.node("n1"), gang("base", "a"), pod("a"))
    setting.observe(gang("scaled", "s"), gated("s"))

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        placement = nobody_fits(request)
        del placement.gangs[0].reasons[:]
        placement.MergeFrom(v1.Placement(bindings=all_on_first_node(request).bindings[:1]))
        return placement

    setting.answer = answer
    setting.cycles(5.0)
    assert setting.bound == ["a on n1"]
    setting.answer = raises(UnavailableError("down"))
    open_ = pod("s")
    open_["metadata"]["labels"] = {"grove.io/base-podgang": "base"}
    setting.observe(open_)
    setting.cycles(5.0)
    assert [path for path, _ in setting.server.patches if "scaled" in path or "/s/" in path] == []


def test_the_message_says_for_whom_room_is_kept(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("base", "a"), pod("a", node="n1"))
    setting.observe(gang("scaled", "s"), gated("s"), gang("other", "x"), pod("x"))
    setting.answer = nobody_fits
    setting.cycle.once()
    (told,) = (one for one in setting.told() if one["status"] == "False")
    assert "room is kept for a moment for scaled gangs" in told["message"]
    assert told["message"].endswith(": ml/scaled")


def test_when_room_is_kept_no_longer_those_that_wait_are_asked_about_at_once(
    setting: Setting,
) -> None:
    setting.observe(build.node("n1"), gang("base", "a"), pod("a", node="n1"))
    setting.observe(gang("scaled", "s"), gated("s"), gang("other", "x"), pod("x"))
    setting.answer = nobody_fits
    setting.cycles(29.0)
    setting.answer = all_on_first_node
    setting.cycles(2.0)
    assert setting.bound == ["x on n1"]
