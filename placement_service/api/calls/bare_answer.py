"""The answer that places nothing, made at the edge from the bytes of a request.

It is sent when time ends before a compute process has read the request. For each gang it needs the
name, and whether the gang runs already. The gangs are read one at a time, with breaks, so that the
edge stays free for others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from google.protobuf.message import DecodeError

from placement.v1 import ClusterSnapshot, ComputePlacementRequest, PodGang, placement_pb2
from placement_service.api import envelope
from placement_service.api.size import MAX_GANGS
from placement_service.api.validation.names import MAX_TEXT
from placement_service.entities.errors import InvalidRequest

#: Bytes of a gang that are read here; a larger one would keep others waiting.
LARGEST_GANG: Final = 4 * 2**20

#: Groups and pod sets of a gang that are looked at; more would keep others waiting, too.
MOST_PARTS: Final = 10_000

#: Bytes of gangs between two breaks: a few milliseconds.
BYTES_AT_ONCE: Final = 2**15

_GANGS: Final = ComputePlacementRequest.GANGS_FIELD_NUMBER
_SNAPSHOT: Final = ComputePlacementRequest.SNAPSHOT_FIELD_NUMBER
_VALIDATE_ONLY: Final = ComputePlacementRequest.VALIDATE_ONLY_FIELD_NUMBER
_REVISION: Final = ClusterSnapshot.REVISION_FIELD_NUMBER


async def bare_answer(question: memoryview, label: str) -> placement_pb2.Placement | None:
    """A placement of nothing for a ComputePlacementRequest that was not read. None where that would
    be no answer: for a request that should only be checked, and for one that cannot be read here or
    whose answer would be too long. The compute process refuses those.
    """
    try:
        if await envelope.is_set(question, _VALIDATE_ONLY):
            return None
        gangs = (await envelope.contents(question, _GANGS))[_GANGS]
        if len(gangs) > MAX_GANGS:
            return None
        snapshot = await envelope.unwrapped(question, _SNAPSHOT)
        revision = await envelope.last_text(snapshot, _REVISION)
        if max(len(revision), len(label)) > MAX_TEXT:
            return None
        answer = placement_pb2.Placement(
            label=label,
            revision=revision,
            termination=placement_pb2.Termination(
                reason=placement_pb2.TERMINATION_REASON_FEASIBLE,
                limit=placement_pb2.TERMINATION_LIMIT_TIME,
                detail="The time limit ended before the request was read.",
            ),
        )
        read = 0
        for content in gangs:
            if len(content) > LARGEST_GANG:
                return None
            gang = PodGang.FromString(bytes(content))
            if _parts(gang) > MOST_PARTS or len(gang.name) > MAX_TEXT:
                return None
            answer.gangs.append(_result(gang))
            read += len(content)
            if read > BYTES_AT_ONCE:
                read = 0
                await asyncio.sleep(0)
    except (DecodeError, InvalidRequest):
        return None
    return answer


def _parts(gang: PodGang) -> int:
    """Groups and pod sets of a gang; not all are counted where there are too many."""
    return len(gang.groups) + sum(len(group.pod_sets) for group in gang.groups[:MOST_PARTS])


def _result(gang: PodGang) -> placement_pb2.GangResult:
    result = placement_pb2.GangResult(name=gang.name, placed=all(_running(gang)))
    if not result.placed:
        result.reasons.add(
            code=placement_pb2.REASON_CODE_NOT_SEARCHED,
            message="the time limit ended before it was looked at.",
        )
    return result


def _running(gang: PodGang) -> Iterator[bool]:
    """For each group, whether its minimum runs."""
    for group in gang.groups:
        running = len(group.bound_pods) + sum(len(pods.bound_pods) for pods in group.pod_sets)
        yield running >= group.min_replicas
