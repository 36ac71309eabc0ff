"""Pods choose among the reservations of a node, and what the user of an allocate-once one leaves
over is free; until then all of it is held.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placement_service.entities.request import CPU
from placement_service.entities.reservations import ReservationSelector
from placement_service.entities.selectors import NodeSelectorTerm, Operator, Requirement
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import ClassIdx, LevelIdx
from placement_service.formulation.rules import reservation_columns, reservations
from placement_service.formulation.rules.protocol import NO_CEILING
from placement_service.formulation.rules.reserved_room import Kind, ReservedRoom, Row
from tests.drawing import GPU
from tests.placed import Placed, solve
from tests.questions.ask import ask
from tests.questions.everything import draw
from tests.scenario import Group, Scenario

#: What pods ask for that run in one reservation or not at all.
REQUIRED = {"required_reservation": ReservationSelector("reservations/held")}

#: A node of eight GPUs that are all held for one pod of group "own".
ONE = Scenario("x1=8").hold("held", "x1", 8, "own", allocate_once=True)


def used(placed: Placed) -> set[str]:
    return {b.reservation.removeprefix("reservations/") for b in placed.bindings if b.reservation}


def test_what_its_pod_leaves_over_is_free_for_all() -> None:
    scenario = ONE.gang("a", Group("own", pods=1, gpus=3)).gang("b", pods=1, gpus=5)
    placed = scenario.place().expect(placed=("a", "b"), admitted=8)
    assert used(placed) == {"held"}


def test_what_its_pod_leaves_over_is_free_for_gangs_of_higher_priority() -> None:
    scenario = ONE.gang("a", Group("own", pods=1, gpus=3))
    scenario.gang("b", pods=1, gpus=5, priority=1).place().expect(placed=("a", "b"))


def test_all_of_it_is_held_while_its_pod_cannot_run() -> None:
    # The owner cannot run: its gang needs a second pod of eight.
    groups = Group("own", pods=1, gpus=3), Group("w", pods=1, gpus=8)
    scenario = ONE.gang("a", *groups).gang("b", pods=1, gpus=5)
    scenario.place().expect(placed=(), admitted=0)


def test_an_owner_goes_there_for_the_sake_of_others() -> None:
    # On x2 the owner would leave no room for eight, and on x1 all of it is held.
    scenario = Scenario("x1=8 x2=8").hold("held", "x1", 4, "own", allocate_once=True)
    scenario = scenario.gang("a", Group("own", pods=1, gpus=1)).gang("b", pods=1, gpus=7)
    placed = scenario.gang("c", pods=1, gpus=8).place()
    assert used(placed.expect(placed=("a", "b", "c"), admitted=16)) == {"held"}


def test_a_pod_that_takes_nothing_of_it_does_not_end_it() -> None:
    scenario = ONE.gang("a", Group("own", pods=1, cpus=3)).gang("b", pods=1, gpus=8)
    placed = scenario.place().expect(placed=("a",))
    assert used(placed) == set()


def test_unlike_owners_leave_unlike_amounts() -> None:
    scenario = Scenario("x1=8 x2=8").hold("held", "x1", 3, "big", "small", allocate_once=True)
    scenario = scenario.hold("other", "x2", 4, "theirs")
    groups = Group("big", pods=1, gpus=8), Group("small", pods=1, gpus=1)
    scenario.gang("a", *groups).place().expect(placed=("a",))


def test_each_of_several_is_free_once_it_is_used() -> None:
    scenario = Scenario("x1=8")
    for i in range(2):
        scenario = scenario.hold(f"r{i}", "x1", 4, "own", allocate_once=True)
    one = scenario.gang("a", Group("own", pods=1, gpus=1))
    one.gang("b", pods=8, gpus=1, min=1).place().expect(new={"a": 1, "b": 3})
    two = scenario.gang("a", Group("own", pods=2, gpus=1))
    two.gang("b", pods=8, gpus=1, min=1).place().expect(new={"a": 2, "b": 6})


def test_beside_a_reservation_of_others_its_rest_is_for_both() -> None:
    scenario = Scenario("x1=8").hold("first", "x1", 4, "own", allocate_once=True)
    scenario = scenario.hold("held", "x1", 2, "more").gang("a", Group("own", pods=1, gpus=1))
    scenario = scenario.gang("b", Group("more", pods=8, gpus=1, min=1), priority=-1)
    # Two free, and three that are left over; two are held for the owners of the other one.
    scenario.gang("c", pods=8, gpus=1, min=1).place().expect(new={"a": 1, "b": 2, "c": 5})


def test_what_one_owner_leaves_another_may_have() -> None:
    scenario = Scenario("x1=2").hold("held", "x1", 2, "own", allocate_once=True)
    scenario = scenario.gang("a", Group("own", pods=1, gpus=1, asks=REQUIRED), priority=1)
    scenario.gang("b", Group("own", pods=1, gpus=1)).place().expect(placed=("a", "b"))


def test_what_one_owner_leaves_the_owner_of_another_may_have() -> None:
    scenario = Scenario("x1=5").hold("first", "x1", 4, "own", allocate_once=True)
    scenario = scenario.hold("held", "x1", 1, "more")
    scenario = scenario.gang("a", Group("own", pods=1, gpus=2), priority=1)
    scenario = scenario.gang("b", Group("more", pods=1, gpus=3, asks=REQUIRED))
    scenario.place().expect(placed=("a", "b"))


def test_pods_that_share_a_host_wait_for_it_too() -> None:
    together = Group("p", pods=1, gpus=2), Group("q", pods=1, gpus=3)
    waiting = ONE.gang("b", *together, pack="host")
    waiting.place().expect(placed=())
    waiting.gang("a", Group("own", pods=1, gpus=3)).place().expect(placed=("a", "b"))


def test_other_resources_are_left_over_too() -> None:
    held = replace(ONE.reservations[0], held={CPU: 60_000})
    scenario = replace(ONE, reservations=(held,)).gang("a", Group("own", pods=1, cpus=10))
    scenario.gang("b", Group("w", pods=1, cpus=50)).place().expect(placed=("a", "b"))


def test_one_that_holds_nothing_serves_whoever_insists_on_it() -> None:
    held = replace(Scenario("x1=8").hold("held", "x1", 0, "p", "q").reservations[0], held={})
    for empty in (held, replace(held, held={GPU: 0})):
        scenario = replace(Scenario("x1=8"), reservations=(empty,))
        groups = (Group(g, pods=1, gpus=n, asks=REQUIRED) for g, n in (("p", 2), ("q", 4)))
        scenario.gang("a", *groups).place(seconds=2).expect(placed=("a",))


class TestChoosing:
    """Pods that ask for unlike amounts, and several reservations of one owner."""

    def test_unlike_owners_share_a_restricted_one(self) -> None:
        scenario = Scenario("x1=8 x2=8").hold("held", "x1", 6, "p", "q", restricted=True)
        scenario = scenario.gang("a", Group("p", pods=1, gpus=2), Group("q", pods=1, gpus=4))
        scenario = scenario.gang("b", pods=1, gpus=2).gang("c", pods=1, gpus=8)
        placed = scenario.place().expect(placed=("a", "b", "c"), admitted=16)
        assert used(placed) == {"held"}

    def test_gangs_share_a_restricted_one(self) -> None:
        scenario = Scenario("x1=8").hold("held", "x1", 8, "own", restricted=True)
        scenario = scenario.gang("a", Group("own", pods=1, gpus=2))
        scenario.gang("b", Group("own", pods=2, gpus=3)).place().expect(placed=("a", "b"))

    def test_no_more_of_them_than_it_holds(self) -> None:
        scenario = Scenario("x1=8").hold("held", "x1", 7, "p", "q", restricted=True)
        three, two = Group("p", pods=2, gpus=3, min=1), Group("q", pods=2, gpus=2, min=1)
        # Seven for three and two and two; the eighth is free, and no pod of one is there.
        scenario.gang("a", three, two).place().expect(new={"a": 3})

    def test_each_in_the_one_of_its_size(self) -> None:
        scenario = Scenario("x1=8").hold("four", "x1", 4, "p", "q", allocate_once=True)
        scenario = scenario.hold("two", "x1", 2, "p", "q", allocate_once=True)
        scenario = scenario.gang("a", Group("p", pods=1, gpus=4), Group("q", pods=1, gpus=2))
        placed = scenario.gang("b", pods=1, gpus=2).place().expect(placed=("a", "b"))
        assert used(placed) == {"four", "two"}

    def test_the_one_that_leaves_more_to_others(self) -> None:
        scenario = Scenario("x1=8").hold("four", "x1", 4, "own", allocate_once=True)
        scenario = scenario.hold("two", "x1", 2, "own", allocate_once=True)
        scenario = scenario.gang("a", Group("own", pods=1, gpus=2)).gang("b", pods=1, gpus=4)
        assert used(scenario.place().expect(placed=("a", "b"))) == {"four"}

    def test_one_for_many_pods_beside_one_for_one(self) -> None:
        scenario = Scenario("x1=8").hold("once", "x1", 4, "own", allocate_once=True)
        scenario = scenario.hold("many", "x1", 2, "own")
        scenario = scenario.gang("a", Group("own", pods=2, gpus=3)).gang("b", pods=1, gpus=2)
        scenario.place().expect(placed=("a", "b"))

    def test_two_for_many_pods(self) -> None:
        scenario = Scenario("x1=8").hold("p", "x1", 4, "own").hold("q", "x1", 4, "own")
        scenario.gang("a", Group("own", pods=2, gpus=4)).place().expect(placed=("a",))

    def test_owners_of_one_and_of_both(self) -> None:
        scenario = Scenario("x1=8").hold("both", "x1", 4, "p", "q", allocate_once=True)
        scenario = scenario.hold("one", "x1", 4, "q", allocate_once=True)
        scenario = scenario.gang("a", Group("p", pods=1, gpus=4), Group("q", pods=1, gpus=4))
        assert used(scenario.place().expect(placed=("a",))) == {"both", "one"}

    def test_unlike_pods_that_run_in_it_or_not_at_all(self) -> None:
        scenario = Scenario("x1=8 x2=8").hold("held", "x1", 6, "p", "q", restricted=True)
        groups = (
            Group("p", pods=1, gpus=2, asks=REQUIRED),
            Group("q", pods=1, gpus=4, asks=REQUIRED),
        )
        scenario.gang("a", *groups).place().expect(placed=("a",))
        more = Group("p", pods=2, gpus=2, asks=REQUIRED), groups[1]
        scenario.gang("a", *more).place().expect(placed=())


@pytest.mark.parametrize("most", ["MOST_RULED", "MOST_PODS", "MOST_CHOSEN"])
def test_with_very_many_room_is_left_out_and_nothing_proven(
    most: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reservations, most, 0)
    scenario = ONE.gang("a", Group("own", pods=1, gpus=3)).gang("b", pods=1, gpus=5)
    problem = formulate(scenario.snapshot(), scenario.policy)
    assert not problem.exact
    assert not problem.rules
    assert problem.relaxation is not None
    assert problem.relaxation.exact


def test_where_room_is_left_out_it_is_for_the_owners_that_take_most_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reservations, "MOST_RULED", 0)
    scenario = Scenario("x1=8 x2=1").hold("held", "x1", 8, "own", allocate_once=True)
    scenario = scenario.gang("small", Group("own", pods=1, gpus=1))
    placed = scenario.gang("large", Group("own", pods=1, gpus=8)).place()
    placed.expect(placed=("small", "large"), nodes={"large": {"x1": 1}}, proven=True)


def test_where_room_is_left_out_several_are_for_the_owners_that_take_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two of which each is enough for any of the pods."""
    monkeypatch.setattr(reservations, "MOST_RULED", 0)
    scenario = Scenario("x1=8 x2=1").hold("p", "x1", 4, "own", allocate_once=True)
    scenario = scenario.hold("q", "x1", 4, "own", allocate_once=True)
    scenario = scenario.gang("small", Group("own", pods=1, gpus=1))
    scenario.gang("large", Group("own", pods=2, gpus=4)).place().expect(placed=("small", "large"))


