"""Kubernetes label selectors as text: ``rack=r7,tier!=test,gpu,!spare,zone in (a,b)``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

Labels = Mapping[str, str]

_Part = Callable[[Labels], bool]

_PART: Final = re.compile(
    r"""\s*(?:
      (?P<absent>!)\s*(?P<absent_key>[^\s=!,()]+)
    | (?P<key>[^\s=!,()]+)\s*
      (?: (?P<compare>==|=|!=)\s*(?P<value>[^\s=!,()]*)
        | (?P<set>in|notin)\s*\((?P<values>[^()]*)\)
      )?
    )\s*(?:,|$)""",
    re.VERBOSE,
)


class Wanted(NamedTuple):
    """A label that a selector wants: one of these values, any where there are none."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Selector:
    """Whether labels match all parts of a selector, when it is called with them."""

    text: str
    wanted: tuple[Wanted, ...]
    _parts: tuple[_Part, ...]

    def __call__(self, labels: Labels) -> bool:
        return all(part(labels) for part in self._parts)


def parse_selector(text: str) -> Selector:
    """The selector.

    As in Kubernetes, ``!=`` and ``notin`` also match labels that are absent. Raises
    ValueError.
    """
    parts: list[_Part] = []
    wanted: list[Wanted] = []
    position = 0
    while position < len(text):
        found = _PART.match(text, position)
        if found is None or found.end() == position:
            raise ValueError(
                f"{text!r} is not a label selector such as rack=r7,tier!=test or zone in (a,b)"
            )
        parts.append(_part(found))
        wanted += _wanted(found)
        position = found.end()
    if not parts or text.rstrip().endswith(","):
        raise ValueError(f"{text!r} is not a label selector")
    return Selector(text.strip(), tuple(wanted), tuple(parts))


def _wanted(found: re.Match[str]) -> Iterator[Wanted]:
    """What labels must have for a part to match."""
    if found["absent"] or found["compare"] == "!=" or found["set"] == "notin":
        return
    values = [found["value"]] if found["compare"] else (found["values"] or "").split(",")
    yield Wanted(found["key"], tuple(value.strip() for value in values if value.strip()))


def _part(found: re.Match[str]) -> _Part:
    if found["absent"]:
        absent = found["absent_key"]
        return lambda labels: absent not in labels
    key = found["key"]
    if found["compare"]:
        value, equal = found["value"], found["compare"] != "!="
        return lambda labels: (labels.get(key) == value) is equal
    if found["set"]:
        values = {value.strip() for value in found["values"].split(",")}
        inside = found["set"] == "in"
        return lambda labels: (labels.get(key) in values) is inside
    return lambda labels: key in labels
