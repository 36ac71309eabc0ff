"""The answer that places nothing, made at the edge from the bytes of a request.

It leaves when time ends before a compute process has read the request. Of each gang it needs the
name, and whether the gang runs already. The gangs are read one at a time, with breaks, so that
the edge stays free for others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from google.protobuf.message import DecodeError

from placement.v1 import ClusterSnapshot, ComputePlacementRequest, PodGang, placement_pb2
from placement_service.api import envelope
from placement_service.api.size import MAX_GANGS
from placement_service.entities.errors import InvalidRequest

#: Bytes of a gang that are read here; a larger one would keep others waiting.
LARGEST_GANG: Final = 4 * 2**20

#: Bytes of gangs between two breaks: a few milliseconds.
BYTES_AT_ONCE: Final = 2**18

_GANGS: Final = ComputePlacementRequest.GANGS_FIELD_NUMBER
_SNAPSHOT: Final = ComputePlacementRequest.SNAPSHOT_FIELD_NUMBER
_VALIDATE_ONLY: Final = ComputePlacementRequest.VALIDATE_ONLY_FIELD_NUMBER
_REVISION: Final = ClusterSnapshot.REVISION_FIELD_NUMBER


async def bare_answer(question: memoryview, label: str) -> placement_pb2.Placement | None:
    """A placement of nothing for a ComputePlacementRequest that was not read.

    None where that is no answer: a request that is only to be checked was not checked, and what
    cannot be read here is for the compute process to refuse.
    """
    try:
        if await envelope.is_set(question, _VALIDATE_ONLY):
            return None
        fields = await envelope.contents(question, _GANGS, _SNAPSHOT)
        if len(fields[_GANGS]) > MAX_GANGS:
            return None
        answer = placement_pb2.Placement(
            label=label,
            revision=await _revision(fields[_SNAPSHOT]),
            termination=placement_pb2.Termination(
                reason=placement_pb2.TERMINATION_REASON_FEASIBLE,
                limit=placement_pb2.TERMINATION_LIMIT_TIME,
                detail="The time limit ended before the request was read.",
            ),
        )
        read = 0
        for gang in fields[_GANGS]:
            if len(gang) > LARGEST_GANG:
                return None
            answer.gangs.append(_result(PodGang.FromString(bytes(gang))))
            read += len(gang)
            if read > BYTES_AT_ONCE:
                read = 0
                await asyncio.sleep(0)
    except (DecodeError, InvalidRequest):
        return None
    return answer


async def _revision(snapshots: list[memoryview]) -> str:
    """The revision in messages of a snapshot, which are merged as protobuf does."""
    found = [r for one in snapshots for r in (await envelope.contents(one, _REVISION))[_REVISION]]
    return bytes(found[-1]).decode(errors="replace") if found else ""


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
