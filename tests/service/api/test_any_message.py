"""Any message at all is read as a request, or refused with reasons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from placement.v1 import (
    ComputePlacementRequest,
)
from placement_service.api.wire.requests import parse_request, request_to_proto
from placement_service.entities.errors import InvalidRequest, SnapshotUnknown

# Few names and numbers, so that references meet and limits are hit.
TEXTS = st.sampled_from(
    ["", "a", "rack", "cpu", "nodes/a", "nodes/b", "namespaces/ml/pods/a", "namespaces/ml/pods/b",
     "namespaces/ml/podgangs/a", "namespaces/ml/podgangs/b", "namespaces//x", "9" * 5000, "\x00",
     "\u0663", "1_0", "nodes/\U0001f600"]
)  # fmt: skip
NUMBERS = st.sampled_from([0, 1, -1, 2, 65536, 2**31 - 1, -(2**31)])
SHARES = st.sampled_from([0.0, 0.5, -1.0, float("nan"), float("inf")])
AMOUNTS = NUMBERS | st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, -(2**63)])


@st.composite
def messages(draw: st.DrawFn, descriptor: Any, depth: int = 0) -> dict[str, Any]:
    """A message of any kind as a dictionary, drawn by walking its descriptor."""
    drawn: dict[str, Any] = {}
    for field in descriptor.fields:
        if not draw(st.booleans()):
            continue
        repeated = field.is_repeated
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            kinds = {field.TYPE_INT64: AMOUNTS, field.TYPE_DOUBLE: SHARES, field.TYPE_STRING: TEXTS}
            of = entry.fields_by_name["value"]
            value = messages(of.message_type, depth + 1) if of.message_type else kinds[of.type]
            drawn[field.name] = draw(st.dictionaries(TEXTS, value, max_size=2))
        elif entry is not None:
            value = messages(entry, depth + 1)
            drawn[field.name] = draw(st.lists(value, max_size=2) if repeated else value)
        else:
            scalar = {
                FieldDescriptor.TYPE_STRING: TEXTS,
                FieldDescriptor.TYPE_BOOL: st.booleans(),
                FieldDescriptor.TYPE_INT32: NUMBERS,
                FieldDescriptor.TYPE_INT64: AMOUNTS,
                FieldDescriptor.TYPE_DOUBLE: SHARES,
                FieldDescriptor.TYPE_ENUM: st.integers(0, 8),
            }[field.type]
            drawn[field.name] = draw(st.lists(scalar, max_size=2) if repeated else scalar)
    return drawn


@given(messages(ComputePlacementRequest.DESCRIPTOR))
def test_any_message_is_a_request_or_is_refused(drawn: dict[str, Any]) -> None:
    refused = None
    there = ComputePlacementRequest(**drawn)
    if there.HasField("base"):
        with pytest.raises(SnapshotUnknown):
            parse_request(there)
        there.ClearField("base")
    try:
        here = parse_request(there)
    except InvalidRequest as error:
        refused = error
    if refused is None:
        assert parse_request(request_to_proto(here)) == here
    else:
        assert 0 < len(refused.violations) <= refused.count
        assert all(v.field and v.description for v in refused.violations)


#: Fields, each in the message of the one before.
Path = tuple[Any, ...]

LONG = "x" * 100_000


def texts(descriptor: Any, before: Path = ()) -> Iterator[Path]:
    """The way to each text of a message, keys and values of maps among them."""
    for field in descriptor.fields:
        way = (*before, field)
        if field.message_type is not None:
            if field.message_type not in [one.message_type for one in before]:
                yield from texts(field.message_type, way)
        elif field.type == FieldDescriptor.TYPE_STRING:
            yield way


def with_long_text(way: Path) -> ComputePlacementRequest:
    """A request with nothing but a long text, and what it takes to get there."""
    there = ComputePlacementRequest()
    message: Message = there
    rest = list(way)
    while rest:
        field = rest.pop(0)
        value: Any = getattr(message, field.name)
        if field.message_type is None:
            if field.is_repeated:
                value.append(LONG)
            else:
                setattr(message, field.name, LONG)
        elif field.message_type.GetOptions().map_entry:
            if rest[0].name == "key":
                of = field.message_type.fields_by_name["value"]
                value[LONG] = "a" if of.type == FieldDescriptor.TYPE_STRING else 1
            else:
                value["a"] = LONG
            break
        elif field.is_repeated:
            message = value.add()
        else:
            value.SetInParent()
            message = value
    return there


def words(way: Path) -> str:
    return ".".join(field.name for field in way)


#: What is read only where something names it, and what says which snapshot is meant.
_UNREAD = ("pod_templates", "base")
TEXT_FIELDS = [
    pytest.param(way, id=words(way))
    for way in texts(ComputePlacementRequest.DESCRIPTOR)
    if way[0].name not in _UNREAD
]


@pytest.mark.parametrize("way", TEXT_FIELDS)
def test_a_text_as_long_as_nobody_writes_is_refused_by_its_field(way: Path) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_request(with_long_text(way))
    entry = len(way) > 1 and way[-2].message_type.GetOptions().map_entry
    field = way[-2 if entry else -1].name
    assert any(field in violation.field for violation in caught.value.violations)
    assert all(
        len(violation.field) + len(violation.description) < 2000
        for violation in caught.value.violations
    )


def test_a_long_name_of_a_template_is_refused() -> None:
    there = ComputePlacementRequest()
    there.pod_templates[LONG].requests.pod_count = 1
    there.gangs.add().groups.add().pod_sets.add(template_name=LONG)
    with pytest.raises(InvalidRequest) as caught:
        parse_request(there)
    assert "gangs[0].groups[0].pod_sets[0].template_name" in {
        violation.field for violation in caught.value.violations
    }
