"""One pod with a fault among others: first all pods are asked at once, and mostly none has any."""

from __future__ import annotations

import pytest

from placement.v1 import ComputePlacementRequest, cluster_pb2, workload_pb2
from tests.service.api.validating import problems
from tests.service.questions import gang, message, snapshot

GROUP = "gangs[0].groups[0]"
HOME = "namespaces/ml/pods"


def question() -> ComputePlacementRequest:
    """A gang of two pods that wait, and two that run."""
    there = message(snapshot(2, (gang("a", pods=2, gpus=1),)))
    for name in ("r", "s"):
        there.gangs[0].groups[0].bound_pods.add(name=f"{HOME}/{name}", node="nodes/n0")
    return there


def waiting(there: ComputePlacementRequest) -> workload_pb2.Pod:
    return there.gangs[0].groups[0].pod_sets[0].pods[1]


def running(there: ComputePlacementRequest) -> workload_pb2.BoundPod:
    return there.gangs[0].groups[0].bound_pods[1]


def test_pods_without_fault_have_none() -> None:
    assert problems(question()) == {}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (f"{HOME}/a b", 'must have the form "namespaces/{namespace}/pods/{pod}", is "'),
        ("namespaces/other/pods/p", 'must be in the namespace of its gang, "ml"'),
        (f"{HOME}/a-0", f'"{HOME}/a-0" is in the request already'),
    ],
)
def test_a_wrong_name_is_found(name: str, words: str) -> None:
    for pod_of, path in ((waiting, "pod_sets[0].pods[1]"), (running, "bound_pods[1]")):
        there = question()
        pod_of(there).name = name
        found = problems(there)
        assert [*found] == [f"{GROUP}.{path}.name"]
        assert found[f"{GROUP}.{path}.name"].startswith(words)


def test_a_long_uid_is_found() -> None:
    there = question()
    waiting(there).uid = "u" * 513
    assert [*problems(there)] == [f"{GROUP}.pod_sets[0].pods[1].uid"]


@pytest.mark.parametrize(
    ("field", "fault"),
    [
        ("node", workload_pb2.BoundPod(node="n0")),
        ("reservation", workload_pb2.BoundPod(reservation="r")),
        ("devices[0]", workload_pb2.BoundPod(devices=[-1])),
        (
            "held.cpu_millis",
            workload_pb2.BoundPod(held=cluster_pb2.Resources(cpu_millis=-1, pod_count=1)),
        ),
    ],
)
def test_what_a_running_pod_cannot_have_is_found(field: str, fault: workload_pb2.BoundPod) -> None:
    there = question()
    running(there).MergeFrom(fault)
    assert [*problems(there)] == [f"{GROUP}.bound_pods[1].{field}"]


@pytest.mark.parametrize(
    "owner",
    [
        cluster_pb2.ReservationOwner(gang="namespaces/ml/podgangs/a"),
        cluster_pb2.ReservationOwner(pod=f"{HOME}/a-0"),
        cluster_pb2.ReservationOwner(namespace="ml"),
        cluster_pb2.ReservationOwner(selector=cluster_pb2.LabelSelector()),
    ],
)
def test_who_owns_a_reservation_is_said_in_any_way(owner: cluster_pb2.ReservationOwner) -> None:
    there = question()
    there.snapshot.reservations.add(name="reservations/r", node="nodes/n0", owners=[owner])
    assert problems(there) == {}


def test_what_a_reservation_has_used_up_has_a_name() -> None:
    there = question()
    there.snapshot.reservations.add(name="reservations/r", node="nodes/n0", used_up=["z" * 318])
    assert [*problems(there)] == ["snapshot.reservations[0].used_up"]
