"""Which pod templates are alike: by what they say, however often and wherever they were made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from placement_service.entities.request import PodTemplate


class Numbered(NamedTuple):
    """The different templates, and for each one that was given its number among them."""

    templates: tuple[PodTemplate, ...]
    numbers: list[int]


def numbered(templates: Iterable[PodTemplate]) -> Numbered:
    """Templates with equal ones under one number, in the order in which they first come."""
    number_of: dict[PodTemplate, int] = {}
    # To compare content takes time, and a thousand pod sets may share one object.
    seen: dict[int, int] = {}
    given = list(templates)
    numbers = []
    for template in given:
        number = seen.get(id(template))
        if number is None:
            number = number_of.setdefault(template, len(number_of))
            seen[id(template)] = number
        numbers.append(number)
    return Numbered(tuple(number_of), numbers)
