"""Gangs of which it is not known whether their pods are bound."""

from __future__ import annotations

from collections.abc import Callable

from controller.binding.apply import BindAttempt, Binding, Result
from placement import v1
from placement.cluster import ApiError
from tests.controller.bodies import gang, member, pod
from tests.controller.cycle_setting import Setting, all_on_first_node
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


def refuses(name: str) -> Callable[[Binding], BindAttempt]:
    """An API server that never binds the pods of a name."""

    def bind(binding: Binding) -> BindAttempt:
        refused = name in str(binding)
        return BindAttempt(binding, Result.REFUSED if refused else Result.BOUND, "not allowed")

    return bind


def test_a_gang_whose_bindings_are_refused_leaves_its_room_to_others(setting: Setting) -> None:
    """There is room for one of them; what is refused goes first, whenever it is asked about."""
    setting.observe(build.node("n1"), gang("g", "a"), gang("h", "b"), pod("a"), pod("b"))
    setting.binds = refuses("a")

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        first = sorted(request.gangs, key=lambda one: one.name)[:1]
        return all_on_first_node(v1.ComputePlacementRequest(gangs=first, snapshot=request.snapshot))

    setting.answer = answer
    setting.cycles(5.0)
    assert [one.partition(" ")[0].rpartition("/")[2] for one in setting.bound] == ["b"]
    sizes = [len(request.gangs) for request in setting.asked]
    assert sizes[:2] == [2, 1]
    setting.observe(pod("b", node="n1"))
    setting.cycles(120.0)
    # It is tried again, ever more rarely.
    assert 5 <= len(setting.asked) <= 16
    assert "NotBound" in [one["reason"] for one in setting.told()]


def test_what_is_based_on_a_gang_that_is_refused_waits_with_it(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a"), gang("g-1", "b"))
    setting.observe(pod("a"), member("b", base="g"))
    setting.binds = refuses("a")
    setting.cycles(20.0)
    assert setting.bound == []
    assert {len(request.gangs) for request in setting.asked} == {2}
    # It is no reason to ask about its base before that is due.
    assert 4 <= len(setting.asked) <= 6


def test_a_gang_that_is_bound_in_part_keeps_its_turn(setting: Setting) -> None:
    setting.observe(build.node("n1"), gang("g", "a", "b"), pod("a"), pod("b"))
    setting.binds = refuses("b")
    setting.cycles(0.5)
    setting.observe(pod("a", node="n1"))
    setting.cycles(60.0)
    assert all(len(request.gangs) == 1 for request in setting.asked)
