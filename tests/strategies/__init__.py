"""Random questions for property tests, made of named parts.

`snapshots` draws whole snapshots from a `Size` and the `Feature`s that may occur
in them. `TINY` is small enough for the oracle in `brute`. Everything is legal
input, though often hopeless: hosts may be overfull, scopes may contradict each
other, bases may wait.
"""

from __future__ import annotations

from tests.strategies.changes import permuted, renamed
from tests.strategies.contested import contested_clusters
from tests.strategies.crossed import crossed, with_lacking_gangs
from tests.strategies.reservations import with_reservations
from tests.strategies.running import full_clusters
from tests.strategies.snapshots import snapshots, with_more_room
from tests.strategies.words import (
    AGES,
    EVERYTHING,
    GPU,
    NAMESPACE,
    NOW,
    PACKING_ONLY,
    SMALL,
    TINY,
    Feature,
    Size,
)

__all__ = [
    "AGES",
    "EVERYTHING",
    "GPU",
    "NAMESPACE",
    "NOW",
    "PACKING_ONLY",
    "SMALL",
    "TINY",
    "Feature",
    "Size",
    "contested_clusters",
    "crossed",
    "full_clusters",
    "permuted",
    "renamed",
    "snapshots",
    "with_lacking_gangs",
    "with_more_room",
    "with_reservations",
]
