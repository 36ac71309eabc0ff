"""What the edge keeps of snapshots: the bytes that they were told with.

A snapshot is what a request told as a whole, or as changes to one that is kept. A process that
needs one is sent what it lacks, starting from the nearest one that it holds. The edge does not look
into the bytes: a compute process reads them and computes the digest.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection
from dataclasses import dataclass

#: About how many bytes an entry takes besides its content.
_ENTRY = 500


@dataclass(frozen=True, slots=True)
class _Kept:
    """Bytes of a request, and the digest of its base, empty for a whole snapshot."""

    told: bytes
    base: bytes

    @property
    def size(self) -> int:
        return len(self.told) + _ENTRY


class SnapshotStore:
    """Snapshots by digest, at most so many bytes; the least recently used go first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        # Snapshots that others are made from come after these, so that they are dropped later.
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        #: What whole snapshots were made from, when they had been told as changes.
        self._behind: dict[bytes, list[bytes]] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def told(self, digest: bytes, held: Collection[bytes]) -> list[bytes] | None:
        """What a process that holds some snapshots has to be sent, in order, to hold this one. None
        when that is not known.
        """
        way: list[bytes] = []
        while digest not in held:
            kept = self._kept.get(digest)
            if kept is None:
                return None
            way.append(kept.told)
            if not kept.base:
                break
            digest = kept.base
        return way[::-1]

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._kept

    def keep(self, digest: bytes, told: bytes, base: bytes = b"") -> None:
        """Keeps a snapshot that these bytes tell of, in whole or of changes to a base."""
        known = self._kept.get(digest)
        if known is None or (known.base and not base):
            if known is not None:
                self._leave_behind(digest)
            if base and base not in self._kept:
                return
            if len(told) + _ENTRY > self._most:
                return
            kept = self._kept[digest] = _Kept(told, base)
            self.bytes += kept.size - (0 if known is None else known.size)
        self.use(digest)
        while self.bytes > self._most:
            self._drop(next(iter(self._kept)))

    def use(self, digest: bytes) -> None:
        """Takes note that a snapshot is used, and all that it is made from."""
        while digest in self._kept:
            self._kept.move_to_end(digest)
            digest = self._kept[digest].base

    def _leave_behind(self, digest: bytes) -> None:
        """Drops what a session has left behind twice, when a snapshot of it comes as a whole.

        Once is not enough: a caller may still continue from there.
        """
        line = [digest]
        while (base := self._kept[line[-1]].base) in self._kept:
            line.append(base)
        children = Counter(kept.base for kept in self._kept.values())
        for old in self._behind.pop(line[-1], ()):
            if old in self._kept and not children[old]:
                children[self._kept[old].base] -= 1
                self._drop(old)
        self._behind[digest] = line[1:]

    def _drop(self, digest: bytes) -> None:
        self.bytes -= self._kept.pop(digest).size
        self._behind.pop(digest, None)
