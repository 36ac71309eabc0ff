"""Numbers at the ends of what they may be: taken there, and refused one step beyond."""

from __future__ import annotations

import pytest

from placement.v1 import ComputePlacementRequest, cluster_pb2, workload_pb2
from tests.service.api.validating import (
    Put,
    check_end,
    device,
    node_term,
    port,
    problems,
    small_question,
    template,
)

TEMPLATE = "gangs[0].groups[0].pod_sets[0].template"
AMOUNT = 2**53
TEN_THOUSAND_YEARS = 315_576_000_000


def share(there: ComputePlacementRequest, **parts: int) -> None:
    template(there).requests.extended.clear()
    template(there).device_share.MergeFrom(workload_pb2.DeviceShare(**parts))


def spread(there: ComputePlacementRequest, **parts: int) -> None:
    template(there).spread_constraints.add(topology_key="rack", **{"max_skew": 1, **parts})


@pytest.mark.parametrize(
    ("field", "least", "most", "put"),
    [
        (
            "snapshot.as_of",
            -62_135_596_800,
            253_402_300_799,
            lambda m, n: setattr(m.snapshot.as_of, "seconds", n),
        ),
        (
            "snapshot.nodes[1].allocatable.cpu_millis",
            0,
            AMOUNT,
            lambda m, n: setattr(m.snapshot.nodes[1].allocatable, "cpu_millis", n),
        ),
        (
            "snapshot.nodes[1].requested.memory_bytes",
            0,
            AMOUNT,
            lambda m, n: setattr(m.snapshot.nodes[1].requested, "memory_bytes", n),
        ),
        (
            "snapshot.nodes[1].compute_domain_pods",
            0,
            None,
            lambda m, n: setattr(m.snapshot.nodes[1], "compute_domain_pods", n),
        ),
        (
            "snapshot.nodes[1].host_ports[0].port",
            1,
            65_535,
            lambda m, n: m.snapshot.nodes[1].host_ports.add(port=n, protocol="UDP"),
        ),
        (
            "snapshot.nodes[0].devices[0].index",
            0,
            None,
            lambda m, n: setattr(device(m), "index", n),
        ),
        (
            "snapshot.nodes[0].devices[0].used_milli",
            0,
            1000,
            lambda m, n: setattr(device(m), "used_milli", n),
        ),
        (
            "snapshot.nodes[0].devices[0].used_memory_milli",
            0,
            1000,
            lambda m, n: setattr(device(m), "used_memory_milli", n),
        ),
        (
            "snapshot.nodes[0].devices[0].memory_bytes",
            0,
            None,
            lambda m, n: setattr(device(m), "memory_bytes", n),
        ),
        (
            "snapshot.nodes[0].devices[0].nics",
            0,
            256,
            lambda m, n: setattr(device(m), "nics", n),
        ),
        (
            "snapshot.nodes[0].devices[0].numa_node",
            -1,
            None,
            lambda m, n: setattr(device(m), "numa_node", n),
        ),
        (
            "snapshot.nodes[0].partitions[0].ring_bandwidth",
            0,
            None,
            lambda m, n: m.snapshot.nodes[0].partitions.add(devices=[1], ring_bandwidth=n),
        ),
        (
            'snapshot.queues[0].limit["gpus"]',
            0,
            AMOUNT,
            lambda m, n: m.snapshot.queues.add(name="queues/q", limit={"gpus": n}),
        ),
        (
            "snapshot.disruption_budgets[0].allowed",
            0,
            None,
            lambda m, n: m.snapshot.disruption_budgets.add(
                name="namespaces/ml/poddisruptionbudgets/b", allowed=n
            ),
        ),
        (
            "gangs[0].groups[0].min_replicas",
            0,
            None,
            lambda m, n: setattr(m.gangs[0].groups[0], "min_replicas", n),
        ),
        (
            "gangs[0].groups[0].gated_count",
            0,
            None,
            lambda m, n: setattr(m.gangs[0].groups[0], "gated_count", n),
        ),
        (
            "gangs[0].minimum_run_time",
            0,
            TEN_THOUSAND_YEARS,
            lambda m, n: m.gangs[0].minimum_run_time.FromSeconds(n),
        ),
        (
            "gangs[0].minimum_run_time_before_reclaim",
            0,
            TEN_THOUSAND_YEARS,
            lambda m, n: m.gangs[0].minimum_run_time_before_reclaim.FromSeconds(n),
        ),
        (
            "gangs[0].groups[0].bound_pods[0].devices[0]",
            0,
            None,
            lambda m, n: (
                m.gangs[0]
                .groups[0]
                .bound_pods.add(name="namespaces/ml/pods/b", node="nodes/n1", devices=[n])
            ),
        ),
        (f"{TEMPLATE}.host_ports[0].port", 1, 65_535, lambda m, n: port(m, port=n)),
        (
            f"{TEMPLATE}.spread_constraints[0].max_skew",
            1,
            None,
            lambda m, n: spread(m, max_skew=n),
        ),
        (
            f"{TEMPLATE}.spread_constraints[0].min_domains",
            0,
            None,
            lambda m, n: spread(m, min_domains=n),
        ),
        (
            f"{TEMPLATE}.same_pcie_nics",
            0,
            1024,
            lambda m, n: setattr(template(m), "same_pcie_nics", n),
        ),
        (
            f"{TEMPLATE}.required_partition.ring_bandwidth",
            0,
            None,
            lambda m, n: setattr(template(m).required_partition, "ring_bandwidth", n),
        ),
        (
            f"{TEMPLATE}.device_share.compute_milli",
            0,
            1000,
            lambda m, n: share(m, compute_milli=n, memory_bytes=1),
        ),
        (
            f"{TEMPLATE}.device_share.memory_milli",
            0,
            1000,
            lambda m, n: share(m, memory_milli=n, compute_milli=1),
        ),
        (
            f"{TEMPLATE}.device_share.memory_bytes",
            0,
            None,
            lambda m, n: share(m, memory_bytes=n, compute_milli=1),
        ),
        (
            f"{TEMPLATE}.device_share.count",
            0,
            1024,
            lambda m, n: share(m, compute_milli=1, count=n),
        ),
        (
            "policy.starvation_after",
            0,
            TEN_THOUSAND_YEARS,
            lambda m, n: m.policy.starvation_after.FromSeconds(n),
        ),
        ("time_limit", 1, TEN_THOUSAND_YEARS, lambda m, n: m.time_limit.FromSeconds(n)),
        (
            'policy.tolerances["admitted"]',
            0,
            1,
            lambda m, n: m.policy.tolerances.update(admitted=n),
        ),
    ],
)
def test_a_number_at_the_end_of_its_range_is_taken(
    field: str, least: int, most: int | None, put: Put
) -> None:
    check_end(put, least, least - 1, field)
    if most is not None:
        check_end(put, most, most + 1, field)


