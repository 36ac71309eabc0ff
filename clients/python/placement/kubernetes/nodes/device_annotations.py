"""Which devices Koordinator gave to a pod or a reservation, as its annotation says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from placement.kubernetes.pods.needs import read_json
from placement.kubernetes.values.reading import At

ALLOCATED: Final = "scheduling.koordinator.sh/device-allocated"

_CORE: Final = "koordinator.sh/gpu-core"
_RATIO: Final = "koordinator.sh/gpu-memory-ratio"
_BOTH: Final = "koordinator.sh/gpu"


class Part(NamedTuple):
    """How much of a GPU is taken, in hundredths."""

    core: int
    memory: int


class Allocated(NamedTuple):
    """GPUs by minor, and the minors of network devices."""

    gpus: Mapping[int, Part]
    nics: frozenset[int]

    def __bool__(self) -> bool:
        return bool(self.gpus or self.nics)


_NOTHING: Final = Allocated({}, frozenset())


def read_allocated(annotations: At) -> Allocated:
    """The devices that the annotation names; none when it is absent."""
    at = read_json(annotations, ALLOCATED)
    if at.absent:
        return _NOTHING
    gpus: dict[int, Part] = {}
    for entry in at.get("gpu").items():
        resources = entry.get("resources").amounts()
        both = resources.get(_BOTH, 0)
        minor = entry.get("minor").integer(least=0, most=1023)
        before = gpus.get(minor, Part(0, 0))
        core = resources.get(_CORE, 0) + both
        memory = resources.get(_RATIO, 0) + both
        if not (core or memory):
            # It does not say how much: all of it, then.
            core = memory = 100
        gpus[minor] = Part(before.core + core, before.memory + memory)
    nics = frozenset(
        entry.get("minor").integer(least=0, most=1023) for entry in at.get("rdma").items()
    )
    return Allocated(gpus, nics)
