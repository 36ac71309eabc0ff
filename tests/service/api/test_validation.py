"""Every rule of a request, on its smallest violation; the valid request is the other half."""

from __future__ import annotations

import pytest

from placement.v1 import ComputePlacementRequest, cluster_pb2
from placement_service.api import size
from placement_service.api.wire.requests import parse_request
from placement_service.entities.errors import InvalidRequest
from tests.service.api.validating import Spoil, node_term, problems, template
from tests.service.questions import gang, message, snapshot


def question() -> ComputePlacementRequest:
    """A valid request with two gangs and a running pod."""
    there = message(snapshot(3, (gang("a", pods=2, gpus=4), gang("b", pods=1, gpus=1))))
    there.snapshot.pods.add(name="namespaces/ml/pods/running", node="nodes/n0")
    return there


def anti_affinity(
    there: ComputePlacementRequest, *, key: str = "rack"
) -> cluster_pb2.LabelSelector:
    return template(there).required_anti_affinity.add(topology_key=key).selector


def based_on_each_other(there: ComputePlacementRequest) -> None:
    there.gangs[0].base_gang = there.gangs[1].name
    there.gangs[1].base_gang = there.gangs[0].name


TEMPLATE = "gangs[0].groups[0].pod_sets[0].template"
TERM = f"{TEMPLATE}.required_node_affinity.terms[0]"
SELECTOR = f"{TEMPLATE}.required_anti_affinity[0].selector.match_expressions[0]"

IN = cluster_pb2.SELECTOR_OPERATOR_IN
EXISTS = cluster_pb2.SELECTOR_OPERATOR_EXISTS
GT = cluster_pb2.SELECTOR_OPERATOR_GT


def test_a_valid_request_has_no_violations() -> None:
    assert problems(question()) == {}


