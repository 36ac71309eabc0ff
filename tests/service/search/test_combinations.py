"""Rules that meet: questions where taking one gang, group or rule at a time goes wrong.

The best answer is known before the engine is asked, since it was derived by hand
(the comment says how) or because the question was cut out of its own answer: each
rack's free nodes were dealt to gangs, so all gangs fit and fill them.
"""

from __future__ import annotations

import random

from placement_service.entities.request import PackingScope
from tests.scenario import Group, Scenario, near

A_NODE = 8


def racks(*sizes: int, block: str = "") -> str:
    """Racks of whole nodes; with a block's name all in that block."""
    path = f"{block}/{block}" if block else ""
    return " | ".join(
        f"{path}r{r}: " + " ".join(f"{block}r{r}n{n}={A_NODE}" for n in range(size))
        for r, size in enumerate(sizes)
    )


class TestNestedLevels:
    def test_only_a_zone_that_nests_is_chosen(self) -> None:
        # Eight nodes: two groups of 3 in racks of one block, a third of 2 in any rack. Both zones
        # have the nodes; in the first no block has two racks of 3.
        cluster = Scenario(
            "z1/b1/r1: a1=8 a2=8 a3=8 | z1/b1/r2: a4=8 a5=8"
            "| z1/b2/r3: a6=8 a7=8 a8=8 | z1/b2/r4: a9=8 a10=8"
            "| z2/b3/r5: c1=8 c2=8 c3=8 | z2/b3/r6: c4=8 c5=8 c6=8 | z2/b4/r7: c7=8 c8=8"
        )
        placed = cluster.gang(
            "deep",
            Group("p", pods=3, gpus=8, pack="rack"),
            Group("d", pods=3, gpus=8, pack="rack"),
            Group("r", pods=2, gpus=8, pack="rack"),
            pack="zone",
            scopes=(PackingScope("pd", ("p", "d"), "block", ""),),
        ).place()
        placed.expect(placed=["deep"])
        assert placed.domains("zone", "deep") == {"z2"}
        assert {node for node in placed.nodes("deep", "r")} == {"c7", "c8"}

    def test_each_block_suits_one_of_two_gangs(self) -> None:
        # Racks of 3 + 3 and of 4 + 2: the gang of 4 + 2 must leave the block of 3 + 3 alone.
        cluster = Scenario(racks(3, 3, block="x") + " | " + racks(4, 2, block="y"))
        for first, second in (
            (("uneven", 4, 2), ("even", 3, 3)),
            (("even", 3, 3), ("uneven", 4, 2)),
        ):
            scenario = cluster
            for name, p, d in (first, second):
                groups = (
                    Group("p", pods=p, gpus=8, pack="rack"),
                    Group("d", pods=d, gpus=8, pack="rack"),
                )
                scenario = scenario.gang(name, *groups, pack="block")
            placed = scenario.place().expect(placed=["even", "uneven"])
            assert placed.domains("block", "even") == {"x"}

    def test_a_survivor_of_one_group_pins_the_block_of_another(self) -> None:
        # "p" runs in r1, so "d" needs a rack of 2 in block b1, though b2 has a wider one.
        cluster = Scenario("b1/r1: x1=0/8 x2=8 | b1/r2: x3=8 x4=8 | b2/r3: x5=8 x6=8 x7=8 x8=8")
        groups = (
            Group("p", pods=1, gpus=8, on=("x1",), pack="rack"),
            Group("d", pods=2, gpus=8, pack="rack"),
        )
        placed = cluster.gang("a", *groups, pack="block").place()
        placed.expect(placed=["a"], nodes={"a": {"x2": 1, "x3": 1, "x4": 1}})


class TestPreferredLevels:
    def test_one_of_three_gangs_must_cross(self) -> None:
        # 5, 4 and 3 nodes fill two racks of 6. No subset sums to 6, so one gang is in both.
        scenario = Scenario(racks(6, 6))
        for size in (5, 4, 3):
            scenario = scenario.gang(f"g{size}", pods=size, gpus=8, prefer="rack")
        scenario.place().expect(placed=["g5", "g4", "g3"], topology=1)

    def test_preferred_coarser_than_required_brings_groups_together(self) -> None:
        # A rack for each group; only b3 has two racks of 3.
        cluster = Scenario(
            f"{racks(3, block='b1')} | {racks(3, block='b2')} | {racks(3, 3, block='b3')}"
        )
        groups = tuple(Group(name, pods=3, gpus=8, pack="rack") for name in "pd")
        placed = cluster.gang("a", *groups, prefer="block").place().expect(topology=0)
        assert placed.domains("block", "a") == {"b3"}


