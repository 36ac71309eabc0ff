"""What happened in a soak, counted, and told to people."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Figures:
    """Shared by threads; `lock` is for what is more than one step."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    requests: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    #: Questions that grow, by their shape: all that the server worked on, those of them that are
    #: larger than it takes, and those that had no plan when their time was over.
    shapes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    without_plan: Counter[str] = field(default_factory=Counter)
    disturbances: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    deaths: int = 0
    late: list[str] = field(default_factory=list)
    latest: float = 0.0
    slowest_health: float = 0.0
    seconds: float = 0.0
    memory_before: int = 0
    memory_after: int = 0

    def line(self) -> str:
        """The figures so far, in short."""
        return (
            f"{self.requests.total()} requests, {len(self.faults)} faults, {self.deaths} deaths,"
            f" {len(self.late)} late (at most {self.latest:+.2f} s past the limit)"
        )

    def lines(self) -> Iterator[str]:
        """The figures for people."""
        yield f"requests         {self.requests.total()} in {self.seconds:.0f} s"
        yield f"                 {_listed(self.requests)}"
        yield f"ended with       {_listed(self.codes)}"
        if self.shapes:
            yield f"shapes           {self.shapes.total()}: {_listed(self.shapes)}"
            yield f"too large        {self.refused.total()}: {_listed(self.refused)}"
            yield f"without a plan   {self.without_plan.total()}: {_listed(self.without_plan)}"
        if self.disturbances:
            yield f"disturbances     {_listed(self.disturbances)}"
        yield f"faults           {len(self.faults)}"
        yield f"deaths           {self.deaths}"
        yield f"late answers     {len(self.late)} (at most {self.latest:+.2f} s past the limit)"
        yield f"slowest health   {self.slowest_health:.2f} s"
        yield (
            f"memory           {self.memory_before / 2**20:.0f} MiB before,"
            f" {self.memory_after / 2**20:.0f} MiB after"
        )
        yield from (f"fault: {fault}" for fault in self.faults[:20])
        yield from (f"late: {late}" for late in self.late[:20])


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())
