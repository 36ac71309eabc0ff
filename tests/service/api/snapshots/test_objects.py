"""Versions of objects: the same objects have the same digest and stand for the same request."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.kubernetes.v1 import ObjectName, ObjectsBase, PlaceObjectsRequest
from placement_service.api import kubernetes
from placement_service.api.compute import questions
from placement_service.api.compute.questions import Question
from placement_service.api.methods import Call
from placement_service.api.snapshots import content
from placement_service.api.snapshots.held import MOST_CHANGES, Held
from placement_service.entities.errors import InvalidRequest, SnapshotUnknown
from tests.kubernetes.build import Body, gang, group, node, pod

MANY = 2**30

#: What a step may set: by name and how it is then.
MAKE: dict[str, Callable[[str, int], Body]] = {
    "node": lambda name, how: node(name, labels={"rack": str(how)}),
    "pod": lambda name, how: pod(name, nodeName="na" if how == 1 else ""),
    "gang": lambda name, how: gang(name, podgroups=[group("w", f"p{name[1]}")]),
}


def encoded(body: Any, *, indent: int | None = None) -> bytes:
    return json.dumps(body, indent=indent).encode()


def asked(bodies: Iterable[Body], base: str = "", gone: Iterable[ObjectName] = ()) -> bytes:
    message = PlaceObjectsRequest(objects=map(encoded, bodies))
    if base:
        message.base.MergeFrom(ObjectsBase(digest=base, gone=gone))
    return message.SerializeToString()


def read(held: Held, told: bytes) -> Question:
    return questions.read(Call.PLACE_OBJECTS, told, held)


def name_of(body: Body) -> ObjectName:
    metadata = body["metadata"]
    return ObjectName(
        api_version=body["apiVersion"],
        kind=body["kind"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
    )


keys = st.sampled_from([(kind, name) for kind in MAKE for name in ("a", "b", "c")])
steps = st.lists(
    st.tuples(st.dictionaries(keys, st.integers(0, 2), max_size=4), st.sets(keys, max_size=3)),
    min_size=1,
    max_size=5,
)


@settings(max_examples=25, deadline=None)
@given(steps, st.randoms(use_true_random=False))
def test_changes_make_what_the_whole_says(steps: list[Any], order: random.Random) -> None:
    held, base = Held(MANY), ""
    there: dict[tuple[str, str], Body] = {}
    told: list[bytes] = []
    for changed, gone in steps:
        set_now = {key: MAKE[key[0]](f"{key[0][0]}{key[1]}", how) for key, how in changed.items()}
        going = [key for key in sorted(gone) if key in there and key not in set_now]
        names = [name_of(there.pop(key)) for key in going]
        there.update(set_now)
        told.append(asked(set_now.values(), base, names))
        found = read(held, told[-1])
        base = found.objects_digest

        every = list(there.values())
        order.shuffle(every)
        direct = read(Held(MANY), asked(every))
        assert direct.objects_digest == found.objects_digest
        assert direct.request == found.request
        assert set(direct.warnings) == set(found.warnings)
    # What the edge keeps makes the same in a process that holds nothing, and in a dump.
    other = Held(MANY)
    for one in told[:-1]:
        questions.tell(Call.PLACE_OBJECTS, one, other)
    assert read(other, told[-1]).request == found.request
    dumped = kubernetes.whole_request(told[:-1], told[-1])
    assert read(Held(MANY), dumped).objects_digest == base


def test_times_that_are_not_kept_count_as_those_of_the_whole() -> None:
    """When the objects were seen is the newest time in them, here that of a condition."""
    beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-02T00:00:00Z"}
    nodes = [node("na"), node("nb")]
    nodes[0]["status"]["conditions"] = [beat]
    waits = gang("ga", podgroups=[group("w", "pa")])
    held = Held(MANY)
    base = read(held, asked([*nodes, pod("pa")])).objects_digest
    whole = read(held, asked([*nodes, pod("pa"), waits]))
    assert whole.request.snapshot.as_of is not None
    assert read(held, asked([waits], base)).request == whole.request
    gone = read(held, asked([waits], base, [name_of(nodes[0])]))
    assert gone.request.snapshot.as_of is None


def test_spaces_order_of_keys_and_lists_have_no_part_in_the_digest() -> None:
    bodies = [node("a"), node("b")]
    backwards = [dict(reversed(list(body.items()))) for body in bodies]
    every = {"kind": "NodeList", "apiVersion": "v1", "items": bodies[::-1]}
    ways = ([*map(encoded, bodies)], [encoded(b, indent=2) for b in backwards], [encoded(every)])
    digests = {
        read(Held(MANY), PlaceObjectsRequest(objects=way).SerializeToString()).objects_digest
        for way in ways
    }
    assert len(digests) == 1


def test_what_is_wrong_with_a_change_is_told_with_its_place() -> None:
    held = Held(MANY)
    first = read(held, asked([node("a"), node("b"), pod("p")]))
    names = [
        ObjectName(api_version="v1", kind="Node", name="nobody"),
        ObjectName(api_version="v1", kind="Node", name="b"),
        ObjectName(api_version="v1", kind="Node", name="b"),
        ObjectName(api_version="v1", kind="Node", name="a"),
        # Was skipped when it came.
        ObjectName(api_version="v1", kind="Secret", namespace="ml", name="s"),
    ]
    with pytest.raises(InvalidRequest) as caught:
        read(held, asked([node("a")], first.objects_digest, names))
    assert [(v.field, v.description.split("' ")[1]) for v in caught.value.violations] == [
        ("base.gone[0]", "is not in the base"),
        ("base.gone[2]", "is named twice"),
        ("base.gone[3]", "is set by this request as well"),
    ]


def test_a_fault_of_an_object_of_the_base_names_the_object() -> None:
    """It comes to light with the change of another: the node's name is a domain's already."""
    held = Held(MANY)
    train = gang("train", podgroups=[group("workers", "p")])
    first = read(held, asked([node("a"), pod("p"), train]))
    other = gang("other", podgroups=[group("workers", "p")])
    with pytest.raises(InvalidRequest) as caught:
        read(held, asked([other], first.objects_digest))
    fields = {violation.field.partition("].")[0] for violation in caught.value.violations}
    assert fields == {"objects[PodGang ml/train"}
    # What is refused changes nothing.
    assert read(held, asked([], first.objects_digest)).objects_digest == first.objects_digest


def test_the_digest_of_something_else_is_unknown() -> None:
    held = Held(MANY)
    first = read(held, asked([node("a")]))
    snapshot = first.snapshot_digest
    for digest in (snapshot, "", "sha256:" + "0" * 64):
        with pytest.raises(SnapshotUnknown):
            read(held, asked([], digest or "x"))
    # Nor does it help to be told the wrong kind of request.
    other = Held(MANY)
    questions.tell(Call.COMPUTE_PLACEMENT, asked([node("a")]), other)
    questions.tell(Call.PLACE_OBJECTS, b"\xff", other)
    questions.tell(
        Call.PLACE_OBJECTS, PlaceObjectsRequest(objects=[b"{"]).SerializeToString(), other
    )
    with pytest.raises(SnapshotUnknown):
        read(other, asked([], first.objects_digest))


def test_many_changes_are_told_as_a_whole() -> None:
    held = Held(MANY)
    base = read(held, asked([node(name) for name in "abc"])).objects_digest
    for i in range(MOST_CHANGES):
        base = read(held, asked([node("a", labels={"i": str(i)})], base)).objects_digest
        if whole := held.whole():
            break
    assert whole is not None
    assert content.text(whole.digest) == base
    assert read(Held(MANY), whole.told).objects_digest == base
    assert held.whole() is None
