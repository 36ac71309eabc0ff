"""What is wrong with a request, for tests that spoil a valid one."""

from __future__ import annotations

from collections.abc import Callable

from placement.v1 import ComputePlacementRequest, cluster_pb2, workload_pb2
from placement_service.api.wire.requests import parse_request
from placement_service.entities.errors import InvalidRequest
from tests.service.questions import gang, message, snapshot

Spoil = Callable[[ComputePlacementRequest], object]

#: Puts a number, or a text of this length, into a request.
Put = Callable[[ComputePlacementRequest, int], object]


def problems(there: ComputePlacementRequest) -> dict[str, str]:
    """The description of each problem, by its field."""
    try:
        parse_request(there)
    except InvalidRequest as error:
        return {v.field: v.description for v in error.violations}
    return {}


def template(there: ComputePlacementRequest) -> workload_pb2.PodTemplate:
    """The template of the first pods of the first gang."""
    return there.gangs[0].groups[0].pod_sets[0].template


def small_question() -> ComputePlacementRequest:
    """Two nodes, of which the first lists a device, a running pod, and a gang of one pod."""
    there = message(snapshot(2, (gang("a", pods=1, gpus=4),)))
    there.snapshot.nodes[0].devices.add(index=1)
    there.snapshot.pods.add(name="namespaces/ml/pods/running", node="nodes/n0")
    return there


def device(there: ComputePlacementRequest) -> cluster_pb2.Device:
    """The device that the first node of the small question lists."""
    return there.snapshot.nodes[0].devices[0]


def port(there: ComputePlacementRequest, **parts: int | str) -> None:
    """Adds a host port to the template."""
    template(there).host_ports.add(**{"port": 80, "protocol": "TCP", **parts})


def node_term(there: ComputePlacementRequest) -> workload_pb2.NodeSelectorTerm:
    """A further term of the template's node affinity."""
    return template(there).required_node_affinity.terms.add()


def check_end(put: Put, taken: int, refused: int, field: str) -> None:
    """The small question is valid with the one and has one fault, at the field, with the other."""
    there = small_question()
    put(there, taken)
    assert problems(there) == {}
    there = small_question()
    put(there, refused)
    found = problems(there)
    assert [*found] == [field]
    shown = found[field].replace(",", "")
    # Times are told in seconds, of which six digits are enough.
    assert str(abs(refused)) in shown or f"{refused:g}" in shown
