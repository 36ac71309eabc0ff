"""Numbers and texts at the ends of what they may be: taken there, and refused one step beyond."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from placement.v1 import ComputePlacementRequest, cluster_pb2, workload_pb2
from tests.service.api.validating import problems, template
from tests.service.questions import gang, message, snapshot

TEMPLATE = "gangs[0].groups[0].pod_sets[0].template"
KEY, VALUE, TEXT, ADDRESS = 317, 512, 1024, 64
AMOUNT = 2**53
TEN_THOUSAND_YEARS = 315_576_000_000

#: Puts a number, or a text of this length, into a request.
Put = Callable[[ComputePlacementRequest, int], object]

IN = cluster_pb2.SELECTOR_OPERATOR_IN
EXISTS = cluster_pb2.SELECTOR_OPERATOR_EXISTS
EFFECT = cluster_pb2.TAINT_EFFECT_NO_SCHEDULE


def question() -> ComputePlacementRequest:
    """Two nodes, of which the first lists devices, and a gang."""
    there = message(snapshot(2, (gang("a", pods=1, gpus=4),)))
    there.snapshot.nodes[0].devices.add(index=1)
    there.snapshot.pods.add(name="namespaces/ml/pods/running", node="nodes/n0")
    return there


def device(there: ComputePlacementRequest) -> cluster_pb2.Device:
    return there.snapshot.nodes[0].devices[0]


def share(there: ComputePlacementRequest, **parts: int) -> None:
    template(there).requests.extended.clear()
    template(there).device_share.MergeFrom(workload_pb2.DeviceShare(**parts))


def term(there: ComputePlacementRequest) -> cluster_pb2.PodAffinityTerm:
    return template(there).required_affinity.add(topology_key="rack")


def node_term(there: ComputePlacementRequest) -> workload_pb2.NodeSelectorTerm:
    return template(there).required_node_affinity.terms.add()


def port(there: ComputePlacementRequest, **parts: int | str) -> None:
    template(there).host_ports.add(**{"port": 80, "protocol": "TCP", **parts})


def spread(there: ComputePlacementRequest, **parts: int) -> None:
    template(there).spread_constraints.add(topology_key="rack", **{"max_skew": 1, **parts})


def check(put: Put, taken: int, refused: int, field: str) -> None:
    there = question()
    put(there, taken)
    assert problems(there) == {}
    there = question()
    put(there, refused)
    found = problems(there)
    assert [*found] == [field]
    shown = found[field].replace(",", "")
    # Times are told in seconds, of which six digits are enough.
    assert str(abs(refused)) in shown or f"{refused:g}" in shown


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
    check(put, least, least - 1, field)
    if most is not None:
        check(put, most, most + 1, field)


def name(n: int) -> str:
    return "x" * n


@pytest.mark.parametrize(
    ("field", "most", "put"),
    [
        (
            "snapshot.nodes[0].taints[0].key",
            KEY,
            lambda m, n: m.snapshot.nodes[0].taints.add(key=name(n), effect=EFFECT),
        ),
        (
            "snapshot.nodes[0].taints[0].value",
            VALUE,
            lambda m, n: m.snapshot.nodes[0].taints.add(key="k", value=name(n), effect=EFFECT),
        ),
        (
            "snapshot.nodes[0].compute_domain",
            KEY,
            lambda m, n: setattr(m.snapshot.nodes[0], "compute_domain", name(n)),
        ),
        (
            "snapshot.nodes[0].closed_because",
            TEXT,
            lambda m, n: setattr(m.snapshot.nodes[0], "closed_because", name(n)),
        ),
        (
            "snapshot.nodes[0].devices[0].pcie_switch",
            VALUE,
            lambda m, n: setattr(device(m), "pcie_switch", name(n)),
        ),
        (
            'snapshot.pods[0].labels["a"]',
            VALUE,
            # Beside shorter ones.
            lambda m, n: m.snapshot.pods[0].labels.update({"a": name(n), "b": ""}),
        ),
        (
            "snapshot.pods[0].required_anti_affinity[0].topology_key",
            KEY,
            lambda m, n: m.snapshot.pods[0].required_anti_affinity.add(topology_key=name(n)),
        ),
        (
            'snapshot.reservations[0].labels["a"]',
            VALUE,
            lambda m, n: m.snapshot.reservations.add(
                name="reservations/r", node="nodes/n0", labels={"a": name(n)}
            ),
        ),
        (
            "gangs[0].groups[0].pod_sets[0].pods[0].uid",
            VALUE,
            lambda m, n: setattr(m.gangs[0].groups[0].pod_sets[0].pods[0], "uid", name(n)),
        ),
        (
            "gangs[0].packing_scopes[0].name",
            VALUE,
            lambda m, n: m.gangs[0].packing_scopes.add(name=name(n)),
        ),
        (
            "gangs[0].packing_scopes[0].required_level",
            KEY,
            lambda m, n: m.gangs[0].packing_scopes.add(required_level=name(n)),
        ),
        (
            "gangs[0].packing_scopes[0].preferred_level",
            KEY,
            lambda m, n: m.gangs[0].packing_scopes.add(preferred_level=name(n)),
        ),
        ("gangs[0].unsupported[0]", TEXT, lambda m, n: m.gangs[0].unsupported.append(name(n))),
        (
            "gangs[0].volume_claims[0]",
            VALUE,
            lambda m, n: m.gangs[0].volume_claims.append(name(n)),
        ),
        (f"{TEMPLATE}.host_ports[0].host_ip", ADDRESS, lambda m, n: port(m, host_ip=name(n))),
        (
            f"{TEMPLATE}.required_affinity[0].namespaces[0]",
            VALUE,
            lambda m, n: term(m).namespaces.append(name(n)),
        ),
        (
            f"{TEMPLATE}.required_affinity[0].selector.match_expressions[0].key",
            KEY,
            lambda m, n: term(m).selector.match_expressions.add(key=name(n), operator=EXISTS),
        ),
        (
            f"{TEMPLATE}.required_affinity[0].selector.match_expressions[0].values[1]",
            VALUE,
            lambda m, n: term(m).selector.match_expressions.add(
                key="a", operator=IN, values=["b", name(n)]
            ),
        ),
        (
            f'{TEMPLATE}.required_affinity[0].selector.match_labels["a"]',
            VALUE,
            lambda m, n: term(m).selector.match_labels.update(a=name(n)),
        ),
        (
            f"{TEMPLATE}.required_node_affinity.terms[0].match_fields[0].values[0]",
            VALUE,
            lambda m, n: node_term(m).match_fields.add(
                key="metadata.name", operator=IN, values=[name(n)]
            ),
        ),
        (
            f"{TEMPLATE}.tolerations[0].key",
            KEY,
            lambda m, n: template(m).tolerations.add(key=name(n)),
        ),
        (
            f"{TEMPLATE}.tolerations[0].value",
            VALUE,
            lambda m, n: template(m).tolerations.add(key="k", value=name(n)),
        ),
        (
            f"{TEMPLATE}.compute_domain",
            KEY,
            lambda m, n: setattr(template(m), "compute_domain", name(n)),
        ),
        (f"{TEMPLATE}.unsupported[0]", TEXT, lambda m, n: template(m).unsupported.append(name(n))),
        ("policy.gpu_resources[3]", KEY, lambda m, n: m.policy.gpu_resources.append(name(n))),
        ("snapshot.revision", TEXT, lambda m, n: setattr(m.snapshot, "revision", name(n))),
        ("label", TEXT, lambda m, n: setattr(m, "label", name(n))),
        *(
            (
                f"previous_placement[0].{field}",
                TEXT,
                lambda m, n, field=field: m.previous_placement.add(**{field: name(n)}),
            )
            for field in ("pod", "uid", "node", "reservation")
        ),
    ],
)
def test_a_text_as_long_as_it_may_be_is_taken(field: str, most: int, put: Put) -> None:
    check(put, most, most + 1, field)


def test_one_long_key_among_short_ones_is_found() -> None:
    there = question()
    there.snapshot.nodes[0].labels.update({"a": "", "k" * (KEY + 1): ""})
    assert [*problems(there)] == [f'snapshot.nodes[0].labels["{"k" * 60}..."]']


def test_a_text_that_is_too_long_is_told_wherever_it_stands() -> None:
    there = question()
    for node in there.snapshot.nodes:
        node.taints.add(key="k" * (KEY + 1), effect=EFFECT)
    assert [*problems(there)] == [f"snapshot.nodes[{i}].taints[0].key" for i in (0, 1)]


def test_a_wrong_name_is_repeated_whole_where_it_is_short() -> None:
    for length, shown in ((60, "x" * 60), (61, "x" * 60 + "...")):
        there = question()
        there.gangs[0].previous_nodes.append("x" * length)
        (words,) = problems(there).values()
        assert words.endswith(f'is "{shown}"')


def test_network_devices_are_beside_gpus() -> None:
    there = question()
    template(there).same_pcie_nics = 1
    assert problems(there) == {}
    template(there).requests.extended.clear()
    assert "absent where no GPUs are" in problems(there)[f"{TEMPLATE}.same_pcie_nics"]
    share(there, compute_milli=1)
    assert problems(there) == {}


@pytest.mark.parametrize("number", ["0", "-5", "+5", "9" * 19])
def test_nodes_are_compared_with_a_number(number: str) -> None:
    there = question()
    requirement = node_term(there).match_expressions.add(key="a", values=[number])
    requirement.operator = cluster_pb2.SELECTOR_OPERATOR_GT
    assert problems(there) == {}
    requirement.values[0] += "0" * 19
    assert problems(there) == {
        f"{TEMPLATE}.required_node_affinity.terms[0].match_expressions[0].values": (
            "must hold exactly one integer for GT and LT"
        )
    }
