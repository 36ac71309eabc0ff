"""Turns Kubernetes objects into the request that they stand for, and answers it.

Translation is the library that the command line uses (`placement.kubernetes`), so that no
other language needs one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from placement.kubernetes.level_names import with_own_levels
from placement.kubernetes.objects import Objects, collect, flatten
from placement.kubernetes.problems import InputError, Problem
from placement.kubernetes.schema import protobuf
from placement.kubernetes.translate import Translation, translate
from placement.kubernetes.v1 import (
    PlaceObjectsRequest,
    PlaceObjectsResponse,
    TranslateObjectsRequest,
    TranslateObjectsResponse,
)
from placement.v1 import ComputePlacementRequest, Placement
from placement_service.api.snapshots.objects import NOTHING, ObjectsVersion, step
from placement_service.entities.errors import InvalidRequest, Violation

#: An escape that may be half a character: what JSON lets through and no message can hold.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

#: The place of something with a name in the request that objects stand for.
_PLACE: Final = re.compile(
    r"^(snapshot\.|)(gangs|nodes|pods|queues|reservations|disruption_budgets)\[(\d+)\]"
)


@dataclass(frozen=True, slots=True)
class ObjectsQuestion:
    """The request that objects stand for, warnings about them, and their version; `own_levels`
    are the objects' names of levels that have other ones in the request."""

    message: ComputePlacementRequest
    warnings: tuple[str, ...]
    version: ObjectsVersion
    own_levels: Mapping[str, str]


def question(content: bytes, base: Callable[[str], ObjectsVersion]) -> ObjectsQuestion:
    """What a PlaceObjectsRequest asks; `base` finds the version that it is based on.

    Raises DecodeError when the bytes are none, InvalidRequest when objects are wrong, and as
    `base` does.
    """
    message = PlaceObjectsRequest.FromString(content)
    try:
        as_of = message.as_of.ToDatetime(tzinfo=UTC) if message.HasField("as_of") else None
    except (ValueError, OverflowError) as error:
        raise InvalidRequest([Violation("as_of", "is not a valid time")]) from error
    before = base(message.base.digest) if message.HasField("base") else NOTHING
    told = read_objects(message.objects)
    changes = step(before, told, message.base.gone)
    translation = _translated(changes.objects(told), as_of or changes.newest())
    request = translation.request
    gpu_resources = tuple(request.policy.gpu_resources)
    request.snapshot.revision = message.revision
    if message.HasField("policy"):
        request.policy.CopyFrom(message.policy)
        if not message.policy.gpu_resources:
            # What stands for GPUs among these objects.
            request.policy.gpu_resources.extend(gpu_resources)
    if message.HasField("time_limit"):
        request.time_limit.CopyFrom(message.time_limit)
    request.previous_placement.extend(message.previous_placement)
    request.validate_only = message.validate_only
    request.label = message.label
    return ObjectsQuestion(
        request,
        tuple(map(str, translation.warnings)),
        changes.version(len(content)),
        translation.own_levels,
    )


def told(content: bytes, base: Callable[[str], ObjectsVersion]) -> ObjectsVersion:
    """The version that a PlaceObjectsRequest tells of. Raises as `question` does."""
    message = PlaceObjectsRequest.FromString(content)
    before = base(message.base.digest) if message.HasField("base") else NOTHING
    return step(before, read_objects(message.objects), message.base.gone).version(len(content))


def whole_request(told_before: Iterable[bytes], content: bytes) -> bytes:
    """The bytes of a PlaceObjectsRequest with all objects and no base.

    `told_before` are requests from a whole one on, the last of them its base. Raises as
    `question` does.
    """
    version = NOTHING
    for one in (*told_before, content):
        version = told(one, lambda _, before=version: before)  # type: ignore[misc]
    message = PlaceObjectsRequest.FromString(content)
    message.ClearField("base")
    del message.objects[:]
    return message.SerializeToString() + version.whole()


def named(error: InvalidRequest, message: ComputePlacementRequest) -> InvalidRequest:
    """The error with names instead of places, of which callers know none.

    For example ``gangs[namespaces/ml/podgangs/a].priority``.
    """

    def name(found: re.Match[str]) -> str:
        every = getattr(message if found[1] == "" else message.snapshot, found[2])
        place = int(found[3])
        return f"{found[1]}{found[2]}[{every[place].name if place < len(every) else place}]"

    violations = [Violation(_PLACE.sub(name, v.field), v.description) for v in error.violations]
    return InvalidRequest(violations, error.count)


def answer(
    placement: Placement,
    warnings: Iterable[str],
    objects_digest: str,
    own_levels: Mapping[str, str],
) -> PlaceObjectsResponse:
    """The answer to a PlaceObjectsRequest."""
    return PlaceObjectsResponse(
        placement=with_own_levels(placement, own_levels),
        warnings=warnings,
        objects_digest=objects_digest,
    )


def translation(content: bytes) -> TranslateObjectsResponse:
    """The answer to a TranslateObjectsRequest; raises as `question` does."""
    told = read_objects(TranslateObjectsRequest.FromString(content).objects)
    found = _translated(step(NOTHING, told, ()).objects(told))
    return TranslateObjectsResponse(request=found.request, warnings=map(str, found.warnings))


def _translated(objects: Objects, as_of: datetime | None = None) -> Translation:
    try:
        return translate(objects, as_of=as_of)
    except InputError as error:
        raise InvalidRequest([_violation(problem) for problem in error.problems]) from error


def read_objects(contents: Iterable[bytes]) -> Objects:
    """Objects from JSON, or Kubernetes' protobuf encoding.

    What cannot be parsed is a problem, and the others are read on.
    """
    problems: list[Problem] = []
    found = []
    for index, content in enumerate(contents):
        place = f"objects[{index}]"
        with _parse_errors(place, problems):
            bodies = list(flatten([_parse(content)]))
            found += [(place, document, body) for document, body in enumerate(bodies)]
    return collect(found, problems)


def _parse(content: bytes) -> Any:
    if content.startswith(protobuf.MAGIC):
        return protobuf.decode(content)
    body = json.loads(content.decode("utf-8"))
    if _SURROGATE.search(content):
        json.dumps(body, ensure_ascii=False).encode("utf-8")
    return body


@contextmanager
def _parse_errors(place: str, problems: list[Problem]) -> Iterator[None]:
    try:
        yield
    except protobuf.ProtobufError as error:
        what = f"is in Kubernetes' protobuf encoding, and {error}"
        problems.append(Problem(place, "", "", what))
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