class TestExtras:
    def test_a_plain_gang_makes_way_for_the_extras_of_another(self) -> None:
        # "plain" fits both racks. In the rack of 2 it leaves 4 nodes to "elastic": 3 extras, not 1.
        scenario = Scenario(racks(2, 4)).gang("plain", pods=2, gpus=8)
        scenario = scenario.gang("elastic", pods=5, gpus=8, min=1, pack="rack")
        scenario.place().expect(new={"plain": 2, "elastic": 4}, extra=3)

    def test_the_number_of_extras_counts_not_their_size(self) -> None:
        # 8 GPUs are left beside the minimums: one extra of 8, or seven of 1.
        scenario = Scenario("x1=8 x2=8").gang("large", pods=2, gpus=8, min=1)
        scenario = scenario.gang("small", pods=10, gpus=1, min=1)
        scenario.place().expect(new={"large": 1, "small": 8}, extra=7)

    def test_one_elastic_gang_per_rack_leaves_room_for_all_extras(self) -> None:
        # Two minimums of 4 fit a rack of 8, where neither can grow.
        scenario = Scenario(racks(*[8] * 6))
        for i in range(6):
            scenario = scenario.gang(f"g{i}", pods=8, gpus=8, min=4, pack="rack")
        scenario.place().expect(new={f"g{i}": 8 for i in range(6)}, extra=24)


class TestPriorities:
    def test_a_knapsack_per_priority_from_high_to_low(self) -> None:
        # 16 GPUs. High: 9 rather than 8, both do not fit. Of the 7 left, 4 + 3 beat 5.
        scenario = Scenario("x1=16")
        for priority, sizes in ((2, (9, 8)), (1, (5, 4, 3)), (0, (2, 1))):
            for size in sizes:
                scenario = scenario.gang(
                    f"p{priority}-{size}", pods=1, gpus=size, priority=priority
                )
        scenario.place().expect(placed=["p2-9", "p1-4", "p1-3"], admitted=16)

    def test_one_gpu_of_high_priority_outweighs_a_rack_of_low_ones(self) -> None:
        # The high gang keeps away from all low ones in its rack, and there is one rack.
        scenario = Scenario(racks(4))
        low = Group("w", pods=1, gpus=8, labels={"tier": "low"})
        for i in range(4):
            scenario = scenario.gang(f"low-{i}", low)
        high = Group("w", pods=1, gpus=1, away=(near("rack", tier="low"),))
        scenario.gang("high", high, priority=1).place().expect(placed=["high"], admitted=1)


class TestSharedHosts:
    def test_hosts_fill_only_with_pods_of_different_gangs(self) -> None:
        # 5 + 2, 6 + 1 and 7 + 3 with own pods apart: 5 + 3, 6 + 2 and 7 + 1 fill three hosts of 8.
        scenario = Scenario("x1=8 x2=8 x3=8")
        for large, small in ((5, 2), (6, 1), (7, 3)):
            name = f"g{large}"
            apart = (near("host", gang=name),)
            groups = (
                Group("l", pods=1, gpus=large, labels={"gang": name}, away=apart),
                Group("s", pods=1, gpus=small, labels={"gang": name}, away=apart),
            )
            scenario = scenario.gang(name, *groups)
        scenario.place().expect(placed=["g5", "g6", "g7"], admitted=24)


class TestQuestionsCutOutOfTheirAnswer:
    def test_racks_fill_to_the_last_node(self) -> None:
        rng = random.Random(1)
        sizes = [rng.randint(6, 14) for _ in range(12)]
        jobs = []
        for free in sizes:
            while free:
                jobs.append(min(free, rng.randint(2, 7)))
                free -= jobs[-1]
        rng.shuffle(jobs)
        scenario = Scenario(racks(*sizes))
        for i, size in enumerate(jobs):
            scenario = scenario.gang(f"g{i}", pods=size, gpus=8, pack="rack")
        scenario.place().expect(admitted=8 * sum(sizes))

    def test_blocks_fill_with_sets(self) -> None:
        # Blocks of 9: a base of 4 or 5 and scaled gangs of 2 and 3 or 2 make 9 each time.
        scenario = Scenario(" | ".join(racks(9, block=f"b{b}") for b in range(4)))
        for b in range(4):
            base, *scaled = (4, 3, 2) if b % 2 else (5, 2, 2)
            scenario = scenario.gang(f"s{b}", pods=base, gpus=8, pack="block")
            for i, size in enumerate(scaled):
                scenario = scenario.gang(
                    f"s{b}-x{i}", pods=size, gpus=8, pack="block", base=f"s{b}"
                )
        scenario.place().expect(admitted=8 * 36, topology=0)
