"""The outermost fields of messages, read and written without looking into them.

The edge keeps a request as the bytes that came. It must know two of its values, the time limit and
the label, and must stay free to answer others whatever the bytes are. So it steps from field to
field, with a break every so often. The compute process finds what is malformed inside the fields.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from google.protobuf import duration_pb2
from google.protobuf.message import DecodeError, Message

from placement.v1 import SnapshotBase
from placement_service.entities.errors import InvalidRequest, Violation

#: Fields between two breaks: a few milliseconds.
FIELDS_AT_ONCE = 10_000

#: How often a field that is looked for may come. Each time costs many times its bytes here.
MOST_PARTS = 20_000

#: Bytes of a label or a revision that are looked at.
LONGEST_TEXT = 4096

#: The field of a base that holds its digest, and bytes of it that are looked at.
DIGEST, LONGEST_DIGEST = SnapshotBase.DIGEST_FIELD_NUMBER, 128

#: A snapshot has thousands of entries of few sizes.
_FRAMES_KEPT = 1024

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

#: What stands behind tags, by tag and in order.
_Found = dict[int, list[memoryview]]


@dataclass(frozen=True, slots=True)
class Header:
    """What the edge reads of a request; `time_limit` is in seconds, None when absent.

    `base` is the digest of the snapshot that the request is based on, None when it is whole.
    """

    time_limit: float | None
    label: str
    base: str | None


async def read_header(
    request: memoryview, *, time_limit: int, label: int, question: int = 0, base: int = 0
) -> Header:
    """The contents of the fields with those numbers; 0 is no field.

    `base` is a field of the message in `question`, where that is one. Raises InvalidRequest
    when the bytes are no message.
    """
    fields = await contents(request, time_limit, label, question or base)
    limits, labels, bases = fields[time_limit], fields[label], fields[question or base]
    if question and base:
        bases = (await contents(_merged(bases), base))[base]
    try:
        # A field that comes more than once is merged, as protobuf does.
        duration = duration_pb2.Duration.FromString(b"".join(limits))
    except DecodeError as error:
        raise not_a_message() from error
    text = bytes(labels[-1][:LONGEST_TEXT]).decode(errors="replace") if labels else ""
    return Header(
        duration.seconds + duration.nanos / 1e9 if limits else None,
        text,
        await last_text(_merged(bases), DIGEST, LONGEST_DIGEST) if bases else None,
    )


async def last_text(message: memoryview, field: int, longest: int = LONGEST_TEXT) -> str:
    """The text in a field, of which so many bytes are read; empty when it is absent."""
    found = (await contents(message, field))[field]
    return bytes(found[-1][:longest]).decode(errors="replace") if found else ""


async def unwrapped(message: memoryview, field: int) -> memoryview:
    """The bytes in the field of a message that holds nothing else; all bytes for field 0.

    Raises InvalidRequest.
    """
    if not field:
        return message[:]
    return _merged((await contents(message, field))[field])


def _merged(parts: Sequence[memoryview]) -> memoryview:
    """Bytes of a message one after the other are those messages merged."""
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


async def chosen(message: memoryview, fields: Collection[int]) -> int:
    """Which of some fields a message holds, of which it is to hold one; 0 for none.

    Raises InvalidRequest when the bytes are no message.
    """
    found = await contents(message, *fields)
    return next((number for number, parts in found.items() if parts), 0)


async def only(message: memoryview, *fields: int) -> bytes:
    """The bytes of a message that holds only these of its fields. Raises as `contents` does."""
    kept = bytearray()

    def keep(found: _Found) -> None:
        for tag, parts in found.items():
            for part in parts:
                kept.extend(b"".join((*framed(tag >> 3, len(part)), part)))
            parts.clear()

    await _visit(message, [number << 3 | _BYTES for number in fields], keep)
    return bytes(kept)


def wrapped(message: bytes, field: int) -> bytes:
    """The bytes of a message that holds another in a field; the message itself for field 0."""
    return b"".join((*framed(field, len(message)), message)) if field else message


def amended(message: bytes, field: int, change: Message) -> bytes:
    """The bytes of a message in whose field some fields are changed: those that `change` sets."""
    content = change.SerializeToString()
    return b"".join((message, *framed(field, len(content)), content))


@lru_cache(_FRAMES_KEPT)
def framed(field: int, size: int) -> tuple[bytes, bytes]:
    """The bytes that precede so many bytes of content in a field."""
    varint = bytearray()
    while size > 0x7F:
        varint.append(size & 0x7F | 0x80)
        size >>= 7
    varint.append(size)
    return bytes((field << 3 | _BYTES,)), bytes(varint)


def not_a_message() -> InvalidRequest:
    """The error of bytes that cannot be read."""
    return InvalidRequest([Violation("request", "the bytes are no message of this service")])


async def contents(message: memoryview, *fields: int) -> dict[int, list[memoryview]]:
    """The contents of some fields, which hold bytes, by field and in order.

    Raises InvalidRequest when the bytes are no message, or hold one of them too often.
    """
    found = await _tagged(message, [number << 3 | _BYTES for number in fields])
    return {number: found[number << 3 | _BYTES] for number in fields}


async def is_set(message: memoryview, field: int) -> bool:
    """Whether a field that holds true or false is true. Raises as `contents` does."""
    tag = field << 3 | _VARINT
    # The last one counts, as for protobuf.
    return any(any(last) for last in (await _tagged(message, [tag]))[tag][-1:])


async def _tagged(data: memoryview, tags: Iterable[int]) -> _Found:
    """What follows some tags, in order."""
    return await _visit(data, tags, _check_count)


def _check_count(found: _Found) -> None:
    if any(len(parts) > MOST_PARTS for parts in found.values()):
        problem = f"a field comes more than {MOST_PARTS:,} times"
        raise InvalidRequest([Violation("request", problem)])


async def _visit(data: memoryview, tags: Iterable[int], look: Callable[[_Found], None]) -> _Found:
    """What follows some tags, in order; `look` sees the list grow, and may take from it."""
    found: _Found = {tag: [] for tag in tags}
    position = 0
    try:
        while position < len(data):
            position = _walk(data, position, found)
            look(found)
            if position < len(data):
                await asyncio.sleep(0)
    except (IndexError, InvalidRequest) as error:
        # An error keeps the frames that it passed, and these keep the request.
        found.clear()
        raise (not_a_message() if isinstance(error, IndexError) else error) from None
    return found


def _walk(data: memoryview, position: int, found: _Found) -> int:
    """Steps over some fields from a position on; returns the next one.

    Raises IndexError when the bytes end too soon.
    """
    end = len(data)
    for _ in range(FIELDS_AT_ONCE):
        if position == end:
            break
        tag = data[position]
        position += 1
        if tag > 0x7F:
            tag, position = _varint(data, position - 1)
        if tag <= 7:  # The number of no field.
            raise not_a_message()
        kind = tag & 7
        if kind == _BYTES:
            size = data[position]
            position += 1
            if size > 0x7F:
                size, position = _varint(data, position - 1)
            content = found.get(tag)
            if content is not None:
                content.append(data[position : position + size])
            position += size
        elif kind == _VARINT:
            begin = position
            _, position = _varint(data, position)
            if tag in found:
                found[tag].append(data[begin:position])
        elif kind == _FIXED64:
            position += 8
        elif kind == _FIXED32:
            position += 4
        else:
            raise not_a_message()
        if position > end:
            raise IndexError
    return position


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte <= 0x7F:
            return value, position
        shift += 7
    raise not_a_message()
