"""Rules on queues, reservations, devices, evictions and the policy, one violation each."""

from __future__ import annotations

import time

import pytest

from placement.v1 import ComputePlacementRequest
from tests.service.api.validating import Spoil, problems, template
from tests.service.questions import gang, message, snapshot


def question() -> ComputePlacementRequest:
    """Two queues, a reservation, a node that lists devices, and a gang that partly runs."""
    there = message(snapshot(2, (gang("a", pods=1, gpus=4),)))
    there.snapshot.as_of.FromSeconds(1_700_000_000)
    there.snapshot.queues.add(name="queues/org", limit={"gpus": 8})
    there.snapshot.queues.add(name="queues/team", parent="queues/org", used={"gpus": 2})
    node = there.snapshot.nodes[0]
    node.devices.add(index=0, numa_node=-1)
    node.devices.add(index=1)
    node.partitions.add(devices=[0, 1])
    held = there.snapshot.reservations.add(name="reservations/r", node=node.name, devices=[1])
    held.owners.add(namespace="ml")
    budget = there.snapshot.disruption_budgets.add(allowed=1)
    budget.name = "namespaces/ml/poddisruptionbudgets/b"
    pod = there.gangs[0].groups[0].pod_sets[0].bound_pods.add(name="namespaces/ml/pods/runs")
    pod.node = node.name
    pod.devices.append(0)
    pod.reservation = "reservations/r"
    there.gangs[0].queue = "queues/team"
    return there


def share(there: ComputePlacementRequest, **parts: int) -> None:
    """A share of a GPU instead of whole ones."""
    template(there).requests.extended.clear()
    template(there).device_share.SetInParent()
    for field, amount in parts.items():
        setattr(template(there).device_share, field, amount)


def a_partition_for_a_share(there: ComputePlacementRequest) -> None:
    share(there, compute_milli=1)
    template(there).required_partition.SetInParent()


def in_a_circle(there: ComputePlacementRequest) -> None:
    there.snapshot.queues[0].parent = "queues/team"


TEMPLATE = "gangs[0].groups[0].pod_sets[0].template"
BOUND = "gangs[0].groups[0].pod_sets[0].bound_pods[0]"
LONG = "x" * 513


def test_a_valid_request_has_no_violations() -> None:
    assert problems(question()) == {}


