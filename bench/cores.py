"""The same questions to servers that may use more or fewer processors.

A server and the processes that it starts run on the first processors of those that this process
may use; everything else is the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rich.table import Table

from bench.instances import Instance
from bench.measurement import Line
from bench.server import running

#: The goals of which the table shows value and bound.
_TIERS = ("admitted", "waiting", "topology")


class NotSoMany(ValueError):
    """More processors were asked for than this process may use."""


class Row(NamedTuple):
    """What a server on so many processors answered."""

    cores: int
    line: Line


def measure(
    instances: Iterable[Instance], counts: Iterable[int], *, time_limit: float
) -> Iterator[Row]:
    """Each instance with each number of processors, one after another; raises NotSoMany."""
    mine = sorted(os.sched_getaffinity(0))
    chosen = list(instances)
    for cores in counts:
        if not 0 < cores <= len(mine):
            raise NotSoMany(f"{cores} processors were asked for; there are {len(mine)}")
        with running(processors=mine[:cores]) as server:
            for instance in chosen:
                yield Row(cores, server.line(instance, time_limit=time_limit))


def table(rows: Iterable[Row]) -> Table:
    """One row for each instance and number of processors, those of an instance together."""
    result = Table(box=None, header_style="bold", pad_edge=False)
    result.add_column("instance", no_wrap=True)
    for name in ("cores", "first s", "proof s", "total s", "placed", *_TIERS):
        result.add_column(name, justify="right", no_wrap=True)
    result.add_column("end")
    result.add_column("", overflow="fold")
    for cores, line in sorted(rows, key=lambda row: (str(row.line), row.cores)):
        proof = "–" if line.proof is None else f"{line.proof:.2f}"
        tiers = line.final.tiers
        said = (f"{tiers[name].value:,.10g} of {_bound(tiers[name].bound)}" for name in _TIERS)
        times = (f"{line.first:.2f}", proof, f"{line.total:.2f}")
        result.add_row(
            str(line),
            f"{cores}",
            *times,
            f"{line.final.placed}",
            *said,
            line.end,
            "; ".join(line.faults),
        )
    return result


def _bound(bound: float | None) -> str:
    return "–" if bound is None else f"{bound:,.10g}"
