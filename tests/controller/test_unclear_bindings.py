"""Gangs of which it is not known whether their pods are bound."""

from __future__ import annotations

from controller.binding.apply import BindAttempt, Binding, Result
from placement.cluster import ApiError
from tests.controller.bodies import gang, pod
from tests.controller.cycle_setting import Setting
from tests.kubernetes import build


def unanswered(binding: Binding) -> BindAttempt:
    return BindAttempt(binding, Result.UNKNOWN, "no answer")


def free(binding: Binding) -> BindAttempt:
    return BindAttempt(binding, Result.SKIPPED)


def unreadable(binding: Binding) -> BindAttempt:
    raise ApiError(0, "no answer")


def test_a_gang_is_not_said_to_be_placed_before_that_is_known(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    setting.binds, setting.looks = unanswered, unreadable
    setting.cycles(60.0)
    assert setting.told() == []
    setting.observe(pod("a", node="n1"))
    setting.cycles(5.0)
    assert [one["reason"] for one in setting.told()] == ["Placed"]
    assert len(setting.asked) == 1


def test_a_gang_whose_bindings_never_get_an_answer_backs_off_and_is_told(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), pod("a"))
    setting.binds, setting.looks = unanswered, free
    setting.cycles(120.0)
    assert [one["reason"] for one in setting.told()] == ["NotBound"]
    assert "no answer" in setting.told()[0]["message"]
    # With what others leave, a gang is tried again after ten seconds at most.
    assert 8 <= len(setting.asked) <= 16