@pytest.mark.parametrize(
    ("spoil", "want_field", "want_words"),
    [
        pytest.param(
            lambda m: setattr(m.snapshot.as_of, "seconds", 2**40),
            "snapshot.as_of", "is no time of the years 1 to 9999",
            id="a time beyond time",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.queues[0], "name", "org"),
            "snapshot.queues[0].name", 'must have the form "queues/{queue}", is "org"',
            id="queue name",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.queues[1], "name", "queues/org"),
            "snapshot.queues[1].name", '"queues/org" is also the name of snapshot.queues[0]',
            id="queue twice",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.queues[1], "parent", "queues/typo"),
            "snapshot.queues[1].parent", '"queues/typo" is not a queue of this snapshot',
            id="unknown parent",
        ),
        pytest.param(
            in_a_circle,
            "snapshot.queues[0].parent", 'leads back to "queues/org"',
            id="queues in a circle",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.queues[0], "parent", "queues/org"),
            "snapshot.queues[0].parent", 'leads back to "queues/org"',
            id="a queue above itself",
        ),
        pytest.param(
            lambda m: m.snapshot.queues[0].limit.update(gpus=-1),
            'snapshot.queues[0].limit["gpus"]', "must not be negative, is -1",
            id="negative limit",
        ),
        pytest.param(
            lambda m: m.snapshot.queues[0].kept.update(gpus=-1),
            'snapshot.queues[0].kept["gpus"]', "must not be negative, is -1",
            id="something negative is kept",
        ),
        pytest.param(
            lambda m: m.snapshot.queues[0].guaranteed.update({"": 1}),
            'snapshot.queues[0].guaranteed[""]', "must have a name",
            id="guarantee of nothing",
        ),
        pytest.param(
            lambda m: m.snapshot.queues[1].used_not_preemptible.update(gpus=1, milligpus=1500),
            'snapshot.queues[1].used_not_preemptible["gpus"]',
            "2.5 is more than the 2 that is used",
            id="more parts of GPUs that are not preemptible than are used",
        ),
        pytest.param(
            lambda m: m.snapshot.queues[1].used_not_preemptible.update(gpus=3),
            'snapshot.queues[1].used_not_preemptible["gpus"]', "3 is more than the 2 that is used",
            id="more than all is not preemptible",
        ),
        pytest.param(
            lambda m: setattr(m.gangs[0], "queue", "team"),
            "gangs[0].queue", 'must have the form "queues/{queue}"',
            id="queue of a gang",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.reservations[0], "name", "r"),
            "snapshot.reservations[0].name", "must have the form",
            id="reservation name",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.reservations[0], "node", "nodes/gone"),
            "snapshot.reservations[0].node", '"nodes/gone" is not a node of this snapshot',
            id="reservation on an unknown node",
        ),
        pytest.param(
            lambda m: m.snapshot.reservations[0].devices.append(7),
            "snapshot.reservations[0].devices[1]", '7 is not a device of "nodes/n0"',
            id="reservation of an unknown device",
        ),
        pytest.param(
            lambda m: m.snapshot.reservations[0].held.extended.update({"x/y": -1}),
            'snapshot.reservations[0].held.extended["x/y"]', "must not be negative",
            id="reservation of less than nothing",
        ),
        pytest.param(
            lambda m: m.snapshot.reservations[0].owners.add(),
            "snapshot.reservations[0].owners[1]", "must say something",
            id="an owner that says nothing",
        ),
        pytest.param(
            lambda m: m.snapshot.reservations[0].owners.add(gang="train"),
            "snapshot.reservations[0].owners[1].gang", "must have the form",
            id="gang of an owner",
        ),
        pytest.param(
            lambda m: m.snapshot.reservations[0].owners.add()
            .selector.match_expressions.add(key="k", operator=5, values=["1"]),
            "snapshot.reservations[0].owners[1].selector.match_expressions[0].operator",
            "GT and LT are for nodes only",
            id="selector of an owner",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.disruption_budgets[0], "allowed", -1),
            "snapshot.disruption_budgets[0].allowed", "must not be negative, is -1",
            id="negative budget",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.disruption_budgets[0], "name", "b"),
            "snapshot.disruption_budgets[0].name", "poddisruptionbudgets/{budget}",
            id="budget name",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.nodes[0].devices[1], "index", 0),
            "snapshot.nodes[0].devices[1].index", "0 is also the index of devices[0]",
            id="device twice",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.nodes[0].devices[0], "used_milli", 1001),
            "snapshot.nodes[0].devices[0].used_milli", "must be from 0 to 1000, is 1001",
            id="more than a device in use",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.nodes[0].devices[0], "numa_node", -2),
            "snapshot.nodes[0].devices[0].numa_node", "must be at least -1",
            id="numa node",
        ),
        pytest.param(
            lambda m: m.snapshot.nodes[0].partitions.add(devices=[0, 9]),
            "snapshot.nodes[0].partitions[1].devices[1]", "9 is not a device of this node",
            id="partition of an unknown device",
        ),
        pytest.param(
            lambda m: m.snapshot.nodes[0].partitions.add(devices=[0], ring_bandwidth=-1),
            "snapshot.nodes[0].partitions[1].ring_bandwidth", "must not be negative, is -1",
            id="partition of less than no bandwidth",
        ),
        pytest.param(
            lambda m: m.snapshot.nodes[0].partitions.add(),
            "snapshot.nodes[0].partitions[1].devices", "at least one device",
            id="partition of nothing",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot.nodes[0], "partition_policy", 9),
            "snapshot.nodes[0].partition_policy", "has no member 9",
            id="partition policy of the future",
        ),
        pytest.param(
            lambda m: m.gangs[0].groups[0].pod_sets[0].bound_pods[0].devices.append(9),
            f"{BOUND}.devices[1]", '9 is not a device of "nodes/n0"',
            id="device of a running pod",
        ),
        pytest.param(
            lambda m: setattr(
                m.gangs[0].groups[0].pod_sets[0].bound_pods[0], "reservation", "r"
            ),
            f"{BOUND}.reservation", "must have the form",
            id="reservation of a running pod",
        ),
        pytest.param(
            lambda m: setattr(
                m.gangs[0].groups[0].pod_sets[0].bound_pods[0], "name", "namespaces/ml/pods/a-0"
            ),
            f"{BOUND}.name", "is in the request already",
            id="a pod that waits and runs",
        ),
        pytest.param(
            lambda m: share(m, compute_milli=1001),
            f"{TEMPLATE}.device_share.compute_milli", "must be from 0 to 1000, is 1001",
            id="share of more than a device",
        ),
        pytest.param(
            lambda m: share(m),
            f"{TEMPLATE}.device_share", "must ask for something",
            id="share of nothing",
        ),
        pytest.param(
            lambda m: share(m, memory_milli=1, memory_bytes=1),
            f"{TEMPLATE}.device_share.memory_bytes", "must be absent",
            id="memory twice",
        ),
        pytest.param(
            lambda m: setattr(template(m).device_share, "compute_milli", 1),
            f"{TEMPLATE}.device_share", "must be absent where whole GPUs are asked for, here 4",
            id="share and whole GPUs",
        ),
        pytest.param(
            lambda m: share(m, compute_milli=1, count=-1),
            f"{TEMPLATE}.device_share.count", "must be from 0 to 1024, is -1",
            id="share of fewer than no devices",
        ),
        pytest.param(
            lambda m: setattr(template(m), "same_pcie_nics", -1),
            f"{TEMPLATE}.same_pcie_nics", "must not be negative",
            id="negative network devices",
        ),
        pytest.param(
            lambda m: setattr(template(m).required_partition, "ring_bandwidth", -1),
            f"{TEMPLATE}.required_partition.ring_bandwidth", "must not be negative, is -1",
            id="less than no bandwidth",
        ),
        pytest.param(
            a_partition_for_a_share,
            f"{TEMPLATE}.required_partition", "must be absent where no whole GPUs are asked for",
            id="partition for a share",
        ),
        pytest.param(
            lambda m: setattr(template(m).required_reservation, "name", "r"),
            f"{TEMPLATE}.required_reservation.name", "must have the form",
            id="required reservation by a bad name",
        ),
        pytest.param(
            lambda m: template(m)
            .required_reservation.terms.add()
            .match_expressions.add(key="k", operator=1),
            f"{TEMPLATE}.required_reservation.terms[0].match_expressions[0].values",
            "at least one value",
            id="term of a required reservation",
        ),
        pytest.param(
            lambda m: m.gangs[0].minimum_run_time.FromSeconds(-1),
            "gangs[0].minimum_run_time", "must not be negative, is -1 s",
            id="negative run time",
        ),
        pytest.param(
            lambda m: m.gangs[0].minimum_run_time_before_reclaim.FromMilliseconds(-1),
            "gangs[0].minimum_run_time_before_reclaim", "must not be negative",
            id="run time a little negative",
        ),
        pytest.param(
            lambda m: m.snapshot.queues[1].minimum_run_time_before_reclaim.FromSeconds(-1),
            "snapshot.queues[1].minimum_run_time_before_reclaim", "must not be negative",
            id="negative run time of a queue",
        ),
        pytest.param(
            lambda m: setattr(m.gangs[0].create_time, "seconds", -(2**40)),
            "gangs[0].create_time", "is no time",
            id="created before time",
        ),
        pytest.param(
            lambda m: m.policy.starvation_after.FromSeconds(-1),
            "policy.starvation_after", "must not be negative",
            id="starving before waiting",
        ),
        pytest.param(
            lambda m: m.policy.tolerances.update(admited=0.1),
            'policy.tolerances["admited"]', "is no tier; the tiers are admitted",
            id="tolerance of an unknown tier",
        ),
        pytest.param(
            lambda m: m.policy.tolerances.update(admitted=1.01),
            'policy.tolerances["admitted"]', "must be from 0 to 1, is 1.01",
            id="tolerance of more than all",
        ),
        pytest.param(
            lambda m: m.policy.tolerances.update(admitted=float("nan")),
            'policy.tolerances["admitted"]', "must be from 0 to 1, is nan",
            id="tolerance that is no number",
        ),
        pytest.param(
            lambda m: setattr(m.policy, "eviction", 9),
            "policy.eviction", "has no member 9",
            id="eviction policy of the future",
        ),
        pytest.param(
            lambda m: setattr(m.policy, "extras", 9),
            "policy.extras", "has no member 9",
            id="extras policy of the future",
        ),
        # Texts as long as Kubernetes allows, and no longer.
        pytest.param(
            lambda m: m.snapshot.nodes[0].labels.update({"y" * 318: ""}),
            f'snapshot.nodes[0].labels["{"y" * 60}..."]', "the key has 318 characters, at most 317",
            id="long label key",
        ),
        pytest.param(
            lambda m: m.snapshot.nodes[1].labels.update(rack=LONG),
            'snapshot.nodes[1].labels["rack"]', "the value has 513 characters, at most 512",
            id="long label value",
        ),
        pytest.param(
            lambda m: template(m).labels.update(app=LONG),
            f'{TEMPLATE}.labels["app"]', "the value has 513",
            id="long label of a pod",
        ),
        pytest.param(
            lambda m: template(m).node_selector.update(rack=LONG),
            f'{TEMPLATE}.node_selector["rack"]', "the value has 513",
            id="long node selector",
        ),
        pytest.param(
            lambda m: template(m).tolerations.add(value=LONG),
            f"{TEMPLATE}.tolerations[0].value", "has 513 characters",
            id="long toleration",
        ),
        pytest.param(
            lambda m: m.snapshot.nodes[0].allocatable.extended.update({"z" * 318: 1}),
            f'snapshot.nodes[0].allocatable.extended["{"z" * 60}..."]', "the name has 318",
            id="long resource name",
        ),
        pytest.param(
            lambda m: m.gangs[0].packing_scopes.add(required_level="l" * 318),
            "gangs[0].packing_scopes[0].required_level", "has 318 characters",
            id="long level",
        ),
        pytest.param(
            lambda m: m.gangs[0].volume_claims.append("c" * 513),
            "gangs[0].volume_claims[0]", "has 513 characters, at most 512",
            id="long claim",
        ),
        pytest.param(
            lambda m: m.gangs[0].unsupported.append("u" * 1025),
            "gangs[0].unsupported[0]", "has 1,025 characters, at most 1,024",
            id="long words",
        ),
        pytest.param(
            lambda m: setattr(m.snapshot, "revision", "r" * 1025),
            "snapshot.revision", "has 1,025 characters",
            id="long revision",
        ),
        pytest.param(
            lambda m: setattr(m, "label", "l" * 1025),
            "label", "has 1,025 characters",
            id="long label of the request",
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
            lambda m: setattr(m.gangs[0], "queue", "queues/new"), id="a queue that is not there"
        ),
        pytest.param(
            lambda m: setattr(
                m.gangs[0].groups[0].pod_sets[0].bound_pods[0], "reservation", "reservations/gone"
            ),
            id="a reservation that is gone",
        ),
        pytest.param(
            lambda m: m.gangs[0].groups[0].pod_sets[0].ClearField("pods"),
            id="a pod set whose pods all run",
        ),
        pytest.param(lambda m: m.snapshot.queues[0].limit.update(gpus=0), id="a limit of nothing"),
        pytest.param(
            lambda m: m.snapshot.queues[0].used.update(gpus=9), id="a queue over its limit"
        ),
    ],
)
def test_what_a_cluster_in_motion_leaves_behind_is_no_violation(touch: Spoil) -> None:
    there = question()
    touch(there)
    assert problems(there) == {}


def test_many_queues_one_above_the_other_are_read_in_no_time() -> None:
    """A line is too long from some queue on, a circle is told once."""
    there = question()
    there.snapshot.ClearField("queues")
    for i in range(100):
        there.snapshot.queues.add(name=f"queues/q{i}", parent=f"queues/q{i - 1}" if i else "")
    assert problems(there) == {}
    for i in range(100, 10_000):
        there.snapshot.queues.add(name=f"queues/q{i}", parent=f"queues/q{i - 1}")
    words = {"snapshot.queues[100].parent": "has 100 queues above it, at most 99"}
    assert problems(there) == words
    there.snapshot.queues[0].parent = "queues/q9999"
    begin = time.process_time()
    assert "leads back" in problems(there)["snapshot.queues[0].parent"]
    assert time.process_time() - begin < 5
