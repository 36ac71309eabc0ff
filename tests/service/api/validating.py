"""What is wrong with a request, for tests that spoil a valid one."""

from __future__ import annotations

from collections.abc import Callable

from placement.v1 import ComputePlacementRequest, workload_pb2
from placement_service.api.wire.requests import parse_request
from placement_service.entities.errors import InvalidRequest

Spoil = Callable[[ComputePlacementRequest], object]


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
