"""Fields that no definition knows: mostly typing errors, which Kubernetes drops. The names of all
known fields are beside this file (`known_fields.json`, made from the published definitions). A
field of a kind that is read and is not among them is named, with the nearest one that is. Kinds
whose definition is not there are not checked.

Objects from an API server hold no such mistakes, because it drops or refuses them; an unknown field
there belongs to a version that is newer than this table. So such an object is only checked for
names that are almost right, and never as strictly as a manifest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from placement.kubernetes.schema.kinds import Kind

PATH: Final = Path(__file__).with_name("known_fields.json")

#: Number of the type that allows anything.
_ANYTHING: Final = -1
#: Stands for any key of a map.
_ANY_KEY: Final = "*"
#: Findings of one object at most; more of them mean another problem.
_MOST: Final = 20

_Type = Mapping[str, int]


class Unknown(NamedTuple):
    """A field that is not known; `nearest` is empty when no known name is like it."""

    path: str
    nearest: str


@lru_cache(maxsize=1)
def _table() -> tuple[Mapping[str, int], list[_Type]]:
    table = json.loads(PATH.read_text(encoding="utf-8"))
    return table["kinds"], table["types"]


def unknown_fields(kind: Kind, body: Mapping[str, Any]) -> list[Unknown]:
    """The fields of an object that its definition lacks, at most twenty."""
    kinds, types = _table()
    root = kinds.get(f"{kind.group}/{kind.name}")
    if root is None:
        return []
    found = []
    for path, name, known in _walk(body, root, "", types):
        found.append(Unknown(path, _nearest(name, known)))
        if len(found) == _MOST:
            break
    return found


def is_from_a_server(body: Mapping[str, Any]) -> bool:
    """Whether an API server wrote the object: only servers give out versions."""
    metadata = body.get("metadata")
    return (
        isinstance(metadata, dict)
        and bool(metadata.get("uid"))
        and bool(metadata.get("resourceVersion"))
    )


def _walk(
    value: Any, number: int, path: str, types: list[_Type]
) -> Iterator[tuple[str, str, _Type]]:
    """Path and name of each unknown field, with the type that lacks it."""
    if number == _ANYTHING:
        return
    if isinstance(value, list):
        for index, element in enumerate(value):
            if isinstance(element, (dict, list)):
                yield from _walk(element, number, f"{path}[{index}]", types)
    elif isinstance(value, dict):
        known = types[number]
        below = known.get(_ANY_KEY)
        for name, field in value.items():
            where = f"{path}.{name}" if path else str(name)
            if below is not None:
                yield from _walk(field, below, f"{path}[{name}]", types)
            elif (next_type := known.get(name)) is None:
                yield where, str(name), known
            elif isinstance(field, (dict, list)):
                yield from _walk(field, next_type, where, types)


def _nearest(name: str, known: _Type) -> str:
    # Difflib is quadratic in the length of both words.
    close = get_close_matches(name[:60], known, n=1, cutoff=0.75)
    if close:
        return close[0]
    lower = {k.lower(): k for k in known}
    return lower.get(name.lower(), "")
