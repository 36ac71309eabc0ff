"""The content of a snapshot, its digest and that of a request (see the protos, in `Placement`).

Content is a list of entries, such as nodes or running pods, in the order of their names, each with
its canonical encoding. The cost of a change grows with what has changed, plus a copy of two lists.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple, TypeVar

from placement.v1 import ComputePlacementRequest
from placement_service.api.envelope import framed

_HASH = 32

_T = TypeVar("_T")


class Change(NamedTuple):
    """New content, and where each of its entries comes from. `rows` are places in the old content,
    followed by those in the list of new entries. None means that the names are the same; `replaced`
    are the new places by the old ones.
    """

    content: Entries
    rows: Sequence[int] | None
    replaced: dict[int, int]

    def arranged(self, old: Sequence[_T], new: Sequence[_T]) -> tuple[_T, ...]:
        """The values for the new content, chosen from those of the old content and of the new
        entries.
        """
        if self.rows is not None:
            every = (*old, *new)
            return tuple([every[row] for row in self.rows])
        if not self.replaced:
            return tuple(old)
        values = list(old)
        for place, i in self.replaced.items():
            values[place] = new[i]
        return tuple(values)


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Encodings by name, in ascending order; `hashes` one after the other."""

    names: Sequence[str] = ()
    encodings: Sequence[bytes] = ()
    hashes: bytes = b""
    size: int = 0

    def find(self, name: str) -> int | None:
        """The place of a name, None when it is not there."""
        place = bisect_left(self.names, name)
        return place if place < len(self.names) and self.names[place] == name else None

    def changed(
        self, encodings: Sequence[bytes], names: Sequence[str], gone: Collection[str]
    ) -> Change:
        """The content with some entries set, and others, which must be there, removed."""
        places = [self.find(name) for name in names] if self.names else []
        replaced = {place: i for i, place in enumerate(places) if place is not None}
        size = self.size + sum(map(len, encodings))
        size -= sum(len(self.encodings[place]) for place in replaced)
        if len(replaced) == len(encodings) and not gone:
            return Change(self._replaced(replaced, encodings, size), None, replaced)
        without = {self.find(name) for name in gone}
        size -= sum(len(self.encodings[place]) for place in without if place is not None)
        old = len(self.names)
        every = (*self.names, *names)
        rows = [i for i in range(old) if i not in replaced and i not in without]
        rows += range(old, old + len(encodings))
        rows.sort(key=every.__getitem__)
        bodies = (*self.encodings, *encodings)
        hashes = [self.hashes[i : i + _HASH] for i in range(0, len(self.hashes), _HASH)]
        hashes += [sha256(body).digest() for body in encodings]
        content = Entries(
            [every[i] for i in rows],
            [bodies[i] for i in rows],
            b"".join([hashes[i] for i in rows]),
            size,
        )
        return Change(content, rows, replaced)

    def _replaced(self, replaced: dict[int, int], new: Sequence[bytes], size: int) -> Entries:
        if not replaced:
            return self
        encodings, hashes = list(self.encodings), bytearray(self.hashes)
        for place, i in replaced.items():
            encodings[place] = new[i]
            hashes[place * _HASH : (place + 1) * _HASH] = sha256(new[i]).digest()
        return Entries(self.names, encodings, bytes(hashes), size)

    def written(self, field: int) -> Iterable[bytes]:
        """All entries as the repeated field of that number, in pieces."""
        for body in self.encodings:
            yield from framed(field, len(body))
            yield body


def digest(nodes: Entries, pods: Entries) -> bytes:
    """The digest of a snapshot."""
    return sha256(sha256(nodes.hashes).digest() + sha256(pods.hashes).digest()).digest()


def request_digest(message: ComputePlacementRequest, snapshot: bytes) -> bytes:
    """The digest of a request: of the snapshot that it is about, by its digest, and of all that
    the message says beside it. The message loses its nodes, running pods and base.
    """
    message.ClearField("base")
    del message.snapshot.nodes[:], message.snapshot.pods[:]
    # A message that tells of a change alone may have none.
    message.snapshot.SetInParent()
    message.DiscardUnknownFields()
    return sha256(snapshot + message.SerializeToString(deterministic=True)).digest()


def text(raw: bytes) -> str:
    """A digest as messages hold it."""
    return f"sha256:{raw.hex()}"


def parse(digest: str) -> bytes | None:
    """The inverse of `text`; None where it is none."""
    kind, _, digits = digest.partition(":")
    if kind != "sha256" or len(digits) != 2 * _HASH or digits != digits.lower():
        return None
    try:
        return bytes.fromhex(digits)
    except ValueError:
        return None