@pytest.mark.parametrize(
    ("spoil", "want_field", "want_words"),
    [
        pytest.param(
            lambda m: setattr(m.snapshot.nodes[1], "name", "n1"),
            "snapshot.nodes[1].name", 'must have the form "nodes/{node}", is "n1"',
            id="node name",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.nodes[2], "name", "nodes/n0"),
            "snapshot.nodes[2].name", '"nodes/n0" is also the name of snapshot.nodes[0]',
            id="node twice",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.nodes[2].allocatable, "cpu_millis", -1),
            "snapshot.nodes[2].allocatable.cpu_millis", "must not be negative, is -1",
            id="negative allocatable",
        ),
        pytest.param(
            lambda m: m.snapshot.nodes[2].requested.extended.update({"x/y": 2**53 + 1}),
            'snapshot.nodes[2].requested.extended["x/y"]', "must be at most 2**53",
            id="amount beyond sums of 64 bits",
        ),
        pytest.param(
            lambda m: m.snapshot.nodes[0].allocatable.extended.update({"cpu": 4}),
            'snapshot.nodes[0].allocatable.extended["cpu"]', "has a field of its own, cpu_millis",
            id="extended resource with a field of its own",
        ),
        pytest.param(
            lambda m: m.snapshot.nodes[0].taints.add(key="k"),
            "snapshot.nodes[0].taints[0].effect", "must be specified",
            id="taint without effect",
        ),
        pytest.param(
            lambda m: m.snapshot.nodes[0].taints.add(key="k", effect=9),
            "snapshot.nodes[0].taints[0].effect", "has no member 9",
            id="taint with an effect of the future",
        ),
        pytest.param(
            lambda m: m.snapshot.nodes[0].host_ports.add(port=0),
            "snapshot.nodes[0].host_ports[0].port", "must be from 1 to 65535, is 0",
            id="host port of a node",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.pods[0], "name", "running"),
            "snapshot.pods[0].name", "must have the form",
            id="running pod name",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.pods[0], "node", ""),
            "snapshot.pods[0].node", "must have the form",
            id="running pod without node",
        ),
        pytest.param(
            lambda m: m.snapshot.pods.append(m.snapshot.pods[0]),
            "snapshot.pods[1].name", "is also the name of snapshot.pods[0]",
            id="running pod twice",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.pods[0], "name", "namespaces/ml/pods/a-0"),
            "gangs[0].groups[0].pod_sets[0].pods[0].name", "is a running pod as well",
            id="running pod that is pending",
        ),
        pytest.param(
            lambda m: m.snapshot.pods[0].required_anti_affinity.add(),
            "snapshot.pods[0].required_anti_affinity[0].topology_key", "must not be empty",
            id="term of a running pod",
        ),
        pytest.param(
            lambda m: setattr(m.gangs[0], "name", "a"),
            "gangs[0].name", "must have the form",
            id="gang name",
        ),
        pytest.param(
            lambda m: setattr(m.gangs[1], "name", m.gangs[0].name),
            "gangs[1].name", "is also the name of gangs[0]",
            id="gang twice",
        ),
        pytest.param(
            lambda m: m.gangs[1].ClearField("groups"),
            "gangs[1].groups", "must hold at least one group",
            id="gang without groups",
        ),
        pytest.param(
            lambda m: m.gangs[1].groups.add(name=""),
            "gangs[1].groups[1].name", "must be a name",
            id="group without name",
        ),
        pytest.param(
            lambda m: m.gangs[1].groups.add(name="worker"),
            "gangs[1].groups[1].name", '"worker" is also the name of gangs[1].groups[0]',
            id="group twice",
        ),
        pytest.param(
            lambda m: setattr(m.gangs[1].groups[0], "min_replicas", -1),
            "gangs[1].groups[0].min_replicas", "must not be negative, is -1",
            id="negative minimum",
        ),
        pytest.param(
            lambda m: setattr(m.gangs[1].groups[0], "gated_count", -1),
            "gangs[1].groups[0].gated_count", "must not be negative, is -1",
            id="negative count of gated pods",
        ),
        pytest.param(
            lambda m: m.gangs[1].groups[0].pod_sets.add(),
            "gangs[1].groups[0].pod_sets[1].pods", "must hold at least one pod",
            id="empty pod set",
        ),
        pytest.param(
            lambda m: setattr(m.gangs[1].groups[0].pod_sets[0].pods[0], "name", "b-0"),
            "gangs[1].groups[0].pod_sets[0].pods[0].name", "must have the form",
            id="pod name",
        ),
        pytest.param(
            lambda m: setattr(
                m.gangs[1].groups[0].pod_sets[0].pods[0], "name", "namespaces/ml/pods/a-1"
            ),
            "gangs[1].groups[0].pod_sets[0].pods[0].name", "is in the request already",
            id="pod in two gangs",
        ),
        pytest.param(
            lambda m: setattr(
                m.gangs[1].groups[0].pod_sets[0].pods[0], "name", "namespaces/other/pods/b-0"
            ),
            "gangs[1].groups[0].pod_sets[0].pods[0].name", "must be in the namespace of its gang",
            id="pod of another namespace",
        ),
        pytest.param(
            lambda m: m.gangs[1].groups[0].bound_pods.add(
                name="namespaces/ml/pods/a-1", node="nodes/gone"
            ),
            "gangs[1].groups[0].bound_pods[0].name", "is in the request already",
            id="pod bound and pending",
        ),
        pytest.param(
            lambda m: m.gangs[1].groups[0].bound_pods.add(
                name="namespaces/ml/pods/b-7", node="gone"
            ),
            "gangs[1].groups[0].bound_pods[0].node", "must have the form",
            id="bound pod without proper node",
        ),
        pytest.param(
            lambda m: m.gangs[1].packing_scopes.add(groups=["worker", "leader"]),
            "gangs[1].packing_scopes[0].groups[1]", '"leader" is not a group of this gang',
            id="scope over an unknown group",
        ),
        pytest.param(
            lambda m: setattr(m.gangs[1], "base_gang", "namespaces/ml/podgangs/z"),
            "gangs[1].base_gang", '"namespaces/ml/podgangs/z" is not a gang of this request',
            id="unknown base",
        ),
        pytest.param(
            lambda m: setattr(m.gangs[1], "base_gang", m.gangs[1].name),
            "gangs[1].base_gang", "must not be its own base",
            id="own base",
        ),
        pytest.param(
            based_on_each_other,
            "gangs[1].base_gang", "has a base gang itself",
            id="base with a base",
        ),
        pytest.param(
            lambda m: m.gangs[1].previous_nodes.append("n7"),
            "gangs[1].previous_nodes[0]", "must have the form",
            id="previous node",
        ),
        pytest.param(
            lambda m: template(m).requests.extended.update({"": 1}),
            f'{TEMPLATE}.requests.extended[""]', "must have a name",
            id="resource without name",
        ),
        pytest.param(
            lambda m: setattr(template(m).requests, "pod_count", -1),
            f"{TEMPLATE}.requests.pod_count", "must not be negative",
            id="negative pod count",
        ),
        pytest.param(
            lambda m: template(m).host_ports.add(port=65536),
            f"{TEMPLATE}.host_ports[0].port", "must be from 1 to 65535, is 65536",
            id="host port of a pod",
        ),
        pytest.param(
            lambda m: template(m).host_ports.add(port=1, protocol="tcp"),
            f"{TEMPLATE}.host_ports[0].protocol", "must be TCP, UDP or SCTP",
            id="protocol",
        ),
        pytest.param(
            lambda m: template(m).tolerations.add(operator=7),
            f"{TEMPLATE}.tolerations[0].operator", "has no member 7",
            id="toleration operator",
        ),
        pytest.param(
            lambda m: template(m).tolerations.add(effect=7),
            f"{TEMPLATE}.tolerations[0].effect", "has no member 7",
            id="toleration effect",
        ),
        pytest.param(
            lambda m: node_term(m).match_expressions.add(key="k"),
            f"{TERM}.match_expressions[0].operator", "must be specified",
            id="requirement without operator",
        ),
        pytest.param(
            lambda m: node_term(m).match_expressions.add(key="k", operator=IN),
            f"{TERM}.match_expressions[0].values", "must hold at least one value",
            id="IN without values",
        ),
        pytest.param(
            lambda m: node_term(m).match_expressions.add(key="k", operator=EXISTS, values=["v"]),
            f"{TERM}.match_expressions[0].values", "must be empty",
            id="EXISTS with values",
        ),
        pytest.param(
            lambda m: node_term(m).match_expressions.add(operator=EXISTS),
            f"{TERM}.match_expressions[0].key", "must not be empty",
            id="requirement without key",
        ),
        pytest.param(
            lambda m: node_term(m).match_expressions.add(key="k", operator=GT, values=["many"]),
            f"{TERM}.match_expressions[0].values", "must hold exactly one integer",
            id="GT with a word",
        ),
        pytest.param(
            lambda m: node_term(m).match_expressions.add(key="k", operator=GT, values=["1", "2"]),
            f"{TERM}.match_expressions[0].values", "must hold exactly one integer",
            id="GT with two values",
        ),
        pytest.param(
            lambda m: node_term(m).match_fields.add(key="metadata.uid", operator=IN, values=["v"]),
            f"{TERM}.match_fields[0].key", 'must be "metadata.name"',
            id="unknown field",
        ),
        pytest.param(
            lambda m: node_term(m).match_fields.add(key="metadata.name", operator=EXISTS),
            f"{TERM}.match_fields[0].operator", "must be IN or NOT_IN",
            id="operator on a field",
        ),
        pytest.param(
            lambda m: anti_affinity(m, key=""),
            f"{TEMPLATE}.required_anti_affinity[0].topology_key", "must not be empty",
            id="term without topology key",
        ),
        pytest.param(
            lambda m: anti_affinity(m).match_expressions.add(key="k", operator=GT, values=["1"]),
            f"{SELECTOR}.operator", "GT and LT are for nodes only",
            id="GT on pods",
        ),
        pytest.param(
            lambda m: template(m).spread_constraints.add(topology_key="zone"),
            f"{TEMPLATE}.spread_constraints[0].max_skew", "must be at least 1, is 0",
            id="skew",
        ),
        pytest.param(
            lambda m: template(m).spread_constraints.add(
                topology_key="zone", max_skew=1, min_domains=-2
            ),
            f"{TEMPLATE}.spread_constraints[0].min_domains", "must not be negative, is -2",
            id="min domains",
        ),
        pytest.param(
            lambda m: template(m).spread_constraints.add(max_skew=1),
            f"{TEMPLATE}.spread_constraints[0].topology_key", "must not be empty",
            id="spread without topology key",
        ),
        pytest.param(
            lambda m: m.policy.gpu_resources.append(""),
            "policy.gpu_resources[3]", "must not be empty",
            id="GPU resource without name",
        ),
        pytest.param(
            lambda m: m.time_limit.FromMilliseconds(0),
            "time_limit", "must be positive, is 0 s",
            id="no time",
        ),
        pytest.param(
            lambda m: setattr(m.time_limit, "seconds", 2**63 - 1),
            "time_limit", "must be at most",
            id="more time than a duration holds",
        ),
    ],
)  # fmt: skip
def test_a_violation_is_named_with_its_field(
    spoil: Spoil, want_field: str, want_words: str
) -> None:
    there = question()
    spoil(there)
    found = problems(there)
    assert want_words in found.get(want_field, "nothing"), found


