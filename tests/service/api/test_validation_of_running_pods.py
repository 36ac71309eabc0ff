"""Rules on what running pods hold, and on what cannot be asked for again."""

from __future__ import annotations

import pytest

from placement.v1 import ComputePlacementRequest, workload_pb2
from placement_service.api.wire.requests import parse_request
from placement_service.entities.errors import InvalidRequest
from placement_service.entities.request import PODS
from tests.service.questions import gang, message, snapshot

SET = "gangs[0].groups[0].pod_sets[0]"


@pytest.fixture
def there() -> ComputePlacementRequest:
    return message(snapshot(1, (gang("a", pods=1, gpus=4),)))


def running(there: ComputePlacementRequest) -> workload_pb2.BoundPod:
    (pod_set,) = there.gangs[0].groups[0].pod_sets
    return pod_set.bound_pods.add(name="namespaces/ml/pods/runs", node="nodes/n0")


def test_what_a_pod_holds_counts_the_pod_itself(there: ComputePlacementRequest) -> None:
    running(there).held.extended["nic"] = 2
    (pod_set,) = parse_request(there).snapshot.gangs[0].groups[0].pod_sets
    assert pod_set.bound_pods[0].held == {"nic": 2, PODS: 1}


@pytest.mark.parametrize(
    ("name", "amount", "field", "words"),
    [
        ("nic", -1, 'held.extended["nic"]', "must not be negative, is -1"),
        ("cpu", 1, 'held.extended["cpu"]', "has a field of its own, cpu_millis"),
    ],
)
def test_what_a_pod_holds_is_in_range(
    there: ComputePlacementRequest, name: str, amount: int, field: str, words: str
) -> None:
    running(there).held.extended[name] = amount
    with pytest.raises(InvalidRequest) as error:
        parse_request(there)
    (violation,) = error.value.violations
    assert violation.field == f"{SET}.bound_pods[0].{field}"
    assert words in violation.description


def test_what_is_unsupported_is_said_briefly(there: ComputePlacementRequest) -> None:
    there.gangs[0].groups[0].pod_sets[0].template.unsupported.append("x" * 1025)
    with pytest.raises(InvalidRequest) as error:
        parse_request(there)
    (violation,) = error.value.violations
    assert violation.field == f"{SET}.template.unsupported[0]"
    assert "1,025 characters" in violation.description
