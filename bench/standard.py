"""The standard set, and what is expected of it on any machine.

Times depend on the machine and are only shown. Quality hardly depends on it, so it is checked: the
gap of the first tier within five seconds, with room for a machine half as fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.instances import Instance
from bench.measurement import Line


@dataclass(frozen=True, slots=True)
class Expected:
    """`gap` is the largest acceptable relative gap of the first tier, 0 for a proof of it."""

    instance: Instance
    gap: float


STANDARD = (
    Expected(Instance("mix", {"load": 0.5}), 0.0),
    Expected(Instance("mix", {"load": 0.95}), 0.0),
    Expected(Instance("mix", {"load": 1.05}), 0.0),
    Expected(Instance("mix", {"load": 1.05}, 2), 0.0),
    Expected(Instance("mix", {"load": 1.3}), 0.0),
    Expected(Instance("mix", {"load": 1.3}, 2), 0.0),
    Expected(Instance("mix", {"load": 2.0}), 0.002),
    Expected(Instance("mix", {"load": 2.0}, 2), 0.002),
    Expected(Instance("mix", {"load": 1.3, "domains": 1}), 0.0),
    Expected(Instance("mix", {"load": 1.3, "queues": 8}), 0.0),
    Expected(Instance("mix", {"load": 1.3, "avoid": 5}), 0.0),
    Expected(Instance("mix", {"load": 1.3, "scaled": 0.5, "extras": 0.5, "priorities": 3}), 0.0),
    Expected(Instance("sets"), 0.0),
    Expected(Instance("pools"), 0.01),
    Expected(Instance("pools", {"scattered": 1}), 0.01),
    Expected(Instance("cpu_shapes", {"load": 1.0}), 0.0),
    Expected(Instance("cpu_shapes", {"load": 1.5}), 0.02),
    Expected(Instance("rack_parts"), 0.01),
    Expected(Instance("shared"), 0.0),
    Expected(Instance("nvl72", {"sizes": "9", "gangs": 65}), 0.0),
    Expected(Instance("nvl72", {"sizes": "10", "gangs": 33}), 0.0),
    Expected(Instance("nvl72", {"gangs": 128, "filled": 0.5}), 0.0),
    Expected(Instance("grove_scale"), 0.0),
    Expected(Instance("wide"), 0.0),
    Expected(Instance("openb"), 0.0),
    Expected(Instance("openb", {"spread": 1}), 0.0),
    Expected(Instance("openb", {"gangs": 256}), 0.0),
    Expected(Instance("openb", {"gangs": 512}), 0.0),
    Expected(Instance("spot"), 0.0),
    Expected(Instance("huge", {"load": 1.1}), 0.01),
    Expected(Instance("preempt", {"gangs": 1}), 0.0),
    Expected(Instance("boards"), 0.0),
    Expected(Instance("boards", {"nics": 2}), 0.0),
)


def complaints(expected: Expected, line: Line) -> Iterator[str]:
    """How a line falls short of what is expected."""
    yield from (f"{line}: {fault}" for fault in line.faults)
    gap = line.final.tiers["admitted"].gap
    if gap is None or gap > expected.gap + 1e-9:
        found = "unknown" if gap is None else f"{100 * gap:.3f} %"
        yield f"{line}: the gap is {found}, expected at most {100 * expected.gap:g} %"
