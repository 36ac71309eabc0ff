"""Kubernetes quantities, such as "500m" or "80Gi", as exact integers.

All arithmetic is on integers: a quantity is a decimal number times a power of
two or ten, and floating point would lose bytes of large memories. Rounding is to the pod's
disadvantage: requests are rounded up, what a node offers is rounded down.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

#: The largest amount that the service accepts; beyond it sums could overflow.
LARGEST: Final = 2**53

_BINARY: Final[dict[str, int]] = {
    s: 1024**n for n, s in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
}
_DECIMAL: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}

_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,3}))?",
    re.ASCII,
)

#: Longer texts are no real quantities; they would only cost time.
_LONGEST_TEXT: Final = 64


class QuantityError(ValueError):
    """The text is not a quantity, or not one that makes sense here."""


@lru_cache(maxsize=4096)
def parse(text: str) -> Fraction:
    """The exact value of a quantity.

    Raises `QuantityError` when the text is none, or is negative.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None or not (match["whole"] or match["part"]):
        raise QuantityError(f"{text[:_LONGEST_TEXT]!r} is not a quantity")
    part = match["part"] or ""
    value = Fraction(int((match["whole"] or "0") + part), 10 ** len(part))
    if match["sign"] == "-" and value:
        raise QuantityError(f"{text!r} is negative")
    suffix = match["suffix"] or ""
    if suffix in _BINARY:
        return value * _BINARY[suffix]
    exponent = int(match["exponent"]) if match["exponent"] else _DECIMAL[suffix]
    scale: int = 10 ** abs(exponent)
    return value * scale if exponent >= 0 else value / scale


@lru_cache(maxsize=8192)
def amount(resource: str, text: str, *, round_up: bool = True, capped: bool = False) -> int:
    """A resource's quantity in its unit.

    The unit is a thousandth of a core for "cpu", a byte for memory, storage and
    huge pages, and one piece for everything else. CPU and bytes are rounded up,
    or down when `round_up` is false. Raises `QuantityError`, also for a fraction
    of a thing that comes in pieces and for amounts above `LARGEST`, unless it is `capped` there:
    then the fraction is rounded as well.
    """
    value = parse(text) * (1000 if resource == "cpu" else 1)
    if value.denominator != 1 and not is_divisible(resource) and not capped:
        raise QuantityError(f"{text!r} is not a whole number, and {resource} cannot be divided")
    result = -((-value.numerator) // value.denominator) if round_up else value.__floor__()
    if result > LARGEST and capped:
        return LARGEST
    if result > LARGEST:
        raise QuantityError(f"{text!r} is more than this can count (2^53)")
    return result


def is_divisible(resource: str) -> bool:
    """Whether quantities of a resource may have fractions, as Kubernetes has it."""
    return resource in ("cpu", "memory", "ephemeral-storage") or resource.startswith("hugepages-")
