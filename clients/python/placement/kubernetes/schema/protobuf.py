"""Turns objects in Kubernetes' protobuf encoding into their JSON form. client-go and etcd use this
encoding for the kinds of Kubernetes itself; resources that are defined in a cluster, such as
PodGangs, have none. Numbers and names of fields lie beside this file (`protobuf_fields.json`, made
from the types of the API by ``fields_test.go`` of the Go plugin). Fields that are not in the table
are left out: those of newer versions, and large ones that are not needed, such as environments and
probes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from placement.kubernetes.schema.kinds import kind_of

#: The first bytes of objects in this encoding.
MAGIC: Final = b"k8s\x00"

PATH: Final = Path(__file__).with_name("protobuf_fields.json")

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ProtobufError(ValueError):
    """The bytes are no object that can be read; the message says why."""


class _Field(NamedTuple):
    """`name` is empty where the fields of a message are those of the one around it.

    `read` makes JSON of the field; `shape` is "one", "list" or "map"; where `is_dropped` JSON
    leaves out what is empty.
    """

    name: str
    read: Callable[[Any], Any]
    shape: str
    is_dropped: bool


_Fields = Mapping[int, _Field]


def decode(content: bytes) -> dict[str, Any]:
    """The object, as JSON has it. Raises ProtobufError.

    Of one whose kind is not read only kind and version are.
    """
    if not content.startswith(MAGIC):
        raise ProtobufError("does not begin as Kubernetes' protobuf encoding does")
    try:
        outer = dict(_wire(memoryview(content)[len(MAGIC) :]))
        of = {number: _string(value) for number, value in _wire(outer[1])}
        raw = outer.get(2, b"")
        if outer.get(3):
            raise ProtobufError("is compressed")
        if outer.get(4) and _string(outer[4]) == "application/json":
            body = json.loads(_string(raw))
            return body if isinstance(body, dict) else {}
        version, kind = of.get(1, ""), of.get(2, "")
        types, kinds = _table()
        index = kinds.get(f"{version} {kind}")
        if index is not None:
            return {"apiVersion": version, "kind": kind, **_message(types[index], raw)}
    except ProtobufError:
        raise
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise ProtobufError("is cut off, or no message") from error
    if kind_of(version, kind.removesuffix("List")) is not None:
        raise ProtobufError(f"{kind} of {version} is not read in protobuf; send JSON")
    return {"apiVersion": version, "kind": kind}


@lru_cache(maxsize=1)
def _table() -> tuple[list[_Fields], dict[str, int]]:
    table = json.loads(PATH.read_text(encoding="utf-8"))
    types: list[_Fields] = [{} for _ in table["types"]]

    def message(index: int) -> Callable[[Any], Any]:
        # The type may not be filled yet.
        fields = types[index]
        return lambda value: _message(fields, value)

    for fields, written in zip(types, table["types"], strict=True):
        assert isinstance(fields, dict)
        for number, (name, holds, shape, is_dropped) in written.items():
            read = message(holds) if isinstance(holds, int) else _READERS[holds]
            fields[int(number)] = _Field(name, read, shape, is_dropped)
    return types, table["kinds"]


def _message(fields: _Fields, content: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, value in _wire(content):
        field = fields.get(number)
        if field is None:
            continue
        name, read, shape, is_dropped = field
        if shape == "list":
            found.setdefault(name, []).append(read(value))
        elif shape == "map":
            entry = dict(_wire(value))
            found.setdefault(name, {})[_string(entry.get(1, b""))] = read(entry.get(2, b""))
        else:
            one = read(value)
            if not name:
                found.update(one)
            elif one is not None and (one or not is_dropped):
                found[name] = one
    return found


def _wire(content: Any) -> Iterator[tuple[int, Any]]:
    """Numbers and values of the fields of a message: an int, or a view of bytes."""
    position, end = 0, len(content)
    while position < end:
        tag, position = _varint(content, position)
        kind = tag & 7
        if kind == _BYTES:
            size, position = _varint(content, position)
            if position + size > end:
                raise ProtobufError("is cut off")
            yield tag >> 3, content[position : position + size]
            position += size
        elif kind == _VARINT:
            value, position = _varint(content, position)
            yield tag >> 3, value
        elif kind in (_FIXED64, _FIXED32):
            position += 8 if kind == _FIXED64 else 4
        else:
            raise ProtobufError("is no message")


def _varint(content: Any, position: int) -> tuple[int, int]:
    byte = content[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value, shift = byte & 0x7F, 7
    while shift < 70:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ProtobufError("is no message")


def _string(value: Any) -> str:
    return str(value, "utf-8")


def _int(value: int) -> int:
    """As signed: ten bytes of a varint are a negative number."""
    return value - 2**64 if value >= 2**63 else value


def _quantity(value: Any) -> str:
    return _string(dict(_wire(value)).get(1, b""))


def _int_or_string(value: Any) -> int | str:
    parts = dict(_wire(value))
    return _string(parts.get(3, b"")) if parts.get(1) else _int(parts.get(2, 0))


def _moment(value: Any) -> datetime | None:
    parts = dict(_wire(value))
    if not parts:
        return None
    since = timedelta(seconds=_int(parts.get(1, 0)), microseconds=parts.get(2, 0) // 1000)
    return _EPOCH + since


def _time(value: Any) -> str | None:
    moment = _moment(value)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(value: Any) -> str | None:
    moment = _moment(value)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _raw(value: Any) -> Any:
    return json.loads(_string(dict(_wire(value)).get(1, b"null")))


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "string": _string,
    "bool": bool,
    "int": _int,
    "bytes": lambda value: base64.b64encode(value).decode(),
    "quantity": _quantity,
    "intOrString": _int_or_string,
    "time": _time,
    "microTime": _micro_time,
    "raw": _raw,
}
