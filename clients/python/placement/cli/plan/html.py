"""The answer as one self-contained page: drawing, gangs, reasons, bounds.

Nothing is loaded from elsewhere and no script runs; names from the cluster are
escaped, and a content policy forbids the rest. Light or dark as the reader prefers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

from placement import __version__
from placement.cli.colours import INK, colour
from placement.cli.plan.picture import (
    Domain,
    Picture,
    Spot,
    compose,
    contents,
    folded,
    rooms,
    title,
)
from placement.cli.plan.summary import GangSummary, Seat, Summary, summarize
from placement.cli.plan.table import MEANINGS, conclusion, score, times, waited, where
from placement.cli.words import count, is_proven, number, printable, tier_verdict
from placement.v1 import ComputePlacementRequest, Placement

#: With more nodes, domains that no gang uses are told in a line instead of drawn.
MOST_NODES = 4000

_STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1b1f24; --faint: #6a737d;
  --line: #d5dae0; --box: #f6f8fa; --free: #e3e7eb; --used: #9aa4ae; --shut: #e5b8b8;
  --good: #1a7f37; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --page: #101418; --ink: #e6edf3; --faint: #8d96a0;
  --line: #30363d; --box: #161b22; --free: #2b3138; --used: #626c77; --shut: #5c3030;
  --good: #57c96b; --bad: #ff8a80; } }
body { margin: 2rem auto; max-width: 78rem; padding: 0 1rem; background: var(--page);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
.lead { margin: .3rem 0 1.4rem; } .faint, .meaning { color: var(--faint); }
.row { display: flex; flex-wrap: wrap; gap: .8rem; align-items: flex-start; }
.box { border: 1px solid var(--line); border-radius: 8px; background: var(--box);
  padding: .5rem .8rem .7rem; display: grid; grid-template-columns: auto 1fr; gap: 2px .6rem; }
.box > header { grid-column: 1 / -1; display: flex; justify-content: space-between; gap: 2rem;
  margin-bottom: .3rem; }
.box > .box, .box > p, .alone { grid-column: 1 / -1; margin: .3rem 0 0; }
.label { font: 12px/20px ui-monospace, monospace; max-width: 14rem; overflow: hidden;
  text-overflow: ellipsis; white-space: nowrap; }
.cells { display: flex; flex-wrap: wrap; gap: 2px; }
.cells i { display: flex; height: 20px; border-radius: 3px; overflow: hidden; }
.cells s { overflow: hidden; text-decoration: none; }
.cells s, .key { text-align: center; font: bold 12px/20px ui-monospace, monospace; }
.cells .beside { border-radius: 10px; width: 14px; margin-left: -1px; }
.free { background: var(--free); } .used { background: var(--used); }
.shut { background: var(--shut); }
.key { display: inline-block; width: 20px; height: 20px; border-radius: 3px; margin-right: .4rem;
  vertical-align: top; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; margin: .8rem 0; padding: 0; }
.legend li { list-style: none; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .25rem .9rem .25rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--faint); } .n { text-align: right; }
.gang { white-space: nowrap; } .where { min-width: 18rem; }
.placed, .running, .proven { color: var(--good); } .waiting { color: var(--bad); }
.warnings { border: 1px solid var(--bad); border-radius: 8px; padding: .5rem 1rem; }
.warnings ul { margin: .3rem 0; padding-left: 1.2rem; }
ul.why { margin: .2rem 0 1rem; padding-left: 1.2rem; }
@media print { body { margin: 0; max-width: none; } .scroll { overflow: visible; }
  .gang, .label { white-space: normal; overflow-wrap: anywhere; } .where { min-width: 0; }
  .cells s, .key, .cells i { print-color-adjust: exact; } tr, .box { break-inside: avoid; } }
"""

#: Pixels of a GPU in its node, and of a letter.
GPU_WIDTH = 5
LETTER_WIDTH = 9

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(
    request: ComputePlacementRequest,
    placement: Placement,
    *,
    origin: str = "",
    made: datetime | None = None,
    warnings: Iterable[object] = (),
) -> str:
    """The whole document. `origin` says where the question comes from: a cluster or files."""
    summary = summarize(request, placement)
    picture = compose(request, summary)
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Placement plan</title><style>{_STYLE}{_gang_colours(summary)}</style>",
            "</head><body>",
            "<h1>Placement plan</h1>",
            f'<p class="lead">{escape(conclusion(summary, placement))}</p>',
            *_about(placement, origin, made),
            *_warnings(warnings),
            *_drawing(picture, summary),
            *_legend(summary),
            *_gangs(summary),
            *_reasons(summary),
            *_tiers(placement),
            f'<p class="faint">{escape(times(placement))}</p>',
            "</body></html>",
            "",
        ]
    )


