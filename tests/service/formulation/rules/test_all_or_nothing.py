"""A gang gets pods only with its whole minimum, and minimums come before extras.

Solved by the real engine on the smallest cluster where the rule bites. Each test solves the same
question without the rule and with it, or differs in one number; a comment derives the optimum.
All answers must be proven.
"""

from __future__ import annotations

from tests.scenario import Group, Scenario, near, spread


class TestAllOrNothing:
    def test_a_gang_that_does_not_fit_whole_is_left_unplaced(self) -> None:
        # 8 GPUs hold two pods of 4. A gang of three gets none, though two would fit.
        cluster = Scenario("r1: x1=8")
        cluster.gang("a", pods=3, gpus=4).place().expect(placed=[], new={"a": 0}, admitted=0)
        cluster.gang("a", pods=2, gpus=4).place().expect(placed=["a"], new={"a": 2}, admitted=8)

    def test_a_minimum_is_enough(self) -> None:
        # Two of three pods fit, and two are the minimum; no extra fits.
        scenario = Scenario("r1: x1=8").gang("a", pods=3, gpus=4, min=2)
        scenario.place().expect(placed=["a"], new={"a": 2}, admitted=8, extra=0)

    def test_every_group_needs_its_minimum(self) -> None:
        # The leader fits, its two workers of 8 do not.
        scenario = Scenario("r1: x1=8 x2=4")
        groups = Group("l", pods=1, gpus=4), Group("w", pods=2, gpus=8)
        scenario.gang("a", *groups).place().expect(placed=[], new={"a": 0})

    def test_running_pods_count_towards_the_minimum(self) -> None:
        # One of two runs; the other fits the 4 GPUs that are left. The whole minimum is worth 8.
        scenario = Scenario("r1: x1=4/8").gang("a", Group("w", pods=1, gpus=4, on=("x1",)))
        scenario.place().expect(placed=["a"], new={"a": 1}, admitted=8)

    def test_the_better_of_two_gangs_is_admitted(self) -> None:
        # 8 GPUs: either "big" (8) or "small" (4), never both.
        scenario = Scenario("r1: x1=8").gang("small", pods=1, gpus=4).gang("big", pods=1, gpus=8)
        scenario.place().expect(placed=["big"], admitted=8)

    def test_many_small_gangs_beat_a_large_one(self) -> None:
        # 12 GPUs on nodes of 4: three gangs of 4 are worth 12, one of 2 x 4 is worth 8.
        scenario = Scenario("x1=4 x2=4 x3=4").gang("big", pods=2, gpus=4)
        for name in ("a", "b", "c"):
            scenario = scenario.gang(name, pods=1, gpus=4)
        scenario.place().expect(admitted=12)

    def test_pods_of_one_group_may_differ(self) -> None:
        # A pod of 8 GPUs fits no node; the other one goes to one node, once.
        large = Group("large", pods=1, gpus=8)
        for minimum, want in ((0, 1), (1, 1), (2, 0)):
            mixed = Group("w", pods=1, gpus=1, min=minimum, others=(large,))
            scenario = Scenario("x1=4 x2=4").gang("a", mixed, prefer="rack")
            scenario.place().expect(new={"a": want})

    def test_groups_of_one_gang_may_be_alike(self) -> None:
        for gpus in (0, 4):
            groups = Group("p", pods=1, gpus=gpus), Group("d", pods=1, gpus=gpus)
            Scenario("x1=8").gang("a", *groups).place().expect(placed=["a"], new={"a": 2})


class TestMinimumsBeforeExtras:
    def test_no_extra_takes_the_room_of_a_minimum(self) -> None:
        # Four nodes; both gangs want two and would take four. Each gets two.
        scenario = Scenario("x1=8 x2=8 x3=8 x4=8")
        scenario = scenario.gang("a", pods=4, gpus=8, min=2).gang("b", pods=4, gpus=8, min=2)
        scenario.place().expect(placed=["a", "b"], new={"a": 2, "b": 2}, extra=0)

    def test_room_that_no_minimum_can_use_goes_to_extras(self) -> None:
        # "b" needs both its pods on one host, which none can hold: "a" takes all three.
        scenario = Scenario("x1=8 x2=8 x3=8").gang("b", pods=2, gpus=8, pack="host")
        scenario = scenario.gang("a", pods=3, gpus=8, min=2)
        scenario.place().expect(placed=["a"], new={"a": 3, "b": 0}, extra=1)

    def test_a_minimum_of_low_priority_goes_before_an_extra_of_high_priority(self) -> None:
        # Two nodes: minimum of "high" and minimum of "low", not the extra of "high".
        scenario = Scenario("x1=8 x2=8").gang("high", pods=2, gpus=8, min=1, priority=9)
        scenario = scenario.gang("low", pods=1, gpus=8)
        scenario.place().expect(placed=["high", "low"], extra=0)

    def test_extras_take_the_room_of_a_minimum_that_cannot_be_met_beside_theirs(self) -> None:
        # "b" tolerates no other pod on its host, so only one of both is admitted, for one GPU
        # either way. With "a" there is an extra, although the two minimums would fill the node.
        apart = Group("w", pods=1, gpus=1, spread=(spread("host", min_domains=2),))
        scenario = Scenario("x1=2").gang("a", pods=2, gpus=1, min=1).gang("b", apart)
        scenario.place().expect(placed=["a"], admitted=1, extra=1)

    def test_lower_priorities_take_the_room_of_a_higher_one_that_cannot_use_it(self) -> None:
        # As above, among "a" and "b" of high priority; the second GPU is then free for "low".
        apart = Group("w", pods=1, gpus=1, away=(near("host", kind="high"),))
        high = Group("w", pods=1, gpus=1, labels={"kind": "high"})
        scenario = Scenario("x1=2").gang("a", high, priority=1).gang("b", apart, priority=1)
        scenario.gang("low", pods=1, gpus=1).place().expect(admitted=2)

    def test_a_running_gang_gets_the_extras_that_fit(self) -> None:
        scenario = Scenario("x1=4/8").gang("a", Group("w", pods=2, gpus=4, min=1, on=("x1",)))
        scenario.place().expect(new={"a": 1}, admitted=0, extra=1)


class TestRefused:
    def test_what_cannot_be_honoured_waits_and_others_do_not(self) -> None:
        scenario = Scenario("x1=8 x2=8").gang("a", pods=1, gpus=8, unsupported=["pod a: magic"])
        scenario.gang("b", pods=1, gpus=8).place().expect(placed=["b"])

    def test_an_uninitialized_gang_waits(self) -> None:
        scenario = Scenario("x1=8 x2=8").gang("a", pods=1, gpus=8, uninitialized=True)
        scenario.gang("b", pods=1, gpus=8).place().expect(placed=["b"])

    def test_a_group_without_enough_pods_waits(self) -> None:
        scenario = Scenario("x1=8").gang("a", pods=1, gpus=4, min=2)
        scenario.place().expect(placed=[], new={"a": 0})
