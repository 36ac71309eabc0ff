"""Any message at all is read as a request, or refused with reasons."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
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
