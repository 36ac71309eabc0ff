"""Numbers, names and verdicts in words: what table, drawing and page share.

It decides nothing; it only words the same fact alike in every output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from google.protobuf.duration_pb2 import Duration

from placement.v1 import ObjectiveTier, Placement, TerminationLimit, TerminationReason

HOSTNAME = "kubernetes.io/hostname"

#: Two values closer than this are equal: tiers count in thousandths.
SAME = 5e-7

#: Units of time and their seconds, large ones first.
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))

#: This tier never has a bound; proofs are about all others.
BEST_EFFORT = "fragmentation"

_LIMITS = {
    TerminationLimit.TERMINATION_LIMIT_TIME: "the time limit ended the search",
    TerminationLimit.TERMINATION_LIMIT_EFFORT: "the search had nothing left to try",
    TerminationLimit.TERMINATION_LIMIT_SOLVER_LOST: "the solver process was lost",
}


def namespaced(name: str) -> tuple[str, str]:
    """Namespace and name in ``namespaces/{namespace}/{kind}/{name}``."""
    _, namespace, _, short = name.split("/", 3)
    return namespace, short


def gang_title(name: str) -> str:
    """``namespace/name`` of a gang's resource name."""
    return "/".join(namespaced(name))


def node_name(name: str) -> str:
    """The Kubernetes name in ``nodes/{node}``."""
    return name.removeprefix("nodes/")


def whole(value: float) -> int | float:
    """The value, as an integer when it is one up to the grain of the tiers."""
    nearest = round(value)
    return nearest if abs(value - nearest) < SAME else value


def number(value: float) -> str:
    """A number for people: ``96``, ``0.125``, at most three decimals."""
    return f"{value:.3f}".rstrip("0").rstrip(".") if value != round(value) else f"{value:.0f}"


def count(amount: int, noun: str) -> str:
    """``1 rack``, ``2 racks``, ``2,000 classes``."""
    return f"{amount:,} {noun if amount == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """The plural of a level's or a thing's name."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def printable(text: str) -> str:
    """The text without characters that would move a terminal's cursor or colour it."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def sentence(text: str) -> str:
    """The text with a capital, unless it begins with what may be a name."""
    first = text.split(maxsplit=1)[0] if text.split() else ""
    return text[0].upper() + text[1:] if first.isalpha() else text


def shorten(text: str, most: int) -> str:
    """At most so many characters; the cut is before the end, which tells names apart."""
    if len(text) <= most:
        return text
    head = most // 4
    return f"{text[:head]}…{text[head + 1 - most :]}"


def seconds(amount: float) -> str:
    """A span of time for people: ``85 ms``, ``1.3 s``, ``3 h 20 min``, ``7 d 1 h``."""
    if amount < 0.9995:
        return f"{amount * 1000:.0f} ms"
    if amount < 59.95:
        return f"{amount:.1f} s"
    whole = round(amount)
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(amount / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(amount / 3_600)
    return f"{hours // 24} d {hours % 24} h"


def age(amount: float) -> str:
    """A span of time for a column, as kubectl has it: ``45s``, ``2m5s``, ``3h20m``, ``12d``."""
    left = max(0, int(amount))
    for (unit, size), (less, part) in pairwise(_UNITS):
        if left >= size:
            much, rest = divmod(left, size)
            more = rest // part if much < 10 else 0
            return f"{much}{unit}{more}{less}" if more else f"{much}{unit}"
    return f"{left}s"


def span(duration: Duration) -> float:
    """The duration in seconds."""
    return duration.seconds + duration.nanos / 1e9


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key that puts ``n2`` before ``n10``."""
    return tuple(
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in re.split(r"(\d+)", text)
        if part
    )


def level_names(keys: Iterable[str]) -> dict[str, str]:
    """Short names of label keys: ``rack`` for ``topology.example.com/rack``.

    Keys that would share a short name keep their whole key.
    """
    keys = list(dict.fromkeys(keys))
    short = {key: "host" if key == HOSTNAME else key.rsplit("/", 1)[-1] or key for key in keys}
    names = list(short.values())
    return {key: name if names.count(name) == 1 else key for key, name in short.items()}


def is_proven(tier: ObjectiveTier) -> bool:
    """Whether nothing better exists in this tier, given the tiers before it."""
    return tier.HasField("bound") and abs(tier.bound - tier.value) < SAME


def tier_verdict(tier: ObjectiveTier) -> str:
    """How good the tier is known to be."""
    if is_proven(tier):
        return "proven optimal"
    if not tier.HasField("bound"):
        return "best effort" if tier.name == BEST_EFFORT else "without a known bound"
    if tier.minimize:
        return f"at most {number(tier.value - tier.bound)} above the best possible"
    gap = abs(tier.bound - tier.value) / max(1.0, abs(tier.value))
    return f"within {percent(gap)} of the best possible"


def percent(share: float) -> str:
    """``1.2 %``, rounded up so that it never promises too much."""
    tenths = -(-share * 1000 // 1)
    return f"{tenths / 10:.1f} %" if tenths < 100 else f"{-(-share * 100 // 1):.0f} %"


def verdict(placement: Placement) -> str:
    """What is known about the whole answer, in one sentence."""
    if placement.termination.reason == TerminationReason.TERMINATION_REASON_OPTIMAL:
        return "Proven optimal"
    limit = _LIMITS.get(placement.termination.limit)
    ending = f"; {limit}" if limit else ""
    for tier in placement.tiers:
        if tier.name != BEST_EFFORT and not is_proven(tier):
            return f"{tier.name.capitalize()} {tier_verdict(tier)}{ending}"
    return f"Nothing proven{ending}"
