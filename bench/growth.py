"""How time and memory grow with the cluster, as a plot.

The standard mix at loads of 1.1, one gang for each 26 nodes, from 500 to 100,000 nodes. Each
size is asked once over gRPC, of a server of its own, and its stages are timed in CPU time in
this process.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from pydantic import TypeAdapter

from bench.instances import Instance
from bench.server import running
from bench.stages import stages

#: Nodes of the sizes that are measured by default.
SIZES = (500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000)

#: What a rack of the mix has, and a block besides its racks.
_RACK, _BESIDE = 18, 8

_NODES_A_GANG = 26
_LOAD = 1.1

#: Racks of the mix's blocks where there are several.
_RACKS = 20


@dataclass(frozen=True, slots=True)
class Size:
    """What one size took: seconds and GPUs over gRPC, memory in MiB, CPU milliseconds by stage."""

    nodes: int
    gangs: int
    pods: int
    request_mib: float
    first: float
    total: float
    end: str
    gap: float | None
    memory: dict[str, float]
    stages: dict[str, float]


def instance(nodes: int) -> Instance:
    """The mix of at most so many nodes, as near as whole racks come."""
    blocks = max(1, nodes // (_RACKS * _RACK + _BESIDE))
    racks = _RACKS if blocks > 1 else max(1, (nodes - _BESIDE) // _RACK)
    gangs = max(1, nodes // _NODES_A_GANG)
    return Instance("mix", {"load": _LOAD, "gangs": gangs, "blocks": blocks, "racks": racks})


def measure(nodes: int, *, time_limit: float) -> Size:
    """One size; raises NoAnswer when the server gives none."""
    one = instance(nodes)
    by_stage = {name: round(taken, 1) for name, taken in stages(one, runs=1)}
    with running() as server:
        line = server.line(one, time_limit=time_limit)
    return Size(
        nodes=line.nodes,
        gangs=line.gangs,
        pods=line.pods,
        request_mib=line.request_mib,
        first=line.first,
        total=line.total,
        end=line.end,
        gap=line.gap,
        memory=line.memory,
        stages=by_stage,
    )


_SIZE = TypeAdapter(Size)


def write(sizes: Iterable[Size], file: Path) -> None:
    """One JSON line for each size."""
    file.write_text("".join(json.dumps(asdict(size)) + "\n" for size in sizes))


def read(file: Path) -> list[Size]:
    """The inverse of `write`; raises pydantic.ValidationError for what is none."""
    return [_SIZE.validate_json(line) for line in file.read_text().splitlines() if line.strip()]


# --- the plot ---------------------------------------------------------------------------


class _Curve(NamedTuple):
    name: str
    points: list[tuple[float, float]]


_WIDTH, _HEIGHT = 460, 320
_LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT = 64, 40, 260, 220
_COLOURS = ("#1b6ca8", "#c0392b", "#2e8b57", "#8e5ea2", "#d68910", "#555555", "#17a2a2")


def draw(sizes: Sequence[Size]) -> str:
    """Time and memory by nodes as SVG, both on logarithmic scales."""
    ordered = sorted(sizes, key=lambda size: size.nodes)
    names = [name for name in ordered[0].stages if name != "together"]
    seconds = [
        _Curve("first answer, gRPC", _known((s.nodes, s.first) for s in ordered)),
        *(
            _Curve(f"{name}, CPU", [(s.nodes, s.stages[name] / 1000) for s in ordered])
            for name in _largest(names, ordered[-1])
        ),
    ]
    memory = [
        _Curve(name, _known((s.nodes, s.memory.get(name, 0.0)) for s in ordered))
        for name in ordered[0].memory
    ]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * _WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {2 * _WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{2 * _WIDTH}" height="{_HEIGHT}" fill="white"/>',
        *_panel(0, "Seconds by nodes", seconds),
        *_panel(_WIDTH, "Peak memory (MiB) by nodes", memory),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _known(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points that were reached: there is no first answer within the limit, say, and no solver."""
    return [point for point in points if point[1] > 0]


def _largest(names: Iterable[str], last: Size) -> list[str]:
    """The stages that take most at the largest size."""
    return sorted(names, key=lambda name: -last.stages[name])[: len(_COLOURS) - 1]


def _panel(left: float, title: str, curves: Sequence[_Curve]) -> Iterator[str]:
    # Names stand in the order in which the lines end.
    curves = sorted((c for c in curves if c.points), key=lambda curve: -curve.points[-1][1])
    points = [point for curve in curves for point in curve.points]
    across = _Scale.around([x for x, _ in points], left + _LEFT, _PLOT_WIDTH)
    up = _Scale.around([y for _, y in points], _TOP + _PLOT_HEIGHT, -_PLOT_HEIGHT)
    yield f'<text x="{left + _LEFT}" y="24" font-size="14">{escape(title)}</text>'
    for decade in across.decades():
        x = across.at(decade)
        yield (
            f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_TOP + _PLOT_HEIGHT}" '
            'stroke="#ddd"/>'
            f'<text x="{x:.1f}" y="{_TOP + _PLOT_HEIGHT + 16}" text-anchor="middle">'
            f"{decade:,.10g}</text>"
        )
    for decade in up.decades():
        y = up.at(decade)
        yield (
            f'<line x1="{left + _LEFT}" y1="{y:.1f}" x2="{left + _LEFT + _PLOT_WIDTH}" '
            f'y2="{y:.1f}" stroke="#ddd"/>'
            f'<text x="{left + _LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{decade:,.10g}</text>"
        )
    for k, (name, points) in enumerate(curves):
        colour = _COLOURS[k % len(_COLOURS)]
        where = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in points)
        legend = _TOP + 14 + 18 * k
        right = left + _LEFT + _PLOT_WIDTH + 8
        yield f'<polyline points="{where}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
        for x, y in points:
            yield f'<circle cx="{across.at(x):.1f}" cy="{up.at(y):.1f}" r="2.4" fill="{colour}"/>'
        yield f'<text x="{right}" y="{legend}" fill="{colour}">{escape(name)}</text>'


class _Scale(NamedTuple):
    """Logarithms from `low` to `high`, drawn from `begin` over `length`."""

    low: float
    high: float
    begin: float
    length: float

    @staticmethod
    def around(values: Iterable[float], begin: float, length: float) -> _Scale:
        """Whole decades around values; what is not above zero counts as the smallest."""
        logs = [math.log10(max(value, 1e-3)) for value in values]
        low, high = math.floor(min(logs)), math.ceil(max(logs))
        return _Scale(low, max(high, low + 1), begin, length)

    def at(self, value: float) -> float:
        share = (math.log10(max(value, 1e-3)) - self.low) / (self.high - self.low)
        return self.begin + share * self.length

    def decades(self) -> list[float]:
        return [10.0**k for k in range(int(self.low), int(self.high) + 1)]
