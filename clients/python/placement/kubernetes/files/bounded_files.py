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


def read_stream(stream: Readable[S_co], *, most: int | None = None) -> S_co:
    """All that a stream still holds. Raises ValueError when that is more than `most`, by
    default MOST_BYTES."""
    most = MOST_BYTES if most is None else most
    content = stream.read(most + 1)
    if len(content) > most:
        raise ValueError(f"is larger than {most >> 20} MiB")
    return content
