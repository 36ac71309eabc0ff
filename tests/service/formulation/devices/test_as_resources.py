"""Devices as resources: what fits by the columns fits on the board, and the other way round."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from placement_service.entities.devices import (
    Device,
    DevicePartition,
    DeviceShare,
    PartitionPolicy,
    RequiredPartition,
)
from placement_service.entities.queues import GPUS, MILLIGPUS, Queue
from placement_service.entities.request import (
    PODS,
    Binding,
    BoundPod,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.formulation.formulate import formulate
from tests.service.boards import (
    BEST,
    BOARD,
    board,
    near,
    picky,
    placed,
    pods_of,
    share,
    wholes,
    with_nics,
)
from tests.service.questions import GPU, node


def devices(bindings: Sequence[Binding]) -> list[tuple[int, ...]]:
    return sorted(b.devices for b in bindings)


def test_a_pair_takes_the_partition_beside_the_busy_pair() -> None:
    bindings, proven = placed([board(2, 3)], wholes("pair", 2))
    assert devices(bindings) == [(0, 1)]
    assert proven


def test_a_four_and_two_pairs_fill_a_board() -> None:
    bindings, proven = placed([board()], wholes("mix", 2, 2, 4))
    assert sorted(map(len, devices(bindings))) == [2, 2, 4]
    assert proven


def test_three_are_no_partition_where_partitions_count() -> None:
    assert not placed([board()], wholes("three", 3))[0]
    assert placed([board(policy=PartitionPolicy.PREFER)], wholes("three", 3))[0]


def test_free_gpus_that_make_no_partition_hold_no_pod_of_their_number() -> None:
    """Four GPUs are free, two in each half."""
    assert not placed([board(0, 1, 4, 5)], wholes("four", 4))[0]
    assert len(placed([board(0, 1, 4, 5)], wholes("pairs", 2, 2))[0]) == 2


def test_shares_do_not_straddle() -> None:
    part = pods_of("part", 3, share(600), minimum=2)
    bindings, proven = placed([board(gpus=2, policy=PartitionPolicy.PREFER)], [part])
    assert devices(bindings) == [(0,), (1,)]
    assert proven


def test_shares_leave_whole_gpus_to_whole_pods() -> None:
    """Two halves share one GPU, so that a pod of three whole ones fits as well."""
    halves = pods_of("halves", 2, share(500))
    plain = board(gpus=4, policy=PartitionPolicy.PREFER)
    bindings, _ = placed([plain], [halves, *wholes("three", 3)])
    assert len(bindings) == 3


@pytest.mark.parametrize("fixed", [True, False])
def test_parts_of_gpus_are_part_of_what_a_queue_has(fixed: bool) -> None:
    """Of 2.2 GPUs 0.9 are in use; three shares of 400 are 1.2."""
    amounts = {GPUS: 2, MILLIGPUS: 200}
    used = {MILLIGPUS: 900}
    queue = Queue("queues/q", "", {} if fixed else amounts, amounts, used, used)
    part = pods_of("part", 4, share(400), minimum=1)
    part = replace(part, queue="queues/q", not_preemptible=fixed)
    bindings, proven = placed([board()], [part], [queue])
    assert len(bindings) == 3
    assert proven


def test_shares_of_several_gangs_fill_one_gpu_of_a_board() -> None:
    """Each GPU is a partition of its own."""
    bindings, _ = placed([board(0, 1, 2, 3)], [pods_of(n, 1, share(500)) for n in "abc"])
    assert devices(bindings) == [(4,), (4,), (5,)]


def test_a_gpu_that_is_shared_is_no_whole_one() -> None:
    """By number two GPUs are free, but half of one is in use."""
    plain = board(gpus=2, policy=PartitionPolicy.PREFER)
    shared = replace(plain, devices=(replace(plain.devices[0], used_milli=500), plain.devices[1]))
    assert not placed([shared], wholes("two", 2))[0]
    assert devices(placed([shared], wholes("one", 1))[0]) == [(1,)]


def test_a_share_fits_any_memory_of_a_node_with_several() -> None:
    there = board(gpus=2, policy=PartitionPolicy.PREFER)
    both = (Device(0, memory_bytes=40 << 30), Device(1, memory_bytes=80 << 30, used_milli=500))
    gangs = [pods_of("part", 3, share(500))]
    bindings, proven = placed([replace(there, devices=both)], gangs)
    assert devices(bindings) == [(0,), (0,), (1,)]
    assert proven


def test_shares_of_memory_alone_need_memory_alone() -> None:
    part_used = Device(0, used_milli=500, used_memory_milli=300)
    gang = pods_of("memory", 2, PodTemplate({PODS: 1}, device_share=DeviceShare(0, 600)), 1)
    bindings, proven = placed([replace(node("h0", gpus=2), devices=(part_used, Device(1)))], [gang])
    assert len(bindings) == 2
    assert proven


def test_shares_of_compute_and_of_memory_use_the_same_gpu() -> None:
    compute, memory = (
        PodTemplate({PODS: 1}, device_share=part)
        for part in (DeviceShare(1000, 0), DeviceShare(0, 1000))
    )
    gangs = [pods_of("compute", 1, compute), pods_of("memory", 1, memory)]
    bindings, proven = placed([replace(node("h0", gpus=1), devices=(Device(0),))], gangs)
    assert devices(bindings) == [(0,), (0,)]
    assert proven


def test_shares_need_a_node_that_lists_its_gpus() -> None:
    assert not placed([node("plain")], [pods_of("part", 1, share(500))])[0]


def test_sizes_that_do_not_divide_each_other_fill_a_gpu() -> None:
    """600 and 400 thousandths are a whole GPU, 900 take one alone: the two are worth more."""
    gangs = [pods_of(name, 1, share(milli)) for name, milli in (("a", 600), ("b", 400), ("c", 900))]
    bindings, proven = placed([board(gpus=1, policy=PartitionPolicy.PREFER)], gangs)
    assert [b.gang.rpartition("/")[2] for b in bindings] == ["a", "b"]
    assert proven


def test_what_is_too_much_to_try_out_has_a_bound_all_the_same() -> None:
    """Of so many sizes each is rounded up; by what they take together two GPUs hold no more."""
    sizes = (330, 290, 270, 230, 210, 190, 170, 130, 110, 70)
    gangs = [pods_of(f"g{milli}", 4, share(milli), minimum=1) for milli in sizes]
    nodes = [board(name=f"h{i}", policy=PartitionPolicy.PREFER) for i in range(3)]
    question = Snapshot(tuple(nodes), tuple(gangs))
    problem = formulate(question, Policy())
    assert not problem.exact
    assert problem.relaxation is not None
    assert problem.relaxation.exact
    bindings, _ = placed(nodes, gangs)
    assert len(bindings) == 40


def test_what_runs_may_ask_for_what_nobody_waits_for_where_there_is_too_much_to_try_out() -> None:
    sizes = (330, 290, 270, 230, 210, 190, 170, 130, 110, 70)
    gangs = [pods_of(f"g{milli}", 4, share(milli), minimum=1) for milli in sizes]
    runs = PodSet(share(60), (), (BoundPod("namespaces/ml/pods/old", "nodes/h0"),))
    old = PodGang("namespaces/ml/podgangs/old", (PodGroup("w", 1, (runs,)),))
    nodes = [board(name=f"h{i}", policy=PartitionPolicy.PREFER) for i in range(3)]
    bindings, _ = placed(nodes, [*gangs, old])
    assert len(bindings) == 40


def test_network_devices_hang_on_the_switches_of_the_gpus() -> None:
    """One switch has none, on the other there is one for two GPUs."""
    there = with_nics((2, 0), (2, 1))
    bindings, proven = placed([there], [pods_of("one", 2, near(1, 1), minimum=1)])
    assert devices(bindings) == [(2,)]
    assert proven


def test_gpus_of_several_switches_need_a_network_device_on_each() -> None:
    assert not placed([with_nics((1, 1), (1, 0))], [pods_of("two", 1, near(2, 1))])[0]
    assert len(placed([with_nics((1, 1), (1, 1))], [pods_of("two", 1, near(2, 1))])[0]) == 1
    assert not placed([with_nics((1, 1), (1, 1))], [pods_of("two", 1, near(2, 3))])[0]


def test_pods_without_need_leave_the_switch_with_network_devices() -> None:
    gangs = [pods_of("plain", 2, near(1, 0)), pods_of("near", 2, near(1, 1))]
    bindings, proven = placed([with_nics((2, 2), (2, 0))], gangs)
    assert [b.devices for b in bindings if "/near-" in b.pod] == [(0,), (1,)]
    assert proven


def test_network_devices_are_given_on_nodes_that_list_them_only() -> None:
    assert not placed([node("plain")], [pods_of("near", 1, near(1, 1))])[0]


@pytest.mark.parametrize("seed", range(8))
def test_columns_say_exactly_what_fits_a_board(seed: int) -> None:
    """Brute force over the partitions of a random board, for random sets of pods."""
    rng = random.Random(seed)
    busy = rng.sample(range(8), rng.randrange(6))
    table = [frozenset(p.devices) for p in BOARD if not set(p.devices) & set(busy)]

    def fits(sizes: Sequence[int], left: frozenset[int]) -> bool:
        if not sizes:
            return True
        able = (p for p in table if len(p) == sizes[0] and p <= left)
        return any(fits(sizes[1:], left - p) for p in able)

    free = frozenset(range(8)) - set(busy)
    for sizes in itertools.combinations_with_replacement((4, 2, 1), 3):
        gangs = [
            replace(
                pods_of("all", 1, PodTemplate({GPU: sizes[0], PODS: 1})),
                groups=tuple(
                    PodGroup(
                        f"g{i}",
                        1,
                        (
                            PodSet(
                                PodTemplate({GPU: size, PODS: 1}),
                                (Pod(f"namespaces/ml/pods/p{i}"),),
                            ),
                        ),
                    )
                    for i, size in enumerate(sizes)
                ),
            )
        ]
        assert bool(placed([board(*busy)], gangs)[0]) == fits(sizes, free), (busy, sizes)


def test_who_insists_on_a_partition_gets_one_where_they_are_only_preferred() -> None:
    there = board(0, 3, 5, 6, policy=PartitionPolicy.PREFER)
    assert placed([there], wholes("any", 2))[0]
    assert not placed([there], [pods_of("pair", 1, picky(2))])[0]
    gangs = [*wholes("any", 3, 2), pods_of("pair", 1, picky(2))]
    bindings, proven = placed([board(0, policy=PartitionPolicy.PREFER)], gangs)
    assert [len(given) for given in devices(bindings)].count(2) == 2
    assert len(bindings) == 3
    assert proven


def test_partitions_that_are_required_are_on_nodes_that_list_some() -> None:
    plain = [node("plain"), board(gpus=4, name="h1")]
    assert not placed(plain, [pods_of("pair", 1, picky(2))])[0]
    (binding,) = placed([*plain, board()], [pods_of("pair", 1, picky(2))])[0]
    assert binding.node == board().name


def test_only_partitions_of_the_best_score_and_enough_bandwidth_serve() -> None:
    parts = [DevicePartition((0, 1), 1, 400), DevicePartition((2, 3), 2, 200)]
    there = replace(board(gpus=4), partitions=tuple(parts))
    fast = RequiredPartition(ring_bandwidth=300)
    for required, want in (
        (BEST, [(2, 3)]),
        (fast, [(0, 1)]),
        (replace(BEST, ring_bandwidth=300), []),
    ):
        bindings, proven = placed([there], [pods_of("pair", 2, picky(2, required), minimum=1)])
        assert devices(bindings) == want
        assert proven


@pytest.mark.parametrize("seed", range(30))
def test_columns_know_which_partitions_serve_whom(seed: int) -> None:
    """Brute force on a random board, for random pods of which some insist on partitions."""
    rng = random.Random(seed)
    policy = rng.choice(tuple(PartitionPolicy))
    honour = policy is PartitionPolicy.HONOR
    plain = board(*rng.sample(range(8), rng.randrange(5)), policy=policy)
    whole = rng.random() < 0.5
    grades = (0,) if rng.random() < 0.5 else (0, 0, 1)
    table = [
        DevicePartition(p.devices, rng.choice(grades), rng.choice((200, 200 * (1 + max(grades)))))
        for p in plain.partitions
        if whole or rng.random() < 0.8
    ]
    there = replace(plain, partitions=tuple(table))

    def serves(p: DevicePartition, size: int, required: RequiredPartition | None) -> bool:
        alike = [q for q in table if len(q.devices) == size]
        if required is None or p not in alike:
            return p in alike
        best = not required.best_score or p.score == max(q.score for q in alike)
        return best and p.ring_bandwidth >= required.ring_bandwidth

    def fits(asked: Sequence[tuple[int, RequiredPartition | None]], left: frozenset[int]) -> bool:
        if not asked:
            return True
        size, required = asked[0]
        able: Iterable[tuple[int, ...]] = (p.devices for p in table if serves(p, size, required))
        if required is None and not (honour and table):
            able = itertools.combinations(sorted(left), size)
        return any(fits(asked[1:], left - {*p}) for p in able if left.issuperset(p))

    free = frozenset(d.index for d in there.devices if d.whole)
    wishes = (None, None, BEST, RequiredPartition(), RequiredPartition(ring_bandwidth=300))
    for _ in range(4):
        asked = [(rng.choice((1, 2, 2, 4)), rng.choice(wishes)) for _ in range(3)]
        sets = [
            PodGroup(f"g{i}", 1, (PodSet(picky(*one), (Pod(f"namespaces/ml/pods/p{i}"),)),))
            for i, one in enumerate(asked)
        ]
        gang = PodGang("namespaces/ml/podgangs/all", tuple(sets))
        assert bool(placed([there], [gang])[0]) == fits(asked, free), (there, asked)
