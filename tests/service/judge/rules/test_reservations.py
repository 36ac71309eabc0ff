"""Reservations: held only for their owners, who use no more of them than they may."""

from __future__ import annotations

from dataclasses import replace

from placement_service.entities.eviction import EvictionKind, EvictionPolicy
from placement_service.entities.request import Binding, Policy
from placement_service.entities.reservations import ReservationOwner, ReservationSelector
from placement_service.entities.selectors import NodeSelectorTerm, Operator, Requirement
from tests.scenario import Group, Scenario, gang_name, pod_name
from tests.service.judge.rules.asking import accepts, refuses


def using(bindings: tuple[Binding, ...], name: str = "held") -> tuple[Binding, ...]:
    """The same bindings in a reservation."""
    return tuple(b._replace(reservation=f"reservations/{name}") for b in bindings)


def running_in(scenario: Scenario, name: str = "held") -> Scenario:
    """The same where all that runs of the last gang runs in a reservation."""
    gang = scenario.gangs[-1]
    pods = (replace(p, reservation=f"reservations/{name}") for p in gang.groups[0].fixed_pods)
    gang = replace(gang, groups=(replace(gang.groups[0], fixed_pods=tuple(pods)),))
    return replace(scenario, gangs=(*scenario.gangs[:-1], gang))


#: A node of eight GPUs, of which four are held for pods of group "own".
HALF = Scenario("x1=8").hold("held", "x1", 4, "own")


class TestHeld:
    def test_what_is_held_serves_nobody_else(self) -> None:
        scenario = HALF.gang("a", pods=2, gpus=4, min=1)
        assert accepts(scenario, scenario.bind(a_w_0="x1"))
        both = scenario.bind(a_w_0="x1", a_w_1="x1")
        assert refuses(scenario, "ask for 8 & reservations hold 4 for others", both)

    def test_an_owner_takes_from_it(self) -> None:
        scenario = HALF.gang("a", Group("own", pods=1, gpus=4)).gang("b", pods=1, gpus=4)
        own, guest = scenario.bind(a_own_0="x1"), scenario.bind(b_w_0="x1")
        assert accepts(scenario, (*using(own), *guest))

    def test_an_owner_that_asks_for_more_takes_the_rest_from_the_node(self) -> None:
        scenario = HALF.gang("a", Group("own", pods=1, gpus=6)).gang("b", pods=1, gpus=4)
        own, guest = scenario.bind(a_own_0="x1"), scenario.bind(b_w_0="x1")
        assert accepts(scenario, using(own))
        assert refuses(scenario, "ask for 10", (*using(own), *guest))

    def test_what_one_owner_leaves_stays_held(self) -> None:
        scenario = HALF.gang("a", Group("own", pods=1, gpus=1)).gang("b", pods=5, gpus=1, min=1)
        own = using(scenario.bind(a_own_0="x1"))
        four = scenario.bind(b_w_0="x1", b_w_1="x1", b_w_2="x1", b_w_3="x1")
        five = (*four, *scenario.bind(b_w_4="x1"))
        assert accepts(scenario, (*own, *four))
        assert refuses(scenario, "hold 3 for others", (*own, *five))

    def test_a_closed_reservation_holds_its_room(self) -> None:
        scenario = Scenario("x1=8").hold("held", "x1", 8, "own", closed=True)
        scenario = scenario.gang("a", Group("own", pods=1, gpus=8))
        bindings = scenario.bind(a_own_0="x1")
        assert refuses(scenario, "hold 8 for others", bindings)
        assert refuses(scenario, "takes no new pods", using(bindings))

    def test_a_pod_that_ignores_reservations_may_use_what_is_held(self) -> None:
        asks = {"ignores_reservations": True}
        scenario = HALF.gang("a", Group("w", pods=1, gpus=8, asks=asks))
        assert accepts(scenario, scenario.bind(a_w_0="x1"))

    def test_a_pod_that_ignores_reservations_may_not_use_what_a_pod_in_one_has(self) -> None:
        asks = {"ignores_reservations": True}
        scenario = HALF.gang("a", Group("w", pods=1, gpus=5, asks=asks))
        scenario = scenario.gang("b", Group("own", pods=1, gpus=4))
        own = using(scenario.bind(b_own_0="x1"))
        assert refuses(scenario, "ask for 9", (*own, *scenario.bind(a_w_0="x1")))