def test_network_devices_are_beside_gpus() -> None:
    there = small_question()
    template(there).same_pcie_nics = 1
    assert problems(there) == {}
    template(there).requests.extended.clear()
    assert "absent where no GPUs are" in problems(there)[f"{TEMPLATE}.same_pcie_nics"]
    share(there, compute_milli=1)
    assert problems(there) == {}


@pytest.mark.parametrize("number", ["0", "-5", "+5", "9" * 19])
def test_nodes_are_compared_with_a_number(number: str) -> None:
    there = small_question()
    requirement = node_term(there).match_expressions.add(key="a", values=[number])
    requirement.operator = cluster_pb2.SELECTOR_OPERATOR_GT
    assert problems(there) == {}
    requirement.values[0] += "0" * 19
    assert problems(there) == {
        f"{TEMPLATE}.required_node_affinity.terms[0].match_expressions[0].values": (
            "must hold exactly one integer for GT and LT"
        )
    }


def test_a_node_lists_no_more_devices_and_partitions_than_any_has() -> None:
    there = small_question()
    node = there.snapshot.nodes[1]
    for i in range(256):
        node.devices.add(index=i)
    for _ in range(1024):
        node.partitions.add(devices=[0])
    assert problems(there) == {}
    node.partitions.add(devices=[0])
    assert problems(there) == {"snapshot.nodes[1].partitions": "are 1,025, at most 1,024"}
    node.devices.add(index=256)
    assert problems(there) == {"snapshot.nodes[1].devices": "are 257, at most 256"}


def test_no_device_is_listed_twice() -> None:
    there = small_question()
    there.snapshot.nodes[0].partitions.add(devices=[1, 1])
    there.snapshot.reservations.add(name="reservations/r", node="nodes/n0", devices=[1, 1])
    bound = there.gangs[0].groups[0].bound_pods.add(name="namespaces/ml/pods/b", node="nodes/n0")
    bound.devices.extend([1, 1])
    assert problems(there) == dict.fromkeys(
        (
            "snapshot.nodes[0].partitions[0].devices",
            "snapshot.reservations[0].devices",
            "gangs[0].groups[0].bound_pods[0].devices",
        ),
        "holds a device twice",
    )


@pytest.mark.parametrize("children_first", [False, True])
def test_a_hundred_queues_may_stand_one_above_the_other(*, children_first: bool) -> None:
    there = small_question()
    queues = [
        cluster_pb2.Queue(name=f"queues/q{i}", parent=f"queues/q{i - 1}" if i else "")
        for i in range(101)
    ]
    order = queues[::-1] if children_first else queues
    there.snapshot.queues.extend(one for one in order if one is not queues[100])
    assert problems(there) == {}
    there.snapshot.queues.append(queues[100])
    assert problems(there) == {"snapshot.queues[100].parent": "has 100 queues above it, at most 99"}
    del there.snapshot.queues[:]
    there.snapshot.queues.extend(order)
    assert [*problems(there)] == [f"snapshot.queues[{0 if children_first else 100}].parent"]


def test_amounts_of_queues_are_told_in_their_units() -> None:
    there = small_question()
    more = {"gpus": 2, "cpu": 2_000}
    there.snapshot.queues.add(
        name="queues/q", used={"gpus": 1, "cpu": 1_000}, used_not_preemptible=more
    )
    at = "snapshot.queues[0].used_not_preemptible"
    assert problems(there) == {
        f'{at}["gpus"]': "2 is more than the 1 that is used",
        f'{at}["cpu"]': "2000 is more than the 1000 that is used",
    }
