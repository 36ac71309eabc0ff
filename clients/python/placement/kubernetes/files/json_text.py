"""JSON text to values, and the keys that are in one mapping twice, of which the last one counts.

To look for these makes parsing take twice as long. It is done where people may have written the
text; programs do not slip, and what a program prints of a large cluster is many times longer.
"""

from __future__ import annotations

import json
from typing import Any, Final

#: Longer texts, in characters, are not written by people.
_WRITTEN: Final = 4_000_000


def decoder(length: int, repeated: list[str]) -> json.JSONDecoder:
    """A decoder for a text of this length, which adds repeated keys to the list."""
    if length > _WRITTEN:
        return json.JSONDecoder()

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            left = [key for key, _ in pairs]
            for key in found:
                left.remove(key)
            repeated.extend(left)
        return found

    return json.JSONDecoder(object_pairs_hook=mapping)