class TestOwners:
    def test_an_unknown_reservation_is_refused(self) -> None:
        scenario = Scenario("x1=8").gang("a", Group("own", pods=1, gpus=4))
        assert refuses(scenario, "does not have", using(scenario.bind(a_own_0="x1")))

    def test_a_reservation_of_another_node_is_refused(self) -> None:
        scenario = Scenario("x1=8 x2=8").hold("held", "x1", 4, "own")
        scenario = scenario.gang("a", Group("own", pods=1, gpus=4))
        assert refuses(scenario, "is on node nodes/x1", using(scenario.bind(a_own_0="x2")))

    def test_only_owners_use_it(self) -> None:
        scenario = HALF.gang("a", pods=1, gpus=4)
        assert refuses(scenario, "is no owner", using(scenario.bind(a_w_0="x1")))

    def test_all_parts_of_an_owner_must_hold(self) -> None:
        scenario = Scenario("x1=8").gang("a", pods=1, gpus=4)
        bindings = using(scenario.bind(a_w_0="x1"))
        fits = ReservationOwner(gang_name("a"), pod_name("a-w-0"), "ml", None)
        for owner, fine in (
            (fits, True),
            (replace(fits, gang=gang_name("b")), False),
            (replace(fits, pod=pod_name("a-w-1")), False),
            (replace(fits, namespace="other"), False),
        ):
            held = scenario.hold("held", "x1", 4)
            held = replace(held, reservations=(replace(held.reservations[0], owners=(owner,)),))
            assert accepts(held, bindings) if fine else refuses(held, "no owner", bindings)

    def test_an_owner_beside_its_reservation_uses_it(self) -> None:
        scenario = HALF.gang("a", Group("own", pods=1, gpus=4))
        words = "owns reservations/held & does not use it"
        assert refuses(scenario, words, scenario.bind(a_own_0="x1"))

    def test_an_owner_for_whom_it_has_no_room_need_not(self) -> None:
        scenario = HALF.gang("a", Group("own", pods=2, gpus=4))
        one, other = scenario.bind(a_own_0="x1", a_own_1="x1")
        assert accepts(scenario, (*using((one,)), other))


class TestRestricted:
    def test_it_is_not_topped_up(self) -> None:
        scenario = Scenario("x1=8").hold("held", "x1", 4, "own", restricted=True)
        scenario = scenario.gang("a", Group("own", pods=1, gpus=4, cpus=1))
        assert accepts(scenario, using(scenario.bind(a_own_0="x1")))
        larger = Scenario("x1=8").hold("held", "x1", 4, "own", restricted=True)
        larger = larger.gang("a", Group("own", pods=1, gpus=6))
        words = "restricted & holds 4 & ask for 6"
        assert refuses(larger, words, using(larger.bind(a_own_0="x1")))


class TestAllocateOnce:
    TWO = (
        Scenario("x1=8")
        .hold("held", "x1", 8, "own", allocate_once=True)
        .gang("a", Group("own", pods=2, gpus=4, min=1))
    )

    def test_it_serves_one_pod(self) -> None:
        both = self.TWO.bind(a_own_0="x1", a_own_1="x1")
        assert refuses(self.TWO, "serves one pod, but 2", using(both))

    def test_what_it_leaves_over_is_free_for_all(self) -> None:
        one, other = self.TWO.bind(a_own_0="x1", a_own_1="x1")
        assert accepts(self.TWO, (*using((one,)), other))

    def test_a_pod_that_runs_in_it_uses_it_up(self) -> None:
        scenario = running_in(self.TWO.gang("b", Group("own", on=("x1",))))
        assert refuses(scenario, "but 2 use it", using(scenario.bind(a_own_0="x1")))

    def test_pods_that_run_in_it_are_not_judged(self) -> None:
        scenario = running_in(self.TWO.gang("b", Group("own", on=("x1", "x1"))))
        assert accepts(scenario)


