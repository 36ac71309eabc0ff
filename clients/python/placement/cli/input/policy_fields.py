"""What a field of a policy file may hold, and what is wrong with what it does hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from placement.kubernetes.values.reading import not_a

#: The longest time that the API's durations hold.
_LONGEST: Final = 315_576_000_000

_SECONDS: Final = re.compile(r"\d+(\.\d{1,9})?s")


def mistakes(field: Any, value: Any) -> dict[str, str]:
    """Everything wrong with the value of a field, by the place inside it."""
    if field.enum_type is not None:
        return dict(_choice(field, value))
    if field.json_name == "tolerances":
        return dict(_shares(value))
    if field.json_name == "gpuResources":
        return dict(_names(value))
    if field.json_name == "starvationAfter":
        return dict(_duration(value))
    if not isinstance(value, bool):
        return {"": not_a("true or false", value)}
    return {}


def prefix_of(field: Any) -> str:
    """What all values of a choice begin with, ``EVICTION_POLICY_``."""
    return str(field.enum_type.values[0].name).removesuffix("UNSPECIFIED")


def _choice(field: Any, value: Any) -> Iterator[tuple[str, str]]:
    prefix = prefix_of(field)
    allowed = [one.name.removeprefix(prefix) for one in field.enum_type.values[1:]]
    if not (isinstance(value, str) and value.removeprefix(prefix) in (*allowed, "UNSPECIFIED")):
        yield "", not_a(f"one of {', '.join(allowed)}", value)


def _names(value: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(value, list):
        yield "", not_a("a list of resources such as [nvidia.com/gpu]", value)
        return
    for index, name in enumerate(value):
        if not (isinstance(name, str) and name):
            yield f"[{index}]", not_a("the name of a resource", name)


def _duration(value: Any) -> Iterator[tuple[str, str]]:
    if not (isinstance(value, str) and _SECONDS.fullmatch(value)):
        yield "", not_a("seconds such as 3600s", value)
    elif float(value[:-1]) > _LONGEST:
        yield "", not_a(f"at most {_LONGEST}s", value)


def _shares(value: Any) -> Iterator[tuple[str, str]]:
    from placement.cli.plan.table import MEANINGS

    if not isinstance(value, dict):
        yield "", not_a("shares by tier such as {admitted: 0.01}", value)
        return
    for tier, share in value.items():
        if tier not in MEANINGS:
            yield f"[{tier}]", f"is no tier; the tiers are {', '.join(MEANINGS)}"
        # Written so that it also refuses what is not a number.
        if isinstance(share, bool) or not 0 <= _number(share) <= 1:
            yield f"[{tier}]", not_a("a number from 0 to 1", share)


def _number(value: Any) -> float:
    """The number, also as YAML reads 1e-2: as text. Minus one where it is none."""
    try:
        return float(value) if isinstance(value, int | float | str) else -1
    except (ValueError, OverflowError):
        return -1
