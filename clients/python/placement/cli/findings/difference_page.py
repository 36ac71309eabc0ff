"""Two answers as one picture: what each tier reaches, and the pods of each node before and after.

One self-contained page. Nothing is loaded from elsewhere and no script runs; names from the
answers are escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from placement.cli.colours import INK, colour
from placement.cli.findings.differences import unproven
from placement.cli.words import count, number, printable
from placement.planning.diff import Difference, Seats, TierChange

#: More nodes are counted in a line instead of drawn.
MOST_NODES = 400
#: More pods of one node, too.
_MOST_PODS = 24

_ROW, _CELL, _NAME, _SIDE = 22, 18, 220, 16 + _MOST_PODS * 18

_STYLE = """
:root { color-scheme: light dark; }
body { margin: 2rem auto; max-width: 78rem; padding: 0 1rem;
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
svg { font: 12px ui-monospace, monospace; max-width: 100%; } text { fill: currentColor; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .2rem .9rem .2rem 0; }
.won { color: #1a7f37; } .lost { color: #b3261e; } .key { display: inline-block; width: 18px;
  height: 18px; border-radius: 3px; margin-right: .5rem; vertical-align: text-bottom; }
"""


def page(found: Difference, seats: Seats, *, before: str, after: str) -> str:
    """The page; `before` and `after` name the answers."""
    gangs = [*found.won, *found.lost, *(moved.gang for moved in found.moved)]
    colours = {gang: colour(i) for i, gang in enumerate(sorted(set(gangs)))}
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta http-equiv=Content-Security-Policy"
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{_text(before)} and {_text(after)}</title><style>{_STYLE}</style>",
        f"<h1>From {_text(before)} to {_text(after)}</h1>",
    ]
    if found.empty:
        return "".join([*parts, "<p>Both answers say the same.</p></html>\n"])
    parts += ["<h2>Gangs</h2>", *_gangs(found, colours)]
    changed = [tier for tier in found.tiers if tier.before != tier.after]
    if changed:
        parts += ["<h2>Objective</h2>", _tiers(changed)]
    freed = [
        TierChange(f"free: {one.what.rpartition('/')[2]}", one.before, one.after)
        for one in found.room
        if one.before != one.after
    ]
    if freed:
        parts += ["<h2>Free afterwards</h2>", _tiers(freed)]
    parts += [f"<p>Not proven: {_text(unproven(one))}." for one in found.unproven]
    if colours:
        parts += ["<h2>Nodes, before and after</h2>", *_nodes(seats, colours)]
    return "".join([*parts, "</html>\n"])


def _gangs(found: Difference, colours: Mapping[str, str]) -> list[str]:
    rows = [(gang, "won", "placed only after") for gang in found.won]
    rows += [(gang, "lost", "placed only before") for gang in found.lost]
    rows += [(moved.gang, "moved", f"{count(moved.pods, 'pod')} moved") for moved in found.moved]
    rows += [(gang, "", "other devices or reservations") for gang in found.reseated]
    rows += [(gang, "", "only in the second answer") for gang in found.added]
    rows += [(gang, "", "only in the first answer") for gang in found.removed]
    rows += [(pod, "lost", "evicted only after") for pod in found.evicted]
    rows += [(pod, "won", "evicted only before") for pod in found.spared]
    lines = []
    for name, kind, told in rows:
        key = f'<i class=key style="background:{colours[name]}"></i>' if name in colours else ""
        lines.append(f"<tr><td>{key}{_text(name)}<td class={kind or 'other'}>{told}")
    return ["<table>", *lines, "</table>"]


def _tiers(tiers: Sequence[TierChange]) -> str:
    """Two bars for each tier that changed, in proportion to the larger one."""
    lines = []
    for row, tier in enumerate(tiers):
        values = (tier.before, tier.after)
        most = max((abs(v) for v in values if v is not None), default=0) or 1
        lines.append(_words(0, row * 3 * _ROW + 28, tier.tier))
        for at, (value, tone) in enumerate(zip(values, ("#9aa4ae", "#3b6fd4"), strict=True)):
            y = row * 3 * _ROW + at * _ROW + 8
            width = 0 if value is None else round(abs(value) / most * 400)
            lines.append(f'<rect x="{_NAME}" y="{y}" width="{width}" height="16" fill="{tone}"/>')
            told = "–" if value is None else number(value)
            lines.append(_words(_NAME + width + 8, y + 13, told))
    return _svg(_NAME + 560, 3 * _ROW * len(tiers), lines)


def _nodes(seats: Seats, colours: Mapping[str, str]) -> list[str]:
    nodes = sorted(
        node
        for node in seats.before.keys() | seats.after.keys()
        if seats.before.get(node) != seats.after.get(node)
    )
    lines = [_words(_NAME, 14, "before"), _words(_NAME + _SIDE, 14, "after")]
    for row, node in enumerate(nodes[:MOST_NODES], start=1):
        lines.append(_words(0, row * _ROW + 14, node))
        for side, there in enumerate((seats.before, seats.after)):
            x = _NAME + side * _SIDE
            pods = there.get(node, ())
            for at, (gang, pod) in enumerate(pods[:_MOST_PODS]):
                tone = colours.get(gang, "#9aa4ae")
                lines.append(
                    f'<rect x="{x + at * _CELL}" y="{row * _ROW}" width="{_CELL - 2}"'
                    f' height="{_CELL - 2}" rx="3" fill="{tone}" stroke="{INK}"'
                    f' stroke-opacity=".2"><title>{_text(gang)}: {_text(pod)}</title></rect>'
                )
            if len(pods) > _MOST_PODS:
                lines.append(_words(x + _MOST_PODS * _CELL, row * _ROW + 14, "…"))
    told = [_svg(_NAME + 2 * _SIDE, (min(len(nodes), MOST_NODES) + 1) * _ROW, lines)]
    if len(nodes) > MOST_NODES:
        told.append(f"<p>and {count(len(nodes) - MOST_NODES, 'further node')}</p>")
    return told


def _svg(width: int, height: int, lines: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {width} {height}" width="{width}">{"".join(lines)}</svg>'


def _words(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}">{_text(text)}</text>'


def _text(text: str) -> str:
    return escape(printable(text))