@pytest.mark.parametrize(
    "touch",
    [
        pytest.param(
            lambda m: (
                m.gangs[0]
                .groups[0]
                .bound_pods.add(name="namespaces/ml/pods/a-9", node="nodes/gone")
            ),
            id="a bound pod on a node that is gone",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.pods[0], "node", "nodes/gone"),
            id="a running pod on a node that is gone",
        ),
        pytest.param(
            lambda m: m.gangs[0].previous_nodes.append("nodes/gone"), id="a previous node"
        ),
        pytest.param(
            lambda m: m.previous_placement.add(pod="what", node="ever"), id="a previous binding"
        ),
        pytest.param(
            lambda m: setattr(m.gangs[0].groups[0], "min_replicas", 99), id="pods that are missing"
        ),
        pytest.param(lambda m: m.snapshot.ClearField("nodes"), id="a cluster without nodes"),
        pytest.param(lambda m: m.ClearField("gangs"), id="nothing to place"),
        pytest.param(
            lambda m: m.snapshot.pods[0].labels.update({"a": "\x00" * 500}), id="odd labels"
        ),
    ],
)
def test_what_a_cluster_in_motion_leaves_behind_is_no_violation(touch: Spoil) -> None:
    there = question()
    touch(there)
    assert problems(there) == {}


