"""Devices: whole GPUs and shares, partitions, network devices, ComputeDomains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.devices import (
    Device,
    DevicePartition,
    DeviceShare,
    PartitionPolicy,
    RequiredPartition,
)
from placement_service.entities.eviction import EvictionKind, EvictionPolicy
from placement_service.entities.request import Policy
from tests.scenario import Group, Scenario
from tests.service.judge.rules.asking import accepts, refuses

#: Partitions of a board of four.
TABLE = tuple(DevicePartition(p) for p in ((0,), (1,), (2,), (3,), (0, 1), (2, 3), (0, 1, 2, 3)))

FOUR = tuple(Device(i) for i in range(4))


def board(
    *pods: Group,
    devices: tuple[Device, ...] = FOUR,
    policy: PartitionPolicy = PartitionPolicy.HONOR,
    partitions: tuple[DevicePartition, ...] = (),
) -> Scenario:
    scenario = Scenario("x1=4 x2=4").with_devices(
        "x1", *devices, partitions=partitions, partition_policy=policy
    )
    for i, group in enumerate(pods):
        scenario = scenario.gang("abc"[i], group)
    return scenario


def holding(scenario: Scenario, *devices: int) -> Scenario:
    """The pods that run of the first gang have these devices."""
    first, *others = scenario.gangs
    (group,) = first.groups
    (pod_set,) = group.pod_sets
    pods = tuple(replace(pod, devices=devices) for pod in pod_set.bound_pods)
    group = replace(group, pod_sets=(replace(pod_set, bound_pods=pods),))
    return replace(scenario, gangs=(replace(first, groups=(group,)), *others))


def share(compute: int = 0, memory: int = 0, **more: int) -> Group:
    """A pod that wants a part of a GPU."""
    asks = {"device_share": DeviceShare(compute, memory, **more)}
    return Group("w", pods=1, asks=asks)


PAIR = Group("w", pods=1, gpus=2)


class TestWholeDevices:
    def test_a_pod_gets_as_many_as_it_asks_for(self) -> None:
        scenario = board(PAIR)
        assert accepts(scenario, scenario.give(a_w_0=("x1", 0, 3)))
        for given in ((), (0,), (0, 1, 2)):
            plan = scenario.give(a_w_0=("x1", *given))
            assert refuses(scenario, "gets devices & it asks for 2", plan)

    def test_only_where_the_node_lists_devices(self) -> None:
        scenario = board(PAIR)
        assert accepts(scenario, scenario.give(a_w_0=("x2",)))
        assert refuses(scenario, "the node lists none", scenario.give(a_w_0=("x2", 0, 1)))

    def test_they_exist_and_are_healthy(self) -> None:
        devices = (Device(0), Device(1, healthy=False), Device(2))
        scenario = board(PAIR, devices=devices)
        for given, bad in (((0, 1), "[1]"), ((0, 9), "[9]")):
            plan = scenario.give(a_w_0=("x1", *given))
            assert refuses(scenario, f"gets devices {bad}, which are missing or unhealthy", plan)

    def test_nobody_gets_what_another_has(self) -> None:
        scenario = board(PAIR, PAIR)
        assert accepts(scenario, scenario.give(a_w_0=("x1", 0, 1), b_w_0=("x1", 2, 3)))
        both = scenario.give(a_w_0=("x1", 0, 1), b_w_0=("x1", 1, 2))
        assert refuses(scenario, "device 1 & 2000 thousandths", both)

    def test_nobody_gets_what_is_in_use(self) -> None:
        devices = (Device(0), Device(1, used_memory_milli=1), Device(2))
        scenario = board(PAIR, devices=devices)
        assert accepts(scenario, scenario.give(a_w_0=("x1", 0, 2)))
        plan = scenario.give(a_w_0=("x1", 0, 1))
        assert refuses(scenario, "device 1 & 1001 of its memory", plan)

    def test_those_of_a_victim_serve_nobody_of_its_priority(self) -> None:
        """Two more are in use in part, by pods that ask for no GPUs."""
        shared = (Device(0, used_milli=500), Device(1, used_milli=500))
        devices = (*shared, Device(2), Device(3, used_milli=1000, used_memory_milli=1000))
        scenario = Scenario("x1=3/4 x2=4", policy=Policy(eviction=EvictionPolicy.PREEMPT))
        scenario = scenario.with_devices("x1", *devices)
        scenario = holding(scenario.gang("old", Group("w", gpus=1, told=("x1",))), 3)
        scenario = scenario.gang("high", pods=1, gpus=1, priority=1)
        scenario = scenario.gang("equal", pods=1, gpus=2)
        gone = scenario.evict(EvictionKind.PREEMPT, "high", old_w_runs_0=None)
        assert accepts(scenario, scenario.give(high_w_0=("x1", 3), equal_w_0=("x2",)), gone)
        words = "pods of namespaces/ml/podgangs/equal get 1 more whole devices than are free"
        plan = scenario.give(high_w_0=("x2",), equal_w_0=("x1", 2, 3))
        assert refuses(scenario, words, plan, gone)

    def test_evicted_pods_give_theirs_back(self) -> None:
        devices = tuple(Device(i, used_milli=1000, used_memory_milli=1000) for i in range(2))
        scenario = holding(board(replace(PAIR, pods=0, told=("x1",)), devices=devices), 0, 1)
        scenario = replace(scenario, policy=Policy(eviction=EvictionPolicy.PREEMPT))
        scenario = scenario.gang("b", pods=1, gpus=2, priority=1)
        plan = scenario.give(b_w_0=("x1", 0, 1))
        gone = scenario.evict(EvictionKind.PREEMPT, "b", a_w_runs_0=None)
        assert accepts(scenario, plan, gone)

    def test_moved_pods_get_devices_too(self) -> None:
        scenario = replace(
            board().gang("a", Group("w", gpus=2, told=("x2",))),
            policy=Policy(eviction=EvictionPolicy.REPACK),
        )
        (gone,) = scenario.evict(EvictionKind.MOVE, a_w_runs_0="x1")
        assert accepts(scenario, (), (replace(gone, to_devices=(2, 3)),))
        assert refuses(scenario, "gets devices [], it asks for 2", (), (gone,))


class TestShares:
    def test_shares_of_one_device_add_up(self) -> None:
        scenario = board(share(600, 600), share(400, 400), share(600, 600))
        first = {"a_w_0": ("x1", 0), "b_w_0": ("x1", 0)}
        assert accepts(scenario, scenario.give(**first, c_w_0=("x1", 1)))
        plan = scenario.give(a_w_0=("x1", 0), c_w_0=("x1", 0))
        assert refuses(scenario, "device 0 & 1200 thousandths of its compute", plan)

    @pytest.mark.parametrize("compute", [True, False])
    def test_compute_and_memory_count_apart(self, compute: bool) -> None:
        one, other = (share(1000, 0), share(0, 1000)) if compute else (share(0, 1), share(0, 1000))
        scenario = board(one, other)
        plan = scenario.give(a_w_0=("x1", 0), b_w_0=("x1", 0))
        assert accepts(scenario, plan) if compute else refuses(scenario, "1001 of its", plan)

    def test_a_share_of_several_devices_is_of_each(self) -> None:
        scenario = board(share(500, 500, count=2))
        assert accepts(scenario, scenario.give(a_w_0=("x1", 0, 1)))
        assert refuses(scenario, "it asks for 2", scenario.give(a_w_0=("x1", 0)))

    def test_bytes_are_a_share_of_the_device_s_memory(self) -> None:
        half = share(memory_bytes=40 * 2**30)
        devices = (Device(0, memory_bytes=80 * 2**30), Device(1, memory_bytes=40 * 2**30))
        scenario = board(half, half, devices=devices)
        assert accepts(scenario, scenario.give(a_w_0=("x1", 0), b_w_0=("x1", 0)))
        plan = scenario.give(a_w_0=("x1", 1), b_w_0=("x1", 1))
        assert refuses(scenario, "device 1 & 2000 of its memory", plan)

    def test_bytes_of_a_device_of_unknown_size_are_refused(self) -> None:
        scenario = board(share(memory_bytes=2**30))
        plan = scenario.give(a_w_0=("x1", 0))
        assert refuses(scenario, "devices [0] & memory is not known", plan)

    def test_no_node_without_devices_gives_shares(self) -> None:
        scenario = board(share(500, 500))
        assert refuses(scenario, "asks for parts of devices", scenario.give(a_w_0=("x2",)))


class TestPartitions:
    def test_a_pod_gets_a_partition_where_they_are_honoured(self) -> None:
        scenario = board(PAIR, partitions=TABLE)
        assert accepts(scenario, scenario.give(a_w_0=("x1", 3, 2)))
        plan = scenario.give(a_w_0=("x1", 1, 2))
        assert refuses(scenario, "[1, 2] & which are no partition", plan)

    def test_three_are_no_partition(self) -> None:
        scenario = board(Group("w", pods=1, gpus=3), partitions=TABLE)
        assert refuses(scenario, "no partition", scenario.give(a_w_0=("x1", 0, 1, 2)))

    def test_where_they_are_preferred_a_free_one_comes_first(self) -> None:
        scenario = board(PAIR, partitions=TABLE, policy=PartitionPolicy.PREFER)
        plan = scenario.give(a_w_0=("x1", 1, 2))
        busy = (Device(0, used_milli=500), Device(1), Device(2), Device(3, used_milli=500))
        none = board(PAIR, partitions=TABLE, policy=PartitionPolicy.PREFER, devices=busy)
        assert accepts(none, plan)
        three = (*busy[:3], Device(3), Device(4), Device(5))
        table = (*TABLE, DevicePartition((4, 5)))
        free = board(PAIR, partitions=table, policy=PartitionPolicy.PREFER, devices=three)
        assert refuses(free, "though [4, 5] is one and free", plan)

    def test_shares_need_no_partition(self) -> None:
        scenario = board(share(500, 500, count=2), partitions=TABLE)
        assert accepts(scenario, scenario.give(a_w_0=("x1", 1, 2)))

    def test_a_pod_that_insists_on_one_gets_one_where_they_are_preferred(self) -> None:
        busy = (Device(0, used_milli=500), Device(1), Device(2), Device(3, used_milli=500))
        pair = Group("w", pods=1, gpus=2, asks={"required_partition": RequiredPartition()})
        there = board(pair, partitions=TABLE, policy=PartitionPolicy.PREFER, devices=busy)
        assert refuses(there, "but it insists on one", there.give(a_w_0=("x1", 1, 2)))
        assert refuses(there, "but the node lists no devices", there.give(a_w_0=("x2",)))

    def test_a_pod_gets_the_best_score_and_the_bandwidth_that_it_asks_for(self) -> None:
        table = DevicePartition((0, 1), 1, 400), DevicePartition((2, 3), 2, 200)
        for required, served, other, words in (
            (RequiredPartition(best_score=True), (2, 3), (0, 1), "of score 1, but the best has 2"),
            (RequiredPartition(ring_bandwidth=300), (0, 1), (2, 3), "of 200 bytes per second"),
        ):
            pair = Group("w", pods=1, gpus=2, asks={"required_partition": required})
            there = board(pair, partitions=table)
            assert accepts(there, there.give(a_w_0=("x1", *served)))
            assert refuses(there, words, there.give(a_w_0=("x1", *other)))


class TestReservedDevices:
    #: Devices 0 and 1 are held, and with them two GPUs.
    HELD = board(PAIR, Group("own", pods=1, gpus=2)).hold("held", "x1", 2, "own", devices=(0, 1))

    def test_others_do_not_get_them(self) -> None:
        assert accepts(self.HELD, self.HELD.give(a_w_0=("x1", 2, 3)))
        plan = self.HELD.give(a_w_0=("x1", 1, 2))
        assert refuses(self.HELD, "gets devices [1] & reservations/held holds for others", plan)

    def test_owners_get_them_first(self) -> None:
        for given, words in (((0, 1), ""), ((2, 3), "though [0, 1] of the reservation are free")):
            (plan,) = self.HELD.give(b_own_0=("x1", *given))
            bindings = (plan._replace(reservation="reservations/held"),)
            assert refuses(self.HELD, words, bindings) if words else accepts(self.HELD, bindings)


class TestNetworkDevices:
    DEVICES = (
        Device(0, pcie_switch="a", nics=1),
        Device(1, pcie_switch="a", nics=1),
        Device(2, pcie_switch="b", nics=1),
        Device(3, pcie_switch="c"),
    )

    def pods(self, nics: int, gpus: int = 1, count: int = 1) -> Scenario:
        group = Group("w", pods=1, gpus=gpus, asks={"same_pcie_nics": nics})
        return board(*(group,) * count, devices=self.DEVICES)

    def test_they_are_on_the_switches_of_the_pod_s_devices(self) -> None:
        scenario = self.pods(1)
        assert accepts(scenario, scenario.give(a_w_0=("x1", 0)))
        plan = scenario.give(a_w_0=("x1", 3))
        assert refuses(scenario, "needs 1 network devices & [3]", plan)

    def test_each_serves_one_pod(self) -> None:
        scenario = self.pods(1, count=2)
        assert accepts(scenario, scenario.give(a_w_0=("x1", 0), b_w_0=("x1", 2)))
        plan = scenario.give(a_w_0=("x1", 0), b_w_0=("x1", 1))
        assert refuses(scenario, "needs 1 network devices", plan)

    def test_every_switch_of_a_pod_s_devices_gives_it_one(self) -> None:
        """As Koordinator joins them: the switches of both are the same ones."""
        pair = Group("w", pods=1, gpus=2, asks={"same_pcie_nics": 1})
        one = Group("w", pods=1, gpus=1, asks={"same_pcie_nics": 1})
        scenario = board(pair, one, devices=self.DEVICES)
        assert accepts(scenario, scenario.give(a_w_0=("x1", 0, 2)))
        assert accepts(scenario, scenario.give(a_w_0=("x1", 0, 1), b_w_0=("x1", 2)))
        for plan in (
            scenario.give(a_w_0=("x1", 0, 3)),
            scenario.give(a_w_0=("x1", 0, 2), b_w_0=("x1", 1)),
        ):
            assert refuses(scenario, "needs 1 network devices on the switches", plan)

    def test_they_give_as_many_as_are_needed(self) -> None:
        more = tuple(replace(d, nics=2 * d.nics) for d in self.DEVICES)
        for nics, given, fine in ((3, (0, 2), True), (5, (0, 2), False), (2, (0, 1), True)):
            group = Group("w", pods=1, gpus=2, asks={"same_pcie_nics": nics})
            scenario = board(group, devices=more)
            plan = scenario.give(a_w_0=("x1", *given))
            words = f"needs {nics} network devices"
            assert accepts(scenario, plan) if fine else refuses(scenario, words, plan)

    def test_a_node_that_lists_nothing_gives_none(self) -> None:
        scenario = self.pods(1)
        assert refuses(scenario, "parts of devices", scenario.give(a_w_0=("x2",)))


class TestComputeDomains:
    def gangs(self, *domains: str) -> Scenario:
        scenario = Scenario("x1=8 x2=8")
        for i, domain in enumerate(domains):
            group = Group("w", pods=1, gpus=4, asks={"compute_domain": domain})
            scenario = scenario.gang("abc"[i], group)
        return scenario

    def test_a_node_serves_one_at_a_time(self) -> None:
        for one, other, fine in (("d", "d", True), ("d", "e", False), ("d", "", True)):
            scenario = self.gangs(one, other)
            plan = scenario.bind(a_w_0="x1", b_w_0="x1")
            words = "node nodes/x1 would serve the compute domains d, e"
            assert accepts(scenario, plan) if fine else refuses(scenario, words, plan)
            assert accepts(scenario, scenario.bind(a_w_0="x1", b_w_0="x2"))

    def test_the_one_that_it_serves_now_counts(self) -> None:
        scenario = self.gangs("d")
        for serves, fine in (("", True), ("d", True), ("e", False)):
            nodes = (replace(scenario.nodes[0], compute_domain=serves), scenario.nodes[1])
            there = replace(scenario, nodes=nodes)
            plan = there.bind(a_w_0="x1")
            assert accepts(there, plan) if fine else refuses(there, "domains d, e", plan)

    def test_running_pods_count(self) -> None:
        running = Group("w", told=("x1",), asks={"compute_domain": "e"})
        scenario = self.gangs("d").gang("old", running)
        assert refuses(scenario, "domains d, e", scenario.bind(a_w_0="x1"))
        assert accepts(scenario, scenario.bind(a_w_0="x2"))
