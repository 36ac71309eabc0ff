"""Kubernetes label selectors as text: ``rack=r7,tier!=test,gpu,!spare,zone in (a,b)``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

Labels = Mapping[str, str]
Selector = Callable[[Labels], bool]

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


def parse_selector(text: str) -> Selector:
    """Whether labels match all parts of the selector.

    As in Kubernetes, ``!=`` and ``notin`` also match labels that are absent. Raises
    ValueError.
    """
    parts: list[Selector] = []
    position = 0
    while position < len(text):
        found = _PART.match(text, position)
        if found is None or found.end() == position:
            raise ValueError(
                f"{text!r} is not a label selector such as rack=r7,tier!=test or zone in (a,b)"
            )
        parts.append(_part(found))
        position = found.end()
    if not parts or text.rstrip().endswith(","):
        raise ValueError(f"{text!r} is not a label selector")
    return lambda labels: all(part(labels) for part in parts)


def _part(found: re.Match[str]) -> Selector:
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
