"""Makes the golden files: one message with every field set for each kind, and the bytes of all."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from placement.kubernetes.v1 import PlaceObjectsRequest
from placement.v1 import ComputePlacementRequest
from tests.golden import DIGESTS, FOLDER, encode, files, parse, snapshot_digest

#: None begins another: see the package.
_TEXTS = ("rack", "größe", "名前")
_WELL_KNOWN = {
    "google.protobuf.Duration": {"seconds": 12, "nanos": 345_000_000},
    "google.protobuf.Timestamp": {"seconds": 1_790_000_000, "nanos": 1},
}


def main() -> None:
    """Ends with status 1 when a file is not as it should be, and was not to be written."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="write them; without it, tell which would change"
    )
    options = parser.parse_args()
    changed = [path for path, content in contents() if _changes(path, content, options.write)]
    for path in changed:
        print(f"{'written' if options.write else 'would change'}: {path.relative_to(FOLDER)}")
    if changed and not options.write:
        sys.exit(1)


def _changes(path: Path, content: bytes, write: bool) -> bool:
    """Whether a file has other content; with `write` it gets this one."""
    if path.exists() and path.read_bytes() == content:
        return False
    if write:
        path.write_bytes(content)
    return True


def contents() -> Iterator[tuple[Path, bytes]]:
    """Every golden file that is made, and its content."""
    messages: dict[str, Message] = {file.name: parse(file) for file in files()}
    kinds: tuple[type[Message], ...] = (ComputePlacementRequest, PlaceObjectsRequest)
    for kind in kinds:
        message = kind()
        _fill(message, 1)
        name = f"{kind.DESCRIPTOR.full_name}.every-field.json"
        messages[name] = message
        text = json_format.MessageToJson(message, sort_keys=True, ensure_ascii=False)
        body = json.dumps(_backwards(json.loads(text)), ensure_ascii=False, indent=1)
        yield FOLDER / name, f"{body}\n".encode()
    for name, message in sorted(messages.items()):
        yield (FOLDER / name).with_suffix(".binpb"), encode(message)
    digests = {n: digest for n, m in sorted(messages.items()) if (digest := snapshot_digest(m))}
    yield DIGESTS, f"{json.dumps(digests, indent=1)}\n".encode()


def _fill(message: Message, seed: int) -> None:
    """Sets every field, lists and maps to several values."""
    field: Any
    for field in message.DESCRIPTOR.fields:
        seed += field.number
        value = getattr(message, field.name)
        if _is_map(field):
            of = field.message_type.fields_by_name["value"]
            for index, text in enumerate(reversed(_TEXTS)):
                if of.type == FieldDescriptor.TYPE_MESSAGE:
                    _fill_one(value[text], seed + index)
                else:
                    value[text] = _value(of, seed + index)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            many = [value.add() for _ in range(2)] if field.is_repeated else [value]
            for index, one in enumerate(many):
                _fill_one(one, seed + index)
        elif field.is_repeated:
            value.extend(_value(field, seed + index) for index in range(3))
        else:
            setattr(message, field.name, _value(field, seed))


def _fill_one(message: Message, seed: int) -> None:
    if known := _WELL_KNOWN.get(message.DESCRIPTOR.full_name):
        for name, value in known.items():
            setattr(message, name, value)
    else:
        _fill(message, seed)


def _value(field: Any, seed: int) -> object:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            text = f"{_TEXTS[seed % 3]}/{seed}"
            return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
        case FieldDescriptor.CPPTYPE_BOOL:
            return True
        case FieldDescriptor.CPPTYPE_DOUBLE:
            return 1 / (seed + 2)
        case FieldDescriptor.CPPTYPE_ENUM:
            return field.enum_type.values[seed % len(field.enum_type.values) or 1].number
        case FieldDescriptor.CPPTYPE_INT64:
            return -(2**62) + seed if seed % 2 else 2**53 + seed
        case _:
            return -seed if seed % 2 else 2**31 - seed


def _is_map(field: Any) -> bool:
    kind = field.message_type
    return bool(kind is not None and kind.GetOptions().map_entry)


def _backwards(value: object) -> object:
    """The same JSON with every object's keys the other way round: the order must not matter."""
    if isinstance(value, dict):
        return {key: _backwards(value[key]) for key in reversed(value)}
    return [_backwards(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
