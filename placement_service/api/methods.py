"""The calls that the server answers, as the edge knows them: names, and numbers of fields.

The edge keeps messages as bytes (see `envelope`); what they say is read in the compute
process, which knows a call by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from importlib.util import find_spec
from typing import Final

from google.protobuf.descriptor import Descriptor, ServiceDescriptor

from placement.v1 import placement_service_pb2, planning_pb2


class Call(IntEnum):
    """What is asked, as edge and compute process tell each other."""

    COMPUTE_PLACEMENT = 1
    STREAM_PLACEMENT = 2
    PLACE_OBJECTS = 3
    TRANSLATE_OBJECTS = 4
    EXPLAIN_GANG = 5
    COMPUTE_CAPACITY = 6
    STEER_PLACEMENT = 7
    COMPUTE_REPACKING = 8
    STEER_PLANNING = 9


#: Calls whose request is a ComputePlacementRequest, and whose answer a placement.
PLACEMENT_CALLS: Final = frozenset(
    {Call.COMPUTE_PLACEMENT, Call.STREAM_PLACEMENT, Call.STEER_PLACEMENT}
)

#: Calls about Kubernetes objects, which only a compute process can read.
OBJECT_CALLS: Final = frozenset({Call.PLACE_OBJECTS, Call.TRANSLATE_OBJECTS})

#: Calls that tell of progress.
TOLD_OF_PROGRESS: Final = frozenset({Call.STREAM_PLACEMENT, Call.STEER_PLACEMENT})

#: Calls whose caller may wish them to finish.
STEERED: Final = frozenset({Call.STEER_PLACEMENT, Call.STEER_PLANNING})


@dataclass(frozen=True, slots=True)
class Method:
    """A call and the numbers of the fields that the edge must know, 0 where there is none.

    `inner` holds the request itself, where a message only wraps it, and `question` the
    ComputePlacementRequest in that, where it is not one; `placement` is in the answer.
    `snapshot` and `base` are those of a question that may be told in changes.

    `steps` are the methods that this one asks in the way of its own, by the field that holds
    their request; the field of the same number holds their answer, and `progress` the news.
    """

    call: Call
    service: str
    name: str
    inner: int
    question: int
    time_limit: int
    label: int
    placement: int
    snapshot: int
    base: int
    steps: Mapping[int, Method] = field(default_factory=dict)
    progress: int = 0


def methods() -> tuple[Method, ...]:
    """Those that are served here; Kubernetes objects only where they can be translated."""
    service = placement_service_pb2.DESCRIPTOR.services_by_name["PlacementService"]
    served = [
        _method(Call.COMPUTE_PLACEMENT, service, "ComputePlacement"),
        _method(Call.STREAM_PLACEMENT, service, "StreamPlacement"),
    ]
    service = planning_pb2.DESCRIPTOR.services_by_name["PlanningService"]
    planning = [
        _method(Call.EXPLAIN_GANG, service, "ExplainGang"),
        _method(Call.COMPUTE_CAPACITY, service, "ComputeCapacity"),
        _method(Call.COMPUTE_REPACKING, service, "ComputeRepacking"),
    ]
    steered = _method(Call.STEER_PLANNING, service, "SteerPlanning")
    events = service.methods_by_name["SteerPlanning"].output_type
    steps = {_number(events, method.call.name.lower()): method for method in planning}
    served += [
        _method(Call.STEER_PLACEMENT, service, "SteerPlacement"),
        *planning,
        replace(steered, steps=steps, progress=_number(events, "progress")),
    ]
    if find_spec("yaml") is not None:
        # Only here: the package needs PyYAML.
        from placement.kubernetes.v1 import kubernetes_placement_service_pb2 as objects

        service = objects.DESCRIPTOR.services_by_name["KubernetesPlacementService"]
        served += [
            _method(Call.PLACE_OBJECTS, service, "PlaceObjects"),
            _method(Call.TRANSLATE_OBJECTS, service, "TranslateObjects"),
        ]
    return tuple(served)


def _method(call: Call, service: ServiceDescriptor, name: str) -> Method:
    method = service.methods_by_name[name]
    outer: Descriptor = method.input_type
    inner = _number(outer, "request")
    request = _inside(outer, "request") if inner else outer
    asked = _number(request, "question")
    question = _inside(request, "question") if asked else request
    return Method(
        call,
        service.full_name,
        name,
        inner,
        asked,
        _number(request, "time_limit"),
        _number(request, "label"),
        _number(method.output_type, "placement"),
        # What is told, in whole or in changes.
        _number(question, "objects" if call is Call.PLACE_OBJECTS else "snapshot"),
        _number(question, "base"),
    )


def _inside(message: Descriptor | None, field: str) -> Descriptor | None:
    """The message in a field."""
    return None if message is None else message.fields_by_name[field].message_type


def _number(message: Descriptor | None, field: str) -> int:
    found = None if message is None else message.fields_by_name.get(field)
    return 0 if found is None else found.number
