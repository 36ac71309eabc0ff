"""Reservations on smallest instances: held for others, used by owners, no more than they may."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.devices import Device, DeviceShare
from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.placement import Reason, ReasonCode
from placement_service.entities.request import CPU, BoundPod
from placement_service.entities.reservations import ReservationOwner, ReservationSelector
from placement_service.entities.selectors import LabelSelector
from placement_service.explain.gang_reasons import explain
from placement_service.formulation.formulate import formulate
from placement_service.judge.score import score
from tests.drawing import GPU
from tests.placed import Placed, solve
from tests.scenario import Group, Scenario, gang_name, pod_name
from tests.waiting import LONG

#: A node of eight GPUs, of which four are held for pods of group "own".
HALF = Scenario("x1=8").hold("held", "x1", 4, "own")


def used(placed: Placed) -> dict[str, str]:
    """The reservation of each new pod that uses one, by short names."""
    return {
        b.pod.rpartition("/")[2]: b.reservation.removeprefix("reservations/")
        for b in placed.bindings
        if b.reservation
    }


def test_what_is_held_serves_nobody_else() -> None:
    placed = HALF.gang("a", pods=8, gpus=1, min=1).place().expect(new={"a": 4})
    assert used(placed) == {}


def test_an_owner_takes_from_it_and_the_binding_says_so() -> None:
    scenario = HALF.gang("a", Group("own", pods=1, gpus=4)).gang("b", pods=1, gpus=4)
    assert used(scenario.place().expect(placed=("a", "b"))) == {"a-own-0": "held"}


def test_an_owner_takes_the_rest_from_the_node() -> None:
    scenario = HALF.gang("a", Group("own", pods=1, gpus=6)).gang("b", pods=2, gpus=1, min=1)
    placed = scenario.gang("c", pods=1, gpus=1).place().expect(admitted=8)
    assert used(placed) == {"a-own-0": "held"}


def test_a_share_of_a_gpu_is_none_of_the_gpus_that_are_held() -> None:
    """It asks for nothing that the reservation holds, so it uses none, nor the device of it."""
    busy = Device(0, used_milli=1000, used_memory_milli=1000)
    scenario = Scenario("x1=1/2").with_devices("x1", busy, Device(1))
    group = Group("own", pods=1, asks={"device_share": DeviceShare(500, 500)})
    scenario.gang("a", group).hold("held", "x1", 1, "own", devices=(1,)).place().expect(placed=())


@pytest.mark.parametrize(
    ("labels", "owns"),
    [({"a": "1", "b": "2"}, True), ({"a": "1"}, False), ({"b": "2", "a": "2"}, False), ({}, False)],
)
def test_an_owner_has_all_labels_that_are_named(labels: dict[str, str], owns: bool) -> None:
    both = ReservationOwner(selector=LabelSelector((("a", "1"), ("b", "2"))))
    scenario = replace(HALF, reservations=(replace(HALF.reservations[0], owners=(both,)),))
    placed = scenario.gang("a", Group("w", pods=1, gpus=6, labels=labels)).place()
    placed.expect(placed=("a",) if owns else ())


def test_whoever_has_any_label_may_own_what_names_none() -> None:
    anybody = ReservationOwner(selector=LabelSelector())
    scenario = replace(HALF, reservations=(replace(HALF.reservations[0], owners=(anybody,)),))
    scenario.gang("a", Group("w", pods=1, gpus=6)).place().expect(placed=("a",))


def test_what_owners_leave_stays_held() -> None:
    scenario = HALF.gang("a", Group("own", pods=1, gpus=1)).gang("b", pods=8, gpus=1, min=1)
    scenario.place().expect(new={"a": 1, "b": 4})


def test_an_owner_uses_what_gives_it_most_and_not_what_serves_one_pod() -> None:
    """It fits neither; with the other choice more than the node has would be in use and held."""
    scenario = Scenario("x1=8").hold("most", "x1", 3, "own")
    scenario = scenario.hold("once", "x1", 1, "own", allocate_once=True)
    scenario = scenario.gang("a", Group("own", pods=1, gpus=4)).gang("b", pods=3, gpus=1)
    assert used(scenario.place().expect(placed=("a", "b"))) == {"a-own-0": "most"}


def test_where_the_usual_choice_holds_back_room_that_others_have_another_is_made() -> None:
    """It would give "once" to the last pod and so hold a GPU of "more" for nobody."""
    scenario = Scenario("x1=3").hold("more", "x1", 2, "own")
    once = replace(
        scenario.hold("once", "x1", 0, "own", allocate_once=True).reservations[-1],
        held={CPU: 1_000},
    )
    scenario = replace(scenario, reservations=(*scenario.reservations, once))
    scenario = scenario.gang("a", Group("own", pods=1, gpus=1, cpus=1))
    scenario = scenario.gang("b", Group("own", pods=1, gpus=2, cpus=1))
    placed = scenario.place().expect(placed=("a", "b"))
    assert used(placed)["b-own-0"] == "more"


def test_a_closed_reservation_holds_its_room_and_serves_nobody() -> None:
    scenario = Scenario("x1=8").hold("held", "x1", 4, "own", closed=True)
    scenario.gang("a", Group("own", pods=8, gpus=1, min=1)).place().expect(new={"a": 4})


def test_other_resources_are_held_too() -> None:
    held = replace(HALF.reservations[0], held={CPU: 60_000})
    scenario = replace(HALF, reservations=(held,))
    scenario = scenario.gang("a", Group("w", pods=8, cpus=1, min=1))
    scenario.place().expect(new={"a": 4})


def test_a_pod_that_ignores_reservations_takes_what_is_held() -> None:
    group = Group("w", pods=1, gpus=8, asks={"ignores_reservations": True})
    assert used(HALF.gang("a", group).place().expect(placed=("a",))) == {}


def test_a_pod_that_ignores_reservations_does_not_take_what_an_owner_has() -> None:
    group = Group("w", pods=8, gpus=1, min=1, asks={"ignores_reservations": True})
    scenario = HALF.gang("a", group).gang("b", Group("own", pods=1, gpus=4), priority=1)
    scenario.place().expect(new={"a": 4, "b": 1})


class TestRestricted:
    SCENARIO = Scenario("x1=8").hold("held", "x1", 4, "own", restricted=True)

    def test_it_is_not_topped_up(self) -> None:
        scenario = self.SCENARIO.gang("a", Group("own", pods=1, gpus=8))
        scenario.place().expect(placed=())

    def test_owners_may_use_the_rest_of_the_node_beside_it(self) -> None:
        placed = self.SCENARIO.gang("a", Group("own", pods=2, gpus=4)).place()
        assert len(used(placed.expect(placed=("a",)))) == 1

    def test_what_owners_cannot_take_is_there_for_who_ignores_reservations(self) -> None:
        scenario = Scenario("x1=8").hold("held", "x1", 5, "own", restricted=True)
        ignoring = Group("w", pods=1, gpus=8, asks={"ignores_reservations": True})
        scenario = scenario.gang("a", Group("own", pods=1, gpus=2)).gang("b", ignoring)
        scenario.place().expect(placed=("b",))

    def test_what_owners_of_one_cannot_take_stays_held_beside_another(self) -> None:
        """Ten GPUs, five of them for pods of two, and three for others. Two pods of two leave a
        GPU that nobody gets, and the third takes the two that are free.
        """
        scenario = Scenario("x1=10").hold("held", "x1", 5, "own", restricted=True)
        scenario = scenario.hold("more", "x1", 3, "others")
        scenario = scenario.gang("a", Group("own", pods=3, gpus=2)).gang("b", pods=1, gpus=1)
        scenario.gang("c", Group("others", pods=1, gpus=5)).place().expect(placed=("a",))

    def test_what_does_not_fit_is_nobodys(self) -> None:
        scenario = self.SCENARIO.gang("a", Group("own", pods=3, gpus=3, min=1))
        # One in the four that are held, one in the four that are not.
        scenario.place().expect(new={"a": 2})

    def test_what_it_does_not_list_comes_from_the_node(self) -> None:
        scenario = self.SCENARIO.gang("a", Group("own", pods=1, gpus=4, cpus=64))
        assert used(scenario.place().expect(placed=("a",))) == {"a-own-0": "held"}


class TestAllocateOnce:
    def test_each_serves_one_pod(self) -> None:
        scenario = Scenario("x1=8")
        for i in range(2):
            scenario = scenario.hold(f"r{i}", "x1", 4, "own", allocate_once=True)
        placed = scenario.gang("a", Group("own", pods=2, gpus=4)).place().expect(placed=("a",))
        assert sorted(used(placed).values()) == ["r0", "r1"]

    def test_what_one_holds_does_not_help_in_another(self) -> None:
        """The pod uses "cores", and the GPUs of the other one stay held."""
        scenario = Scenario("x1=8").hold("cores", "x1", 0, "own", allocate_once=True)
        scenario = scenario.hold("gpus", "x1", 4, "own", allocate_once=True)
        cores = replace(scenario.reservations[0], held={CPU: 6000})
        scenario = replace(scenario, reservations=(cores, scenario.reservations[1]))
        scenario = scenario.gang("a", Group("own", pods=1, gpus=4, cpus=6), priority=1)
        scenario = scenario.node("x1", cpus=11).gang("b", Group("w", pods=4, gpus=1, cpus=1))
        scenario.place().expect(admitted=4)

    def test_one_that_a_running_pod_uses_serves_nobody(self) -> None:
        scenario = Scenario("x1=8").hold("held", "x1", 4, "own", allocate_once=True)
        scenario = scenario.gang("b", Group("w", on=("x1",)))
        (gang,) = scenario.gangs
        pod = replace(gang.groups[0].fixed_pods[0], reservation="reservations/held")
        assert isinstance(pod, BoundPod)
        gang = replace(gang, groups=(replace(gang.groups[0], fixed_pods=(pod,)),))
        scenario = replace(scenario, gangs=(gang,))
        scenario = scenario.gang("a", Group("own", pods=8, gpus=1, min=1))
        placed = scenario.place().expect(new={"a": 4})
        assert used(placed) == {}


#: What pods ask for that run in one reservation or not at all.
REQUIRED = {"required_reservation": ReservationSelector("reservations/held")}


class TestRequired:
    def test_the_pod_runs_in_it_or_not_at_all(self) -> None:
        scenario = Scenario("x1=8 x2=8").hold("held", "x1", 8, "own", restricted=True)
        group = Group("own", pods=3, gpus=4, min=1, asks=REQUIRED)
        placed = scenario.gang("a", group).place().expect(new={"a": 2}, nodes={"a": {"x1": 2}})
        assert set(used(placed).values()) == {"held"}

    def test_one_that_serves_one_pod_serves_one(self) -> None:
        scenario = Scenario("x1=8 x2=8").hold("held", "x1", 8, "own", allocate_once=True)
        group = Group("own", pods=2, gpus=8, min=1, asks=REQUIRED)
        scenario.gang("a", group).place().expect(new={"a": 1})

    def test_without_it_nobody_runs(self) -> None:
        group = Group("own", pods=1, gpus=4, asks=REQUIRED)
        Scenario("x1=8").gang("a", group).place().expect(placed=())

    def test_who_is_no_owner_does_not_run(self) -> None:
        scenario = Scenario("x1=8").hold("held", "x1", 8, "others")
        group = Group("own", pods=1, gpus=4, asks=REQUIRED)
        scenario.gang("a", group).place().expect(placed=())


class TestOwners:
    @pytest.mark.parametrize(
        ("owner", "serves"),
        [
            (ReservationOwner(gang=gang_name("a")), True),
            (ReservationOwner(gang=gang_name("b")), False),
            (ReservationOwner(namespace="ml"), True),
            (ReservationOwner(namespace="other"), False),
            (ReservationOwner(pod=pod_name("a-w-0")), True),
            (ReservationOwner(selector=LabelSelector((("group", "w"),))), True),
            (ReservationOwner(gang=gang_name("a"), namespace="other"), False),
        ],
    )
    def test_all_parts_must_hold(self, owner: ReservationOwner, serves: bool) -> None:
        scenario = Scenario("x1=8").hold("held", "x1", 8)
        held = replace(scenario.reservations[0], owners=(owner,))
        scenario = replace(scenario, reservations=(held,)).gang("a", pods=1, gpus=8)
        scenario.place().expect(placed=("a",) if serves else ())

    def test_pods_that_are_named_go_to_their_reservations(self) -> None:
        scenario = Scenario("x1=8 x2=8")
        for i, node in ((0, "x2"), (1, "x1")):
            scenario = scenario.hold(f"r{i}", node, 8, allocate_once=True)
            held = scenario.reservations[-1]
            owner = ReservationOwner(pod=pod_name(f"a-w-{i}"))
            scenario = replace(
                scenario,
                reservations=(*scenario.reservations[:-1], replace(held, owners=(owner,))),
            )
        placed = scenario.gang("a", pods=2, gpus=8).place().expect(placed=("a",))
        assert used(placed) == {"a-w-0": "r0", "a-w-1": "r1"}

    def test_gangs_alike_but_for_what_they_own_are_told_apart(self) -> None:
        scenario = Scenario("x1=8").hold("held", "x1", 8)
        held = replace(scenario.reservations[0], owners=(ReservationOwner(gang=gang_name("b")),))
        scenario = replace(scenario, reservations=(held,))
        for name in "abc":
            scenario = scenario.gang(name, pods=1, gpus=8)
        scenario.place().expect(placed=("b",))

    def test_two_owners_share_a_node_with_what_is_held_for_each(self) -> None:
        scenario = Scenario("x1=8").hold("p", "x1", 2, "p").hold("q", "x1", 4, "q")
        scenario = scenario.gang("a", Group("p", pods=8, gpus=1, min=1))
        # Of p's own two, and the two that nobody holds.
        scenario.gang("b", Group("q", pods=1, gpus=4), priority=-1).place().expect(
            new={"a": 4, "b": 1}
        )


def test_a_pod_that_two_reservations_name_uses_the_one_that_serves_nobody_else() -> None:
    """It has to be on x1, where the room for two pods is partly held for it."""
    scenario = Scenario("x1=2 x2=4").hold("shared", "x2", 3).hold("own", "x1", 1)
    named = ReservationOwner(pod=pod_name("a-w-0"))
    shared, own = scenario.reservations
    shared = replace(shared, owners=(named, ReservationOwner(gang=gang_name("b"))))
    scenario = replace(scenario, reservations=(shared, replace(own, owners=(named,))))
    placed = scenario.gang("a", pods=3, gpus=1).place().expect(placed={"a"})
    assert used(placed) == {"a-w-0": "own"}


def shared(*owners: ReservationOwner) -> Scenario:
    """Half of a node is held for these and for gang "b"."""
    scenario = Scenario("x1=4").hold("shared", "x1", 2)
    every = *owners, ReservationOwner(gang=gang_name("b"))
    return replace(scenario, reservations=(replace(scenario.reservations[0], owners=every),))


def test_a_pod_is_an_owner_beside_others_where_its_set_is_that_pod_alone() -> None:
    scenario = shared(ReservationOwner(pod=pod_name("a-w-0")))
    placed = scenario.gang("a", pods=1, gpus=2).gang("c", pods=1, gpus=2).place()
    assert used(placed.expect(placed={"a", "c"})) == {"a-w-0": "shared"}
    assert placed.solution.proven


def test_what_one_pod_of_a_set_might_use_beside_other_owners_is_in_the_bounds() -> None:
    """The room is for gang "b" alone, which has it or does not want it."""
    scenario = shared(ReservationOwner(pod=pod_name("a-w-0"))).gang("a", pods=2, gpus=1)
    both = scenario.gang("b", pods=1, gpus=2).gang("c", pods=1, gpus=2).place()
    assert both.expect(admitted=4).solution.proven
    solution = scenario.gang("c", pods=1, gpus=2).place().solution
    assert solution.tiers[0].bound == 4


def test_a_pod_that_is_named_and_does_not_wait_leaves_nothing_unproven() -> None:
    scenario = shared(ReservationOwner(pod=pod_name("nobody"))).gang("a", pods=2, gpus=2)
    assert scenario.place().expect(placed=()).solution.proven


def test_many_reservations_of_other_owners_are_as_many_rooms() -> None:
    scenario = Scenario(" ".join(f"x{i}=8" for i in range(12)))
    for i in range(12):
        scenario = scenario.hold(f"r{i}", f"x{i}", 8, f"g{i}")
        scenario = scenario.gang(f"a{i}", Group(f"g{i}", pods=1, gpus=8))
    placed = scenario.place().expect(admitted=96)
    assert used(placed) == {f"a{i}-g{i}-0": f"r{i}" for i in range(12)}
    assert GPU in scenario.reservations[0].held


@pytest.mark.parametrize("restricted", [False, True])
def test_nobody_gets_what_is_held_beyond_what_a_node_has(restricted: bool) -> None:
    """Not even an owner, who would leave as much held; and that is proven."""
    scenario = Scenario("x1=8").hold("held", "x1", 12, "own", restricted=restricted)
    scenario = scenario.gang("a", Group("own", pods=1, gpus=4)).gang("b", pods=1, gpus=1)
    scenario.place().expect(placed=())


def test_what_is_held_of_all_else_serves_owners_there() -> None:
    """Two hold more GPUs than there are; of the cores some are held for each, and some are free."""
    scenario = Scenario("x1=8").node("x1", cpus=10)
    scenario = scenario.hold("one", "x1", 5, "own").hold("two", "x1", 5, "other")
    first, second = scenario.reservations
    held = (
        replace(first, held={**first.held, CPU: 4000}),
        replace(second, held={**second.held, CPU: 4000}),
    )
    scenario = replace(scenario, reservations=held)
    own = Group("own", pods=1, cpus=6)
    scenario = scenario.gang("a", own).gang("b", Group("w", pods=1, cpus=1))
    scenario = scenario.gang("c", Group("own", pods=1, gpus=4))
    placed = scenario.place().expect(placed=("a",))
    assert used(placed) == {"a-own-0": "one"}


class TestReasons:
    def why(self, scenario: Scenario) -> Reason:
        return self.all_of(scenario)[0]

    def all_of(self, scenario: Scenario) -> tuple[Reason, ...]:
        """The reasons of the first gang."""
        snapshot, policy = scenario.snapshot(), scenario.policy
        solution = solve(snapshot, policy, seconds=LONG)[-1]
        result = score(snapshot, policy, name_pods(snapshot, solution.assignments))
        problem = formulate(snapshot, policy)
        return explain(snapshot, problem, solution, result, deadline=float("inf"))[0]

    def test_what_is_held_for_others_is_said_first(self) -> None:
        reason = self.why(HALF.gang("a", pods=1, gpus=8))
        assert (reason.code, reason.subject) == (ReasonCode.RESERVED, "reservations/held")
        assert reason.message == (
            "reservation held holds 4 GPUs on 1 node for others; without it there may be room."
        )

    def test_one_gpu_is_told_as_one(self) -> None:
        scenario = Scenario("x1=8").hold("held", "x1", 1, "own").gang("a", pods=1, gpus=8)
        assert self.why(scenario).message.startswith("reservation held holds 1 GPU on 1 node")

    def test_strangers_hear_of_no_rule_between_pods(self) -> None:
        scenario = HALF.hold("far", "x2", 4, "own").gang("a", pods=1, gpus=8)
        scenario = scenario.gang("b", Group("own", pods=1, gpus=4))
        held, counted, *_ = self.all_of(scenario)
        # What is held on a node that is not there keeps nobody out.
        assert held.message.startswith("reservation held holds 4 GPUs on 1 node for others;")
        assert counted.code is ReasonCode.RESERVED
        assert counted.message == (
            "even with no other gang waiting, the cluster has room for 0 of 1 pod of 8 "
            "nvidia.com/gpu under what reservations hold for others; resources alone would do."
        )

    def test_an_owner_hears_of_a_restricted_one_that_is_too_small(self) -> None:
        scenario = Scenario("x1=8").hold("held", "x1", 4, "own", restricted=True)
        assert self.why(scenario.gang("a", Group("own", pods=1, gpus=6))).message == (
            "reservation held holds 4 GPUs on 1 node and may not be topped up; "
            "without it there may be room."
        )

    def test_a_node_that_lacks_the_required_reservation_is_called_so(self) -> None:
        group = Group("own", pods=1, gpus=4, asks=REQUIRED)
        scenario = HALF.node("x1", cordoned=True)
        scenario = replace(scenario, nodes=(*scenario.nodes, *Scenario("x2=8").nodes))
        reasons = self.all_of(scenario.gang("a", group))
        assert [reason.code for reason in reasons] == [ReasonCode.RESERVED] * 2
        assert reasons[1].message == (
            "no node takes the 1 pod of group own: 1 of 2 nodes: cordoned; "
            "1: the reservation that it requires."
        )

    def test_what_would_not_fit_anyway_is_no_matter_of_reservations(self) -> None:
        assert self.why(HALF.gang("a", pods=2, gpus=8)).code is not ReasonCode.RESERVED

    def test_pods_that_run_in_a_reservation_only_are_told_so(self) -> None:
        group = Group("own", pods=1, gpus=4, asks=REQUIRED)
        reason = self.why(Scenario("x1=8").gang("a", group))
        assert reason.code is ReasonCode.RESERVED
        assert reason.message == (
            "its pods run in a reservation only (held), which is not available."
        )

    @pytest.mark.parametrize(
        ("owner", "gpus", "said"), [("own", 6, "has no room for"), ("else", 4, "does not take")]
    )
    def test_a_required_reservation_is_too_small_or_for_others(
        self, owner: str, gpus: int, said: str
    ) -> None:
        scenario = Scenario("x1=8").hold("held", "x1", 4, owner, restricted=True)
        group = Group("own", pods=1, gpus=gpus, asks=REQUIRED)
        assert self.why(scenario.gang("a", group)).message == (
            f"its pods run in a reservation only (held), which {said} them."
        )

    def test_a_restricted_one_of_its_own_is_named_beside_those_of_others(self) -> None:
        scenario = Scenario("x1=8 x2=8").hold("mine", "x1", 4, "own", restricted=True)
        scenario = scenario.hold("theirs", "x2", 8, "else")
        mine, theirs, *_ = self.all_of(scenario.gang("a", Group("own", pods=1, gpus=6)))
        assert mine.message.startswith("reservation mine holds 4 GPUs on 1 node and may not be")
        assert theirs.message.startswith("reservation theirs holds 8 GPUs on 1 node for others;")

    def test_a_restricted_one_that_is_large_enough_is_not_in_the_way(self) -> None:
        scenario = Scenario("x1=8 x2=8").hold("mine", "x1", 8, "own", restricted=True)
        scenario = scenario.hold("theirs", "x2", 8, "else")
        reasons = self.all_of(scenario.gang("a", Group("own", pods=2, gpus=8)))
        assert not any("mine" in reason.message for reason in reasons)