def _gang_colours(summary: Summary) -> str:
    marked = sum(bool(gang.mark) for gang in summary.gangs)
    return "".join(f".g{i} {{ background: {colour(i)}; color: {INK}; }}\n" for i in range(marked))


def _about(placement: Placement, origin: str, made: datetime | None) -> list[str]:
    """Where it comes from, when it was made, and by which version."""
    facts = [
        f"from {origin}" if origin else "",
        f"{made:%Y-%m-%d %H:%M %Z}".strip() if made else "",
        f"placementctl {__version__}",
        placement.request_digest,
    ]
    return [f'<p class="faint">{escape(" · ".join(fact for fact in facts if fact))}</p>']


def _warnings(warnings: Iterable[object]) -> list[str]:
    items = "".join(f"<li>{escape(printable(str(warning)))}</li>" for warning in warnings)
    if not items:
        return []
    return [f'<div class="warnings"><b>Warnings about the input</b><ul>{items}</ul></div>']


def _drawing(picture: Picture, summary: Summary) -> list[str]:
    fold = len(picture.root.spots) > MOST_NODES
    root, names = picture.root, picture.level_names
    lines = ['<section><div class="row">']
    if len(names) < 2:
        lines += _box(rooms(picture), root, names, summary, fold=fold)
    else:
        for domain in root.inner:
            if domain.touched or not fold:
                lines += _box(title(domain, names[0]), domain, names[1:], summary, fold=fold)
    lines.append("</div>")
    if fold and len(names) > 1:
        lines += _folded(root, names[0])
    return [*lines, "</section>"]


def _box(
    heading: str, domain: Domain, names: Sequence[str], summary: Summary, *, fold: bool
) -> list[str]:
    """A domain with what is in it; `names` are the levels below it."""
    lines = [
        f'<div class="box"><header><b>{escape(heading)}</b>'
        f'<span class="faint">{escape(contents(domain.spots))}</span></header>'
    ]
    if not domain.inner:
        lines += _leaf("", domain, summary)
    for inner in domain.inner:
        if fold and not inner.touched:
            continue
        name = title(inner, names[0])
        if inner.inner:
            lines += _box(name, inner, names[1:], summary, fold=fold)
        else:
            lines += _leaf(name, inner, summary)
    if fold and domain.inner:
        lines += _folded(domain, names[0])
    return [*lines, "</div>"]


def _folded(domain: Domain, level: str) -> list[str]:
    untouched = [d for d in domain.inner if not d.touched]
    return [f'<p class="faint">+ {escape(line)}</p>' for line in folded(untouched, level)]


def _leaf(name: str, domain: Domain, summary: Summary) -> list[str]:
    cells = "".join(_cell(spot, summary) for spot in domain.spots)
    if not name:
        return [f'<div class="cells alone">{cells}</div>']
    label = f'<span class="label" title="{escape(domain.value)}">{escape(name)}</span>'
    return [f'{label}<div class="cells">{cells}</div>']


def _cell(spot: Spot, summary: Summary) -> str:
    """A node: its width shows its GPUs, its stripes which gangs have them."""
    free = "shut" if spot.closed else "free"
    width = max(18, GPU_WIDTH * spot.gpus)
    if spot.gpus:
        holders = [s for s in spot.seats if s.gpus]
        beside = [s for s in spot.seats if not s.gpus]
        stripes = [("used", "", spot.before), *_stripes(holders, summary), (free, "", spot.free)]
    else:
        beside = []
        stripes = _stripes(spot.seats, summary, by_pods=True)
        if not stripes:
            stripes = [("used" if spot.full and spot.busy else free, "", 1)]
    stripes = [stripe for stripe in stripes if stripe[2]]
    total = sum(amount for _, _, amount in stripes)
    inside = "".join(
        f'<s class="{style}" style="flex:{amount}">'
        f"{letter if width * amount >= LETTER_WIDTH * total else ''}</s>"
        for style, letter, amount in stripes
    )
    tooltip = escape(_tooltip(spot, summary))
    extra = "".join(
        f'<i class="beside" title="{tooltip}"><s class="{style}" style="flex:1">{letter}</s></i>'
        for style, letter, _ in _stripes(beside, summary, by_pods=True)
    )
    return f'<i style="width:{width}px" title="{tooltip}">{inside}</i>{extra}'


