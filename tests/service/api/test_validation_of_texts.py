"""Texts as long as they may be: taken so, and refused when one character longer."""

from __future__ import annotations

import pytest

from placement.v1 import ComputePlacementRequest, cluster_pb2
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
KEY, VALUE, TEXT, ADDRESS = 317, 512, 1024, 64

IN = cluster_pb2.SELECTOR_OPERATOR_IN
EXISTS = cluster_pb2.SELECTOR_OPERATOR_EXISTS
EFFECT = cluster_pb2.TAINT_EFFECT_NO_SCHEDULE


def term(there: ComputePlacementRequest) -> cluster_pb2.PodAffinityTerm:
    return template(there).required_affinity.add(topology_key="rack")


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
    check_end(put, most, most + 1, field)


def test_one_long_key_among_short_ones_is_found() -> None:
    there = small_question()
    there.snapshot.nodes[0].labels.update({"a": "", "k" * (KEY + 1): ""})
    assert [*problems(there)] == [f'snapshot.nodes[0].labels["{"k" * 60}..."]']


def test_a_resource_that_is_requested_has_a_name() -> None:
    there = small_question()
    there.snapshot.nodes[1].requested.extended["z" * (KEY + 1)] = 1
    assert [*problems(there)] == [f'snapshot.nodes[1].requested.extended["{"z" * 60}..."]']


def test_violations_are_in_the_order_of_the_nodes() -> None:
    there = small_question()
    there.snapshot.nodes[1].labels["a"] = name(VALUE + 1)
    there.snapshot.nodes[0].taints.add(key=name(KEY + 1), effect=EFFECT)
    first, second = problems(there)
    assert first == "snapshot.nodes[0].taints[0].key"
    assert second == 'snapshot.nodes[1].labels["a"]'


def test_a_text_that_is_too_long_is_told_wherever_it_stands() -> None:
    there = small_question()
    for node in there.snapshot.nodes:
        node.taints.add(key="k" * (KEY + 1), effect=EFFECT)
    assert [*problems(there)] == [f"snapshot.nodes[{i}].taints[0].key" for i in (0, 1)]


def test_a_wrong_name_is_repeated_whole_where_it_is_short() -> None:
    for length, shown in ((60, "x" * 60), (61, "x" * 60 + "...")):
        there = small_question()
        there.gangs[0].previous_nodes.append("x" * length)
        (words,) = problems(there).values()
        assert words.endswith(f'is "{shown}"')