class TestBoundsWhereRoomIsLeftOut:
    """The most that all can have if reservations hold only what they do in any case."""

    @pytest.fixture(autouse=True)
    def none_ruled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reservations, "MOST_RULED", 0)

    def bound(self, scenario: Scenario) -> float | None:
        admitted = solve(scenario.snapshot(), scenario.policy)[-1].tiers[0]
        assert admitted.name is TierName.ADMITTED
        return admitted.bound

    def test_others_have_what_the_smallest_owner_leaves(self) -> None:
        scenario = ONE.gang("a", Group("own", pods=1, gpus=3)).gang("b", pods=1, gpus=5)
        assert self.bound(scenario) == 8
        assert self.bound(ONE.gang("b", pods=3, gpus=3)) == 0

    def test_owners_that_ask_for_unlike_amounts(self) -> None:
        scenario = ONE.gang("a", Group("own", pods=1, gpus=3)).gang("b", pods=5, gpus=2, min=1)
        scenario = scenario.gang("c", Group("own", pods=1, gpus=7)).gang("d", pods=1, gpus=6)
        # Of the gangs that fit one by one those of five GPUs at most are beside an owner.
        assert self.bound(scenario) == 7

    def test_more_is_held_than_there_is(self) -> None:
        scenario = Scenario("x1=4/8").hold("p", "x1", 4, "p").hold("q", "x1", 4, "q")
        scenario = scenario.gang("a", Group("p", pods=1, gpus=4)).gang("b", pods=1, gpus=1)
        assert self.bound(scenario.gang("c", Group("q", pods=1, gpus=4))) == 0

    def test_pods_that_require_one_of_several(self) -> None:
        scenario = Scenario("x1=8")
        scenario = scenario.hold("p", "x1", 2, "a", "b", allocate_once=True)
        scenario = scenario.hold("q", "x1", 2, "a", allocate_once=True)
        any_of_these = ReservationSelector(
            terms=(NodeSelectorTerm((Requirement("team", Operator.DOES_NOT_EXIST),)),)
        )
        for name in ("a", "b"):
            asks = {"required_reservation": any_of_these}
            scenario = scenario.gang(name, Group(name, pods=1, gpus=2, asks=asks))
        assert self.bound(scenario) == 4

    def test_too_many_columns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reservation_columns, "MOST_COLUMNS", 0)
        scenario = Scenario("x1=8").hold("held", "x1", 4, "own").gang("b", pods=1, gpus=6)
        assert self.bound(scenario.gang("a", Group("own", pods=1, gpus=5))) == 6

    @pytest.mark.parametrize("number", [25, 29, 40, 156, 519, 718])
    def test_none_is_false(self, number: int) -> None:
        """Random questions of which room is left out."""
        drawn = draw(0, number)
        problem = formulate(drawn.snapshot, drawn.policy)
        assert problem.relaxation is not None
        assert problem.relaxation.exact
        assert not ask(number, drawn).fault