def _stripes(
    seats: Sequence[Seat], summary: Summary, *, by_pods: bool = False
) -> list[tuple[str, str, int]]:
    """Class, letter and size of each gang's part of a node."""
    gangs = summary.gangs
    return [
        (
            f"g{gangs[s.gang].number}",
            escape(gangs[s.gang].mark),
            s.new + s.before if by_pods else s.gpus,
        )
        for s in seats
    ]


def _tooltip(spot: Spot, summary: Summary) -> str:
    parts = [spot.name]
    for seat in spot.seats:
        pods = " and ".join(
            f"{amount} {kind}"
            for amount, kind in ((seat.before, "running"), (seat.new, "new"))
            if amount
        )
        gpus = f", {count(seat.gpus, 'GPU')}" if seat.gpus else ""
        parts.append(f"{summary.title(summary.gangs[seat.gang])}: {pods}{gpus}")
    if spot.gpus:
        parts.append(f"{spot.free} of {count(spot.gpus, 'GPU')} free")
    if spot.closed:
        parts.append("takes no new pods")
    return "\n".join(parts)


def _legend(summary: Summary) -> list[str]:
    gangs = [
        f"<li>{_key(gang)}{escape(summary.title(gang))}</li>" for gang in summary.gangs if gang.mark
    ]
    signs = [("free", "free"), ("used", "in use before"), ("shut", "takes no new pods")]
    keys = [
        f'<li class="faint"><span class="key {name}"></span>{words}</li>' for name, words in signs
    ]
    scale = '<li class="faint">each cell a node, its parts GPUs</li>'
    return ['<ul class="legend">', *gangs, *keys, scale, "</ul>"]


def _key(gang: GangSummary) -> str:
    if not gang.mark:
        return ""
    return f'<span class="key g{gang.number}">{escape(gang.mark)}</span>'


def _gangs(summary: Summary) -> list[str]:
    waits = [f'<td class="n">{waited(g)}</td>' for g in summary.gangs]
    heading = '<th class="n">waited</th>'
    if not summary.tells_waiting:
        waits, heading = [""] * len(waits), ""
    rows = [
        f'<tr><td>{_key(g)}</td><td class="gang">{escape(summary.title(g))}</td>'
        f'<td class="{g.state.value}">{g.state.value}</td><td class="n">{g.new}</td>'
        f'<td class="n">{g.running}/{g.asked}</td><td class="n">{g.minimum}</td>'
        f'<td class="n">{score(g)}</td>{since}'
        f'<td class="where">{escape(where(g, summary))}</td></tr>'
        for g, since in zip(summary.gangs, waits, strict=True)
    ]
    return [
        '<h2>Gangs</h2><div class="scroll"><table><thead><tr><th></th><th>gang</th><th>state</th>'
        '<th class="n">new</th><th class="n">pods</th><th class="n">min</th>'
        f'<th class="n">score</th>{heading}<th>where, or why not</th></tr></thead><tbody>',
        *rows,
        "</tbody></table></div>",
    ]


def _reasons(summary: Summary) -> list[str]:
    lines = []
    for gang in summary.gangs:
        if gang.reasons:
            items = "".join(f"<li>{escape(reason)}</li>" for reason in gang.reasons)
            lines.append(f'<b>{escape(summary.title(gang))}</b><ul class="why">{items}</ul>')
    return ["<h2>Why pods wait</h2>", *lines] if lines else []


def _tiers(placement: Placement) -> list[str]:
    if not placement.tiers:
        return []
    rows = []
    for tier in placement.tiers:
        bound = number(tier.bound) if tier.HasField("bound") else "–"
        style = ' class="proven"' if is_proven(tier) else ""
        rows.append(
            f'<tr><td>{escape(tier.name)}</td><td class="n">{number(tier.value)}</td>'
            f'<td class="n">{bound}</td><td{style}>{escape(tier_verdict(tier))}</td>'
            f'<td class="meaning">{escape(MEANINGS.get(tier.name, ""))}</td></tr>'
        )
    return [
        '<h2>How good it is</h2><div class="scroll"><table><thead><tr><th>objective</th>'
        '<th class="n">value</th><th class="n">bound</th><th>which is</th><th>and means</th>'
        "</tr></thead><tbody>",
        *rows,
        "</tbody></table></div>",
    ]
