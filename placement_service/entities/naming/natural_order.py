"""The order in which people sort names: numbers inside count as numbers (``w-2``, ``w-10``)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from placement_service.entities.nodes import Ints

_NUMBER = re.compile(r"([0-9]+)")

#: More digits than this do not fit into 64 bits.
_DIGITS = 18

_ZERO = np.uint8(ord("0"))
_POWERS = 10 ** np.arange(_DIGITS, dtype=np.int64)

#: Up to so many names are sorted one by one.
_FEW = 100

#: So many forms of names are sorted in columns; names of more are sorted one by one.
_MOST_FORMS = 500


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key by which people sort names: numbers inside count as numbers."""
    return tuple(
        (0, int(part[:_DIGITS]), part) if part[:1].isdecimal() and part.isascii() else (1, 0, part)
        for part in _NUMBER.split(name)
        if part
    )


def natural_ranks(names: Sequence[str]) -> Ints:
    """The place of each name in the natural order [N]; equal names have different places."""
    if len(names) < 2:
        return np.zeros(len(names), dtype=np.int64)
    order = _order_by_columns(names) if len(names) > _FEW else None
    if order is None:
        keys = [natural_key(name) for name in names]
        order = np.array(sorted(range(len(names)), key=keys.__getitem__), dtype=np.int64)
    ranks = np.empty(len(names), dtype=np.int64)
    ranks[order] = np.arange(len(names))
    return ranks


def _order_by_columns(names: Sequence[str]) -> Ints | None:
    """The order of names that have few forms: a form is a name without its numbers.

    None where that does not pay, or would not be exact.
    """
    joined = "\n".join(names)
    text = np.frombuffer(joined.encode(errors="surrogatepass"), dtype=np.uint8)
    digit = text - _ZERO  # Wraps around below zero.
    is_digit = digit < 10
    begins = is_digit.copy()
    begins[1:] &= ~is_digit[:-1]
    # Of each number one digit, 0, is left.
    left = np.where(is_digit, _ZERO, text)[begins | ~is_digit].tobytes()
    forms = left.decode(errors="surrogatepass").split("\n")
    if len(forms) != len(names) or not joined:
        return None
    number_of: dict[str, int] = {}
    form = np.array([number_of.setdefault(f, len(number_of)) for f in forms], dtype=np.int64)
    starts = np.flatnonzero(begins)
    at = np.flatnonzero(is_digit)
    run = np.cumsum(begins)[at] - 1
    lengths = np.bincount(run, minlength=len(starts)).astype(np.int64)
    if len(number_of) > _MOST_FORMS or lengths.max(initial=0) > _DIGITS:
        return None
    values = np.zeros(len(starts), dtype=np.int64)
    if len(at):
        power = (starts + lengths)[run] - at - 1
        amounts = digit[at] * _POWERS[power]
        values = np.add.reduceat(amounts, np.searchsorted(at, starts))
    # Of equal numbers the one with more zeros in front comes first; 0 itself before 00.
    lengths[values > 0] *= -1
    parts = [[part for part in _NUMBER.split(f) if part] for f in number_of]
    texts = {t: i for i, t in enumerate(sorted({part for own in parts for part in own}))}
    numbers = np.array([own.count("0") for own in parts], dtype=np.int64)
    first = np.cumsum(numbers[form]) - numbers[form]
    # For each part of a name: absent, number or text; then which.
    columns: list[Ints] = []
    for p in range(max(map(len, parts))):
        kind = np.array(
            [-1 if p >= len(own) else int(own[p] != "0") for own in parts], dtype=np.int64
        )
        before = np.array([own[:p].count("0") for own in parts], dtype=np.int64)
        value = np.array([texts[own[p]] if p < len(own) else 0 for own in parts], dtype=np.int64)
        columns.append(kind[form])
        is_number = np.flatnonzero(kind[form] == 0)
        at = (first + before[form])[is_number]
        column, length = value[form], np.zeros(len(names), dtype=np.int64)
        column[is_number], length[is_number] = values[at], lengths[at]
        columns += [column, length]
    varied = [column for column in columns if (column != column[0]).any()]
    if not varied:
        return np.arange(len(names), dtype=np.int64)
    order: Ints = np.lexsort(varied[::-1])
    return order