def test_all_violations_are_listed_at_once() -> None:
    there = question()
    there.snapshot.nodes[0].name = ""
    there.gangs[0].groups[0].min_replicas = -1
    template(there).tolerations.add(operator=7)
    template(there).spread_constraints.add(topology_key="zone")
    there.time_limit.FromSeconds(-1)
    assert len(problems(there)) == 5


def test_a_hundred_violations_are_listed_and_all_are_counted() -> None:
    there = question()
    for i in range(500):
        there.gangs[0].groups[0].pod_sets[0].pods.add(name=f"nonsense {i}")
    with pytest.raises(InvalidRequest) as caught:
        parse_request(there)
    assert (len(caught.value.violations), caught.value.count) == (100, 500)


def test_what_is_repeated_of_a_bad_name_is_short_and_printable() -> None:
    there = question()
    there.gangs[0].name = "\n\u0000'\"" * 10_000
    (words,) = (v for k, v in problems(there).items() if k == "gangs[0].name")
    assert len(words) < 500
    assert words.isprintable()


@pytest.mark.parametrize("count", [3, 4])
def test_lists_beyond_what_the_service_takes_are_refused(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The limits themselves are too large for a test."""
    monkeypatch.setattr(size, "MAX_NODES", 3)
    found = problems(message(snapshot(count)))
    assert ("snapshot.nodes" in found) == (count > 3)


@pytest.mark.parametrize(
    ("limit", "want_field"),
    [("MAX_GANGS", "gangs"), ("MAX_PODS", "gangs.groups.pod_sets.pods")],
)
def test_gangs_and_pods_are_limited_too(
    monkeypatch: pytest.MonkeyPatch, limit: str, want_field: str
) -> None:
    there = question()
    monkeypatch.setattr(size, limit, 1)
    assert set(problems(there)) == {want_field}
