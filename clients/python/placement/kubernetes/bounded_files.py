"""Files of any origin, read only up to a sensible size."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol, TypeVar

#: A device file never ends, and a few compressed bytes can stand for terabytes.
MOST_BYTES: Final = 1 << 30

S_co = TypeVar("S_co", bound=str | bytes, covariant=True)


class Readable(Protocol[S_co]):
    """A stream of text or bytes."""

    def read(self, size: int, /) -> S_co: ...


def read_file(path: str | Path) -> bytes:
    """The content of a file. Raises OSError, and ValueError when it is too large."""
    with Path(path).open("rb") as stream:
        return read_stream(stream)


def read_stream(stream: Readable[S_co], what: str = "") -> S_co:
    """All that a stream still holds. Raises ValueError when that is too much."""
    content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"is larger than {MOST_BYTES >> 20} MiB{what}")
    return content