class TestRule:
    """Two reservations of three for class 0 in domain 1; class 1 takes two, of eight."""

    ROW = Row(np.array([1, 2, 0]), (3, 3), 8, ((0,), (0,)), (False, False))
    ONCE = Kind((0,), single=True, restricted=False, ends=True)
    RULE = ReservedRoom(LevelIdx(0), 1, (ClassIdx(0),), (False,), (ONCE, ONCE), (ROW,))

    def pods(self, owners: int, load: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        return np.array([[0, owners], [9, load]])

    def test_a_guest_may_come_where_it_fits_beside_what_is_held(self) -> None:
        for owners, load, is_open in ((0, 0, True), (0, 2, False), (1, 2, True)):
            domains = self.RULE.open_domains(self.pods(owners, load), ClassIdx(1))
            assert domains is not None
            assert domains.tolist() == [True, is_open, True]
        assert self.RULE.open_domains(self.pods(0, 2), ClassIdx(2)) is None

    def test_it_holds_while_no_owner_has_left(self) -> None:
        assert self.RULE.holds(self.pods(1, 5))
        assert not self.RULE.holds(self.pods(0, 5))

    def test_a_user_that_does_not_count_has_what_it_uses(self) -> None:
        """Of eight, three are still held, and one that uses two of its three counts elsewhere."""
        row = self.ROW._replace(take=np.array([0, 2, 0]), had=((2,), (2,)))
        rule = replace(self.RULE, rows=(row,))
        assert rule.holds(self.pods(1, 3))
        assert not rule.holds(self.pods(1, 4))

    def test_who_insists_on_one_gets_one(self) -> None:
        insisting = replace(self.RULE, insist=(True,))
        assert insisting.holds(self.pods(2, 2))
        assert not insisting.holds(self.pods(3, 3))

    def test_as_many_more_guests_fit_as_room_is_left_beside_what_is_held(self) -> None:
        ceiling = self.RULE.ceiling(self.pods(1, 1), ClassIdx(1), [ClassIdx(1)])
        assert ceiling is not None
        assert ceiling.by_domain.tolist() == [NO_CEILING, 2, NO_CEILING]
        assert self.RULE.ceiling(self.pods(1, 1), ClassIdx(1), [ClassIdx(0)]) is None

    def test_what_fits_whatever_comes_elsewhere_is_counted_by_pod_class(self) -> None:
        """What two owners leave over of their reservations is free, so eight of them fit."""
        for pod_class, most in ((0, 8), (1, 1), (2, NO_CEILING)):
            surely = self.RULE.surely(self.pods(0, 0), ClassIdx(pod_class))
            assert surely is not None
            assert surely.tolist() == [NO_CEILING, most, NO_CEILING]

    def test_a_restricted_one_restricts_only_what_it_holds(self) -> None:
        """One owner takes three of what it holds and one of something else, of which there are two.

        With nothing in it, all of the first resource would be held or taken.
        """
        held = self.ROW._replace(take=np.array([3, 0, 0]), held=(3,), limit=3, had=((0,),))
        other = Row(np.array([1, 0, 0]), (0,), 2, ((0,),), (False,))
        kind = Kind((0,), single=False, restricted=True, ends=False)
        rows = (held._replace(capped=(True,)), other)
        rule = ReservedRoom(LevelIdx(0), 0, (ClassIdx(0),), (False,), (kind,), rows)
        assert rule.holds(np.array([[1], [3], [1]]))
        capped = replace(rule, rows=(rows[0], other._replace(capped=(True,))))
        assert not capped.holds(np.array([[1], [3], [1]]))

    def test_amounts_are_counted_in_a_common_measure(self) -> None:
        row = Row(np.array([1 << 50, 3 << 50]), (1 << 50,), 4 << 50, ((0,),), (False,)).measured()
        assert row is not None
        assert (row.take.tolist(), row.held, row.limit) == ([1, 3], (1,), 4)
        assert (
            Row(np.array([3, 1 << 50]), (5,), (1 << 50) + 1, ((0,),), (False,)).measured() is None
        )
