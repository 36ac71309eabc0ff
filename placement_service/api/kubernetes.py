"""Placement for callers that send Kubernetes objects: translate, then answer as ever.

Translation is the library that the command line uses (`placement.kubernetes`), so that no
other language needs one. It is bounded like a computation: whoever translates holds a place
inside, and is refused when all are taken.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc

from placement.kubernetes.objects import Objects, collect, flatten
from placement.kubernetes.problems import InputError, Problem
from placement.kubernetes.translate import Translation, translate
from placement.kubernetes.v1 import (
    PlaceObjectsRequest,
    PlaceObjectsResponse,
    TranslateObjectsRequest,
    TranslateObjectsResponse,
    kubernetes_placement_service_pb2,
)
from placement.kubernetes.v1.kubernetes_placement_service_pb2_grpc import (
    KubernetesPlacementServiceServicer,
)
from placement_service.api.admission import Admission
from placement_service.api.service import PlacementServicer, errors_as_status
from placement_service.entities.errors import (
    Internal,
    InvalidRequest,
    PlacementError,
    Violation,
)

logger = logging.getLogger(__name__)

SERVICE_NAME = kubernetes_placement_service_pb2.DESCRIPTOR.services_by_name[
    "KubernetesPlacementService"
].full_name

#: An escape that may be half a character: what JSON lets through and no message can hold.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class KubernetesPlacementServicer(KubernetesPlacementServiceServicer):
    """Answers the calls of placement.kubernetes.v1.KubernetesPlacementService."""

    def __init__(self, placement: PlacementServicer, admission: Admission) -> None:
        self._placement = placement
        self._admission = admission

    def PlaceObjects(
        self, request: PlaceObjectsRequest, context: grpc.ServicerContext
    ) -> PlaceObjectsResponse:
        with errors_as_status(context):
            translation = self._translate(request.objects, request.label)
        question = translation.request
        question.snapshot.revision = request.revision
        if request.HasField("as_of"):
            question.snapshot.as_of.CopyFrom(request.as_of)
        if request.HasField("policy"):
            question.policy.CopyFrom(request.policy)
        if request.HasField("time_limit"):
            question.time_limit.CopyFrom(request.time_limit)
        question.previous_placement.extend(request.previous_placement)
        question.validate_only = request.validate_only
        question.label = request.label
        # What is left of the deadline is its budget: it is read when this call begins.
        answer = self._placement.ComputePlacement(question, context)
        return PlaceObjectsResponse(
            placement=answer.placement, warnings=map(str, translation.warnings)
        )

    def TranslateObjects(
        self, request: TranslateObjectsRequest, context: grpc.ServicerContext
    ) -> TranslateObjectsResponse:
        with errors_as_status(context):
            translation = self._translate(request.objects, "")
        return TranslateObjectsResponse(
            request=translation.request, warnings=map(str, translation.warnings)
        )

    def _translate(self, contents: Sequence[bytes], label: str) -> Translation:
        """What the objects stand for. Raises a PlacementError."""
        try:
            with self._admission.place():
                return translate(read_objects(contents))
        except InputError as error:
            raise InvalidRequest([_violation(problem) for problem in error.problems]) from error
        except PlacementError:
            raise
        except Exception as error:
            logger.exception("the objects of request %r were not translated", label)
            raise Internal(dump="") from error


def read_objects(contents: Iterable[bytes]) -> Objects:
    """Objects from JSON. What cannot be parsed is a problem, and the others are read on."""
    problems: list[Problem] = []
    found = []
    for index, content in enumerate(contents):
        place = f"objects[{index}]"
        with _parse_errors(place, problems):
            bodies = list(flatten([_parse(content)]))
            found += [(place, document, body) for document, body in enumerate(bodies)]
    return collect(found, problems)


def _parse(content: bytes) -> Any:
    body = json.loads(content.decode("utf-8"))
    if _SURROGATE.search(content):
        json.dumps(body, ensure_ascii=False).encode("utf-8")
    return body


@contextmanager
def _parse_errors(place: str, problems: list[Problem]) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError:
        problems.append(Problem(place, "", "", "is not text in UTF-8"))
    except UnicodeEncodeError:
        problems.append(Problem(place, "", "", "holds an escape for half a character"))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        problems.append(Problem(place, "", "", f"is not valid JSON: {error.msg} at {where}"))
    except RecursionError:
        problems.append(Problem(place, "", "", "is nested too deeply"))
    except ValueError as error:
        # Such as a number of ten thousand digits.
        problems.append(Problem(place, "", "", f"cannot be parsed: {error}"))


def _violation(problem: Problem) -> Violation:
    """Where: the object that was sent and the path in it. What: the object by name, too."""
    field = f"{problem.file}.{problem.field}" if problem.field else problem.file
    what = f"{problem.object}: {problem.message}" if problem.object else problem.message
    return Violation(field or "objects", what)
