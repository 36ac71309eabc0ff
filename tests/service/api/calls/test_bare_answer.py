"""The answer that the edge gives when nobody else has read the request."""

from __future__ import annotations

import asyncio

from placement.v1 import ComputePlacementRequest, PodGroup, PodSet, placement_pb2
from placement_service.api.calls import bare_answer
from placement_service.api.calls.bare_answer import LARGEST_GANG, MOST_PARTS
from placement_service.api.size import MAX_GANGS
from placement_service.api.validation.names import MAX_TEXT
from tests.service.questions import message, open_snapshot


def answer(content: bytes) -> placement_pb2.Placement | None:
    return asyncio.run(bare_answer.bare_answer(memoryview(content), "mine"))


def test_each_gang_that_does_not_run_waits_and_is_told_why() -> None:
    there = ComputePlacementRequest()
    there.snapshot.revision = "r7"
    for name, minimum in (("waits", 3), ("runs", 2)):
        group = there.gangs.add(name=name).groups.add(name="worker", min_replicas=minimum)
        group.bound_pods.add(name="a", node="n")
        pod_set = group.pod_sets.add()
        pod_set.bound_pods.add(name="b", node="n")
        pod_set.pods.add(name="c")
    found = answer(there.SerializeToString())
    assert found is not None
    assert (found.label, found.revision) == ("mine", "r7")
    assert found.termination.limit == placement_pb2.TERMINATION_LIMIT_TIME
    assert not found.bindings
    assert not found.tiers
    waits, runs = found.gangs
    assert (waits.name, waits.placed) == ("waits", False)
    assert waits.reasons[0].code == placement_pb2.REASON_CODE_NOT_SEARCHED
    assert (runs.name, runs.placed, len(runs.reasons)) == ("runs", True, 0)


def test_what_was_only_to_be_checked_is_not_called_valid() -> None:
    there = message(open_snapshot())
    assert answer(there.SerializeToString()) is not None
    there.validate_only = True
    assert answer(there.SerializeToString()) is None
    last = ComputePlacementRequest(label="set back").SerializeToString() + b"\x30\x00"
    assert answer(there.SerializeToString() + last) is not None, "the last value counts"


def test_what_cannot_be_read_in_small_steps_has_no_such_answer() -> None:
    torn = message(open_snapshot()).SerializeToString()
    assert answer(torn[:-1]) is None
    assert answer(b"\x12\x02\xff\xff") is None
    assert answer(b"\x12\x00" * (MAX_GANGS + 1)) is None
    large = ComputePlacementRequest()
    large.gangs.add(name="x" * LARGEST_GANG)
    assert answer(large.SerializeToString()) is None


def test_nothing_comes_back_that_no_request_may_hold() -> None:
    there = ComputePlacementRequest()
    there.snapshot.revision = "r" * MAX_TEXT
    there.gangs.add(name="g" * MAX_TEXT)
    content = there.SerializeToString()
    assert answer(content) is not None
    assert asyncio.run(bare_answer.bare_answer(memoryview(content), "l" * 2000)) is None
    there.snapshot.revision += "r"
    assert answer(there.SerializeToString()) is None
    there.snapshot.revision = ""
    there.gangs[0].name += "g"
    assert answer(there.SerializeToString()) is None


def test_a_gang_of_more_parts_than_are_looked_at_at_once_has_no_such_answer() -> None:
    def asked(groups: int, pod_sets: int) -> bytes:
        there = ComputePlacementRequest()
        gang = there.gangs.add(name="g")
        gang.groups.extend([PodGroup()] * groups)
        gang.groups[0].pod_sets.extend([PodSet()] * pod_sets)
        return there.SerializeToString()

    assert answer(asked(MOST_PARTS - 5, 5)) is not None
    assert answer(asked(MOST_PARTS - 5, 6)) is None
    assert answer(asked(MOST_PARTS + 1, 0)) is None
