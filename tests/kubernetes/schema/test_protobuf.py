"""Kubernetes' protobuf encoding is read as the API itself writes the objects in JSON."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.kubernetes.schema.protobuf import MAGIC, ProtobufError, decode

#: Written by Kubernetes' own types (fields_test.go of the Go plugin).
EXAMPLES = json.loads((Path(__file__).parent / "protobuf_examples.json").read_text())

#: Large, and bearing on nothing.
LEFT_OUT = {
    *("managedFields", "env", "envFrom", "volumeMounts", "livenessProbe", "readinessProbe"),
    *("startupProbe", "lifecycle", "securityContext", "images", "containerStatuses"),
    *("initContainerStatuses", "ephemeralContainerStatuses"),
}


def bare(value: Any) -> Any:
    """An object without what is left out, and without what JSON says is null."""
    if isinstance(value, list):
        return [bare(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: bare(one) for key, one in value.items() if key not in LEFT_OUT and one is not None}


def encoded(example: dict[str, Any]) -> bytes:
    return base64.b64decode(example["protobuf"])


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(one, id=f"{one['object']['apiVersion']} {one['object']['kind']} {i}")
        for i, one in enumerate(EXAMPLES)
    ],
)
def test_an_object_is_what_it_is_in_json(example: dict[str, Any]) -> None:
    assert bare(decode(encoded(example))) == bare(example["object"])


def test_a_kind_that_is_not_read_is_named_and_one_that_is_must_be_json() -> None:
    def unknown(version: str, kind: str) -> bytes:
        named = bytes((10, len(version), *version.encode(), 18, len(kind), *kind.encode()))
        return MAGIC + bytes((10, len(named), *named, 18, 0))

    assert decode(unknown("v1", "Secret")) == {"apiVersion": "v1", "kind": "Secret"}
    with pytest.raises(ProtobufError, match="send JSON"):
        decode(unknown("scheduler.grove.io/v1alpha1", "PodGang"))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(EXAMPLES), st.data())
def test_bytes_that_are_broken_are_an_error_or_an_object(
    example: dict[str, Any], data: st.DataObject
) -> None:
    content = bytearray(encoded(example))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    try:
        found = decode(bytes(content))
    except ProtobufError:
        return
    json.dumps(found).encode()
