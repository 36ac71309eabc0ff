"""What the values of options become: each function reads one text, and raises ValueError with what
is wrong with it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

#: The longest duration that the wire holds without rounding, in seconds.
_LONGEST: Final = 24 * 3600.0
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+", re.ASCII)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)

_NUMBER: Final = re.compile(r"-?\d+", re.ASCII)
_MOST_DIGITS: Final = 20

#: Most GPUs of a limit.
_MOST_GPUS: Final = 10_000_000

#: Most nodes or domains that one `--add` makes.
MOST_ADDED: Final = 100_000


class GangName(NamedTuple):
    """A gang as people name it."""

    namespace: str
    name: str

    @property
    def resource_name(self) -> str:
        """As the API names it."""
        return f"namespaces/{self.namespace}/podgangs/{self.name}"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Addition(NamedTuple):
    """``--add``: so many nodes like `like`, or where `level` is set, domains like that one."""

    number: int
    level: str
    like: str


class Freeing(NamedTuple):
    """``--free``: so many domains of a level."""

    level: str
    number: int


class Setting(NamedTuple):
    """Another number for a gang or a queue, by its resource name."""

    name: str
    number: int


def duration(text: str) -> float:
    """Seconds in a duration such as ``500ms``, ``10s`` or ``1m30s``."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration such as 500ms, 10s or 1m30s")
    total = sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))
    if not 0.001 <= total <= _LONGEST:
        raise ValueError(f"{text!r} is not between 1ms and 24h")
    return total


def address(text: str) -> str:
    """``HOST:PORT``, or ``unix:/PATH`` for a socket in the file system."""
    if text.startswith("unix:"):
        if not text.removeprefix("unix:").strip("/"):
            raise ValueError(f"{text!r} is not a socket such as unix:/run/placement.sock")
        return text
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isascii() and port.isdecimal() and 0 < int(port) <= 65535):
        raise ValueError(f"{text!r} is not an address HOST:PORT")
    return text


def gang_name(text: str) -> GangName:
    """``NAMESPACE/NAME``."""
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise ValueError(f"{text!r} is not NAMESPACE/NAME of a gang")
    return GangName(namespace, name)


def addition(text: str) -> Addition:
    """``COUNT=NODE`` or ``COUNT=LEVEL:VALUE``."""
    count, _, like = text.partition("=")
    level, _, value = like.rpartition(":")
    if not like or not value or not _NUMBER.fullmatch(count):
        raise ValueError(
            f"{text!r} is not COUNT=NODE or COUNT=LEVEL:VALUE, such as 4=gpu-0 or"
            " 1=topology.example.com/rack:r7"
        )
    return Addition(_within(text, count, 1, MOST_ADDED), level, value)


def other_priority(text: str) -> Setting:
    """``NAMESPACE/NAME=NUMBER``."""
    gang, _, number = text.rpartition("=")
    if not gang or not _NUMBER.fullmatch(number):
        raise ValueError(f"{text!r} is not NAMESPACE/NAME=PRIORITY, such as ml/serve-0=1000")
    priority = _within(text, number, -(1 << 31), (1 << 31) - 1)
    return Setting(gang_name(gang).resource_name, priority)


def other_limit(text: str) -> Setting:
    """``QUEUE=GPUS``."""
    queue, _, number = text.rpartition("=")
    if not queue or not _NUMBER.fullmatch(number):
        raise ValueError(f"{text!r} is not QUEUE=GPUS, such as team-a=512")
    return Setting(f"queues/{queue}", _within(text, number, 0, _MOST_GPUS))


def freeing(text: str) -> Freeing:
    """``LEVEL=COUNT``."""
    level, _, count = text.rpartition("=")
    if not level or not _NUMBER.fullmatch(count):
        raise ValueError(f"{text!r} is not LEVEL=COUNT, such as topology.example.com/rack=2")
    return Freeing(level, _within(text, count, 1, MOST_ADDED))


def moment(text: str) -> datetime:
    """A time as Kubernetes writes it, such as ``2026-11-22T10:00:00Z``."""
    try:
        told = datetime.fromisoformat(text)
        return told.astimezone(UTC) if told.tzinfo else told.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        # The first and the last day of the calendar do not exist in all zones.
        raise ValueError(f"{text!r} is not a time such as 2026-11-22T10:00:00Z") from None


def _within(text: str, number: str, least: int, most: int) -> int:
    # What has more digits is not read at all: that takes long for very many.
    if len(number) > _MOST_DIGITS or not least <= int(number) <= most:
        raise ValueError(f"{text!r}: the number must be from {least} to {most}")
    return int(number)