class TestOwnersBesideTheirReservation:
    """Whether a pod that has room in a reservation on its node has to use it."""

    WORDS = "pods/a-own-1 owns reservations/held & does not use it"

    def scenario(self, gpus: int = 8, **more: bool) -> Scenario:
        scenario = Scenario("x1=16").hold("held", "x1", gpus, "own", **more)
        return scenario.gang("a", Group("own", pods=2, gpus=4, min=1))

    def test_one_that_serves_several_is_used_beside_another_pod(self) -> None:
        scenario = self.scenario()
        one, other = scenario.bind(a_own_0="x1", a_own_1="x1")
        assert refuses(scenario, self.WORDS, (*using((one,)), other))

    def test_one_that_serves_a_single_pod_is_used_unless_one_uses_it(self) -> None:
        scenario = self.scenario(allocate_once=True)
        one, other = scenario.bind(a_own_0="x1", a_own_1="x1")
        assert refuses(scenario, self.WORDS, (other,))
        assert accepts(scenario, (*using((one,)), other))
        runs = running_in(scenario.gang("b", Group("own", on=("x1",))))
        assert accepts(runs, (other,))

    def test_one_that_takes_no_new_pods_is_not_used(self) -> None:
        scenario = self.scenario(closed=True)
        assert accepts(scenario, scenario.bind(a_own_1="x1"))

    def test_one_with_too_little_room_left_is_not_used(self) -> None:
        scenario = self.scenario(gpus=3)
        assert accepts(scenario, scenario.bind(a_own_1="x1"))

    def test_one_of_which_the_pod_takes_nothing_is_not_used(self) -> None:
        scenario = HALF.gang("a", Group("own", pods=1, cpus=1))
        assert accepts(scenario, scenario.bind(a_own_0="x1"))

    def test_one_that_the_pod_ignores_is_not_used(self) -> None:
        scenario = Scenario("x1=16").hold("held", "x1", 8, "own")
        asks = {"ignores_reservations": True}
        scenario = scenario.gang("a", Group("own", pods=1, gpus=4, asks=asks))
        assert accepts(scenario, scenario.bind(a_own_0="x1"))

    def test_a_pod_that_moves_uses_none(self) -> None:
        scenario = Scenario("x1=16 x2=4/8", policy=Policy(eviction=EvictionPolicy.REPACK))
        scenario = scenario.hold("held", "x1", 8, "own")
        scenario = scenario.gang("a", Group("own", gpus=4, told=("x2",)))
        assert accepts(scenario, (), scenario.evict(EvictionKind.MOVE, a_own_runs_0="x1"))


class TestRequired:
    def gang(self, selector: ReservationSelector) -> Scenario:
        scenario = Scenario("x1=8").hold("held", "x1", 4, "own", labels={"pool": "a"})
        asks = {"required_reservation": selector}
        return scenario.gang("a", Group("own", pods=1, gpus=4, asks=asks))

    def test_the_pod_runs_in_one_or_not_at_all(self) -> None:
        scenario = self.gang(ReservationSelector("reservations/held"))
        bindings = scenario.bind(a_own_0="x1")
        assert accepts(scenario, using(bindings))
        outside = replace(scenario, reservations=())
        assert refuses(outside, "requires a reservation and uses none", bindings)

    def test_the_pod_is_not_moved(self) -> None:
        scenario = Scenario("x1=4/8 x2=8", policy=Policy(eviction=EvictionPolicy.REPACK))
        asks = {"required_reservation": ReservationSelector("reservations/held")}
        scenario = scenario.gang("a", Group("own", gpus=4, told=("x1",), asks=asks))
        moved = scenario.evict(EvictionKind.MOVE, a_own_runs_0="x2")
        assert refuses(scenario, "is moved, but requires a reservation", (), moved)

    def test_it_is_selected_by_name_or_by_labels(self) -> None:
        term = NodeSelectorTerm((Requirement("pool", Operator.IN, ("a",)),))
        other = NodeSelectorTerm((Requirement("pool", Operator.IN, ("b",)),))
        for selector, fine in (
            (ReservationSelector(terms=(other, term)), True),
            (ReservationSelector(terms=(other,)), False),
            (ReservationSelector("reservations/another"), False),
            # Beside a name nothing else counts.
            (ReservationSelector("reservations/held", (other,)), True),
        ):
            scenario = self.gang(selector)
            bindings = using(scenario.bind(a_own_0="x1"))
            words = "is not one that it requires"
            assert accepts(scenario, bindings) if fine else refuses(scenario, words, bindings)
