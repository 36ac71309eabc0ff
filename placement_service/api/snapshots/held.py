"""What a compute process holds: versions by digest, at most so many bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from typing import NamedTuple, Protocol, Self, TypeVar

from placement.v1 import ComputePlacementRequest
from placement_service.api.snapshots import content
from placement_service.api.snapshots.versions import Read, Version, read
from placement_service.entities.errors import SnapshotUnknown

#: Versions held at once, however small: callers continue from the latest.
MOST_VERSIONS = 32

#: Changes after which the edge is told the whole, so that it need not keep them all.
MOST_CHANGES = 64


class Told(Protocol):
    """A version of anything that may be told in changes.

    `changes` and `changed_bytes` count what the edge keeps to make it from a whole; `size` is that
    of all encodings, and `cost` about what it takes in memory, both in bytes.
    """

    @property
    def digest(self) -> bytes: ...
    @property
    def changes(self) -> int: ...
    @property
    def changed_bytes(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def cost(self) -> int: ...

    def whole(self) -> bytes:
        """A request that tells it as a whole."""

    def settled(self) -> Self:
        """The same, told as a whole."""


_V = TypeVar("_V", bound=Told)


class Whole(NamedTuple):
    """A request that tells a snapshot as a whole, and the snapshot's digest."""

    digest: bytes
    told: bytes


class Held:
    """The versions that a process holds, of all kinds.

    The least recently used go first; the latest stays, whatever it takes, unless nothing is
    to be kept at all.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held: OrderedDict[bytes, Told] = OrderedDict()

    def read(self, message: ComputePlacementRequest) -> Read:
        """The request in a message, whose version is held from now on.

        Raises InvalidRequest, and SnapshotUnknown when the base is not held.
        """
        base = self.base(message.base.digest, Version) if message.HasField("base") else None
        found = read(message, base)
        self.keep(found.version)
        return found

    def base(self, digest: str, kind: type[_V]) -> _V:
        """The version of a digest. Raises SnapshotUnknown when it is not held, or another kind."""
        raw = content.parse(digest)
        version = None if raw is None else self._held.get(raw)
        if raw is None or not isinstance(version, kind):
            raise SnapshotUnknown(digest)
        self._held.move_to_end(raw)
        return version

    def keep(self, version: Told) -> None:
        """Holds a version from now on, as the latest."""
        if not self._most:
            return
        # The same content may be had with fewer changes by now.
        self._held.pop(version.digest, None)
        self._held[version.digest] = version
        # Counted anew: a reader may be interrupted at any line.
        taken = sum(held.cost for held in self._held.values())
        while len(self._held) > 1 and (taken > self._most or len(self._held) > MOST_VERSIONS):
            taken -= self._held.popitem(last=False)[1].cost

    def digests(self) -> Collection[bytes]:
        """The digests of all versions, the latest last."""
        return self._held.keys()

    def whole(self) -> Whole | None:
        """The latest version as a whole, when it is made of so many changes that this is less."""
        version = next(reversed(self._held.values()), None)
        if version is None or (
            version.changes < MOST_CHANGES and version.changed_bytes <= version.size
        ):
            return None
        version = version.settled()
        self.keep(version)
        return Whole(version.digest, version.whole())
