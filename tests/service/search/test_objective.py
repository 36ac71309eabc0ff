"""What comes before what: each tier on the smallest question where it decides."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from placement_service.entities.request import ExtrasPolicy, Policy, Snapshot, Tolerance
from placement_service.entities.solution import TierName
from tests.judged import judged, no_answer_is_false, oracle
from tests.placed import solve
from tests.scenario import Group, Scenario, near
from tests.service.search.small_questions import tiny

HOUR = 3600
ONE_NODE = Scenario("x1=8")
SIX_NODES = Scenario("x1=8 x2=8 x3=8 x4=8 x5=8 x6=8")
PATIENT = replace(ONE_NODE, policy=Policy(starvation_after=HOUR))


class TestWaiting:
    def test_more_gangs_are_served_with_the_same_gpus(self) -> None:
        scenario = SIX_NODES.gang("a-big", pods=6, gpus=8)
        for i in range(6):
            scenario = scenario.gang(f"small-{i}", pods=1, gpus=8)
        scenario.place().expect(placed={f"small-{i}" for i in range(6)}, waiting=6, proven=True)

    def test_of_equal_gangs_the_older_goes_first(self) -> None:
        scenario = ONE_NODE.gang("a-new", pods=1, gpus=8, waited=60)
        scenario = scenario.gang("b-old", pods=1, gpus=8, waited=600)
        scenario.place().expect(placed={"b-old"}, waiting=10, proven=True)

    def test_minutes_are_added_up_and_each_gang_counts_for_one_at_least(self) -> None:
        scenario = Scenario("x1=8 x2=8 x3=8").gang("z-big", pods=3, gpus=8, waited=6000)
        for i in range(3):
            scenario = scenario.gang(f"small-{i}", pods=1, gpus=8, waited=59)
        scenario.place().expect(placed={"z-big"}, waiting=100, proven=True)

    def test_gpus_come_before_minutes(self) -> None:
        scenario = ONE_NODE.gang("old", pods=1, gpus=7, waited=100 * HOUR)
        scenario.gang("big", pods=1, gpus=8).place().expect(placed={"big"}, proven=True)

    def test_without_a_time_of_the_snapshot_nobody_has_waited(self) -> None:
        scenario = replace(ONE_NODE.gang("a", pods=1, gpus=8, waited=HOUR), as_of=None)
        scenario.place().expect(waiting=1, proven=True)


class TestWhoComesFirst:
    def test_what_runs_in_part_is_made_whole_before_others_of_its_priority(self) -> None:
        scenario = Scenario("x1=8 y1=0/8").gang("big", pods=1, gpus=8)
        scenario = scenario.gang("lost-one", Group("w", pods=1, gpus=1, on=("y1",)))
        scenario.place().expect(new={"lost-one": 1, "big": 0}, proven=True)

    def test_what_runs_in_part_waits_for_higher_priorities(self) -> None:
        scenario = Scenario("x1=8 y1=0/8").gang("big", pods=1, gpus=8, priority=1)
        scenario = scenario.gang("lost-one", Group("w", pods=1, gpus=1, on=("y1",)))
        scenario.place().expect(new={"lost-one": 0, "big": 1}, proven=True)

    def test_a_starving_gang_goes_before_more_gpus(self) -> None:
        scenario = PATIENT.gang("patient", pods=1, gpus=2, waited=3 * HOUR)
        scenario.gang("eight", pods=1, gpus=8).place().expect(placed={"patient"}, proven=True)

    def test_exactly_the_patience_is_not_longer(self) -> None:
        scenario = PATIENT.gang("patient", pods=1, gpus=2, waited=HOUR)
        scenario.gang("eight", pods=1, gpus=8).place().expect(placed={"eight"}, proven=True)

    def test_priority_goes_before_starving(self) -> None:
        scenario = PATIENT.gang("patient", pods=1, gpus=2, waited=300 * HOUR)
        scenario = scenario.gang("high", pods=1, gpus=8, priority=1)
        scenario.place().expect(placed={"high"}, proven=True)

    @pytest.mark.parametrize(("hours", "first"), [(4, "eight"), (5, "patient")])
    def test_who_starves_far_longer_goes_before_larger_ones_that_starve(
        self, hours: int, first: str
    ) -> None:
        scenario = PATIENT.gang("patient", pods=1, gpus=2, waited=hours * HOUR)
        scenario = scenario.gang("eight", pods=1, gpus=8, waited=HOUR + 60)
        scenario.place().expect(placed={first}, proven=True)

    @pytest.mark.parametrize("guaranteed", [4, 2**53])
    def test_gpus_inside_the_guarantee_of_their_queue_go_before_more_gpus(
        self, guaranteed: int
    ) -> None:
        """The largest amount stands for a guarantee without end."""
        scenario = ONE_NODE.queue("team", guaranteed={"gpus": guaranteed}).queue("other")
        scenario = scenario.gang("a-big", pods=1, gpus=8, queue="other")
        scenario = scenario.gang("z-small", pods=1, gpus=4, queue="team")
        scenario.place().expect(placed={"z-small"}, proven=True)

    def test_a_guarantee_that_is_used_up_is_none(self) -> None:
        scenario = ONE_NODE.queue("team", guaranteed={"gpus": 4}, used=4).queue("other")
        scenario = scenario.gang("a-big", pods=1, gpus=8, queue="other")
        scenario = scenario.gang("z-small", pods=1, gpus=4, queue="team")
        scenario.place().expect(placed={"a-big"}, proven=True)


@pytest.mark.parametrize(
    ("extras", "want"),
    [
        pytest.param(ExtrasPolicy.AFTER_MINIMUMS, {"elastic", "low"}, id="minimums first"),
        pytest.param(ExtrasPolicy.WITH_PRIORITY, {"elastic"}, id="with their priority"),
    ],
)
def test_extras_come_after_all_minimums_or_with_their_priority(
    extras: ExtrasPolicy, want: set[str]
) -> None:
    scenario = replace(Scenario("x1=8 x2=8"), policy=Policy(extras=extras))
    scenario = scenario.gang("elastic", pods=2, gpus=8, min=1, priority=1)
    scenario.gang("low", pods=1, gpus=8).place().expect(placed=want, proven=True)


class TestTolerance:
    #: Nine and one and nine fit a rack each; nine, nine and two fill all nodes, split.
    RACKS = Scenario(
        " | ".join(f"r{r}: " + " ".join(f"n{r}{i}=8" for i in range(10)) for r in (1, 2))
    )

    def question(self, share: float) -> Scenario:
        scenario = replace(self.RACKS, policy=Policy(tolerances=(Tolerance("admitted", share),)))
        for name, pods in (("x-nine", 9), ("y-nine", 9), ("z-two", 2), ("one", 1)):
            scenario = scenario.gang(name, pods=pods, gpus=8, prefer="rack")
        return scenario

    def test_a_few_gpus_buy_whole_racks(self) -> None:
        placed = self.question(0.1).place()
        placed.expect(placed={"x-nine", "y-nine", "one"}, admitted=152, topology=0, proven=False)
        admitted = next(t for t in placed.solution.tiers if t.name is TierName.ADMITTED)
        assert admitted.bound == 160, "the bound is that of all plans"

    def test_no_more_than_the_share_is_spent(self) -> None:
        self.question(0.04).place().expect(placed={"x-nine", "y-nine", "z-two"}, admitted=160)

    def test_nothing_is_spent_for_nothing(self) -> None:
        scenario = replace(self.RACKS, policy=Policy(tolerances=(Tolerance("admitted", 0.5),)))
        scenario.gang("a", pods=2, gpus=8).place().expect(admitted=16, proven=True)

    def test_bounds_wait_for_what_may_be_spent_also_where_nothing_is_to_be_admitted(self) -> None:
        """No gang has a minimum. Behind the extras no bound holds until it is known how many may
        go."""
        policy = Policy(tolerances=(Tolerance("admitted", 0.1), Tolerance("extra", 0.5)))
        scenario = replace(Scenario("x1=8 x2=8"), policy=policy)
        snapshot = scenario.gang("a", pods=2, gpus=8, min=0, previous=("x1",)).snapshot()
        best = oracle(snapshot, policy)
        assert (best.value(TierName.EXTRA), best.value(TierName.TOPOLOGY)) == (1, 0)
        no_answer_is_false(best, snapshot, policy)

    @pytest.mark.parametrize("pods", [1, 2])
    def test_a_lower_priority_that_gains_what_was_spent_proves_nothing(self, pods: int) -> None:
        """The sum over priorities is then the best one, or even more."""
        scenario = replace(
            Scenario("x1=8 x2=8" if pods == 2 else "x1=8"),
            policy=Policy(tolerances=(Tolerance("admitted", 1.0),)),
        )
        scenario = scenario.gang("urgent", pods=1, gpus=8, priority=1)
        placed = scenario.gang("old", pods=pods, gpus=8, waited=HOUR).place()
        placed.expect(placed={"old"}, admitted=8 * pods, waiting=60, proven=False)
        admitted = next(t for t in placed.solution.tiers if t.name is TierName.ADMITTED)
        assert admitted.bound is None

    @pytest.mark.parametrize(
        ("nodes", "tiers"),
        [
            pytest.param("x1=8 x2=8", ["extra"], id="no room"),
            pytest.param("x1=8 x2=8 x3=8 x4=8 x5=8", ["admitted", "waiting"], id="given up"),
        ],
    )
    def test_gangs_that_need_not_be_placed_need_no_domains(
        self, nodes: str, tiers: list[str]
    ) -> None:
        """One of two is placed best. Each of them uses one host more than it prefers to."""
        policy = Policy(tolerances=tuple(Tolerance(tier, 0.5) for tier in tiers))
        scenario = replace(Scenario(nodes), policy=policy).gang("c", pods=1, gpus=8, min=0)
        for name in "ab":
            scenario = scenario.gang(name, pods=2, gpus=8, prefer="host")
        snapshot = scenario.snapshot()
        best = oracle(snapshot, policy)
        assert best.value(TierName.TOPOLOGY) == 1
        no_answer_is_false(best, snapshot, policy)

    def test_gangs_that_counting_cannot_keep_out_need_no_domains(self) -> None:
        """There is room for both, but one keeps the other out of the only rack."""
        policy = Policy(tolerances=(Tolerance("extra", 0.5),))
        scenario = replace(Scenario("r1: x1=8 x2=8 x3=8 x4=8 x5=8"), policy=policy)
        scenario = scenario.gang("c", pods=1, gpus=8, min=0)
        for name, away in (("a", ()), ("b", (near("rack", group="a"),))):
            group = Group(name, pods=2, gpus=8, away=away)
            scenario = scenario.gang(name, group, prefer="host")
        snapshot = scenario.snapshot()
        best = oracle(snapshot, policy)
        assert best.value(TierName.TOPOLOGY) == 1
        no_answer_is_false(best, snapshot, policy)

    def test_no_bound_on_the_way_forgets_what_is_still_spent_of_a_higher_priority(self) -> None:
        """The extra of high takes half of the room of a gang, and may be given up."""
        tolerances = (Tolerance("extra", 1.0), Tolerance("waiting", 0.5))
        policy = Policy(extras=ExtrasPolicy.WITH_PRIORITY, tolerances=tolerances)
        scenario = replace(Scenario("r1: x1=4"), policy=policy)
        scenario = scenario.gang("high", pods=1, gpus=1, min=0, priority=7)
        scenario = scenario.gang("a", pods=2, gpus=2, min=1).gang("b", pods=1, gpus=2)
        snapshot = scenario.snapshot()
        best = oracle(snapshot, policy)
        assert best.value(TierName.ADMITTED) == 4
        no_answer_is_false(best, snapshot, policy)

    @given(tiny)
    def test_bounds_hold_and_enough_is_left(self, snapshot: Snapshot) -> None:
        policy = Policy(starvation_after=1000, tolerances=(Tolerance("admitted", 0.3),))
        best = oracle(snapshot, policy)
        final = solve(snapshot, policy)[-1]
        judged(snapshot, policy, final)
        admitted = next(t for t in final.tiers if t.name is TierName.ADMITTED)
        optimal = best.value(TierName.ADMITTED)
        if admitted.bound is None:
            # A lower priority gained what a higher one gave.
            assert len({gang.priority for gang in snapshot.gangs}) > 1
            return
        assert admitted.bound >= optimal - 1e-6
        if abs(admitted.bound - optimal) < 1e-6:
            assert admitted.value >= 0.7 * optimal - 1e-6
