"""The answer as a table of gangs, with reasons, bounds and a verdict below.

Made for 80 columns and better with more. Columns with the same content in every row are left out.
"""

from __future__ import annotations

import re
from dataclasses import replace

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placement.cli.colours import INK, colour
from placement.cli.plan.summary import Filter, GangSummary, State, Summary, Use
from placement.cli.words import (
    HOSTNAME,
    age,
    count,
    gang_title,
    is_proven,
    number,
    printable,
    seconds,
    shorten,
    span,
    tier_verdict,
    verdict,
)
from placement.v1 import EvictionKind, ObjectiveTier, Placement

#: At most so many domains of a level are named.
MOST_DOMAINS = 4

LONGEST_DOMAIN = 20

#: Longer names of gangs wrap.
LONGEST_GANG = 32

#: The least width of the last column (where, or why not); if narrower it becomes lines below the
#: gang's name.
NARROWEST_WHERE = 28

STATE_STYLES = {
    State.PLACED: "green",
    State.PARTLY: "yellow",
    State.RUNNING: "cyan",
    State.WAITING: "red",
}

MEANINGS = {
    "admitted": "GPUs of admitted gangs",
    "waiting": "minutes that admitted gangs waited",
    "extra": "pods beyond the minimums",
    "disruption": "running pods evicted or moved",
    "topology": "domains beyond the first",
    "fragmentation": "free nodes and domains opened",
}


def report(
    summary: Summary, placement: Placement, *, width: int, chosen: Filter | None = None
) -> RenderableType:
    """Gangs, why some wait, how good the plan is."""
    parts: list[RenderableType] = []
    gangs, hidden = (chosen or Filter()).choose(summary)
    shown = replace(summary, gangs=gangs)
    if gangs:
        parts += [gang_table(shown, width=width), *reasons(shown), ""]
    if hidden:
        told = f"and {count(hidden, 'gang')} more; -o wide lists all, --name and --waiting some"
        parts += [Text(told, style="dim"), ""]
    if placement.evictions:
        parts += [*evictions(placement), ""]
    if placement.tiers:
        parts += [tier_table(placement, width=width), ""]
    return Group(
        *parts,
        Text(conclusion(summary, placement), style="bold"),
        Text(times(placement), style="dim"),
    )


def gang_table(summary: Summary, *, width: int) -> RenderableType:
    """A row per gang, in the request's order."""
    if width - _needed(_gang_table(summary)) - 2 >= NARROWEST_WHERE:
        return _gang_table(summary, where_last=True)
    return _gang_table(summary, where_below=True)


def _gang_table(summary: Summary, *, where_last: bool = False, where_below: bool = False) -> Table:
    gangs = summary.gangs
    some_ran = any(g.new != g.running for g in gangs)
    some_extra = any(g.minimum != g.asked for g in gangs)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("")
    longest = max((len(summary.title(g)) for g in gangs), default=0)
    if where_below:
        table.add_column("gang, and where, or why not", overflow="fold", ratio=1)
    else:
        table.add_column("gang", overflow="fold", min_width=min(longest, LONGEST_GANG))
    table.add_column("state", no_wrap=True)
    if some_ran:
        table.add_column("new", justify="right", no_wrap=True)
    table.add_column("pods", justify="right", no_wrap=True)
    if some_extra:
        table.add_column("min", justify="right", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    if summary.tells_waiting:
        table.add_column("waited", justify="right", no_wrap=True)
    if where_last:
        table.add_column("where, or why not", overflow="fold")
    for gang in gangs:
        name = Text(summary.title(gang))
        if where_below:
            for line in where(gang, summary).splitlines():
                name.append(f"\n{line}", style="dim")
        row = [
            Text(f" {gang.mark} ", style=f"{INK} on {colour(gang.number)}")
            if gang.mark
            else Text(),
            name,
            Text(gang.state.value, style=STATE_STYLES[gang.state]),
            Text(f"{gang.running}/{gang.asked}"),
            Text(score(gang)),
        ]
        if summary.tells_waiting:
            row.append(Text(waited(gang)))
        if where_last:
            row.append(Text(where(gang, summary)))
        if some_extra:
            row.insert(4, Text(str(gang.minimum)))
        if some_ran:
            row.insert(3, Text(str(gang.new)))
        table.add_row(*row)
    return table


def score(gang: GangSummary) -> str:
    """The placement score: ``1``, ``0.5``, ``?`` when not known."""
    if gang.score is not None:
        return number(gang.score)
    return "–" if gang.state is State.WAITING else "?"


def waited(gang: GangSummary) -> str:
    """How long the gang has waited: ``3h20m``; nothing where that is not known."""
    return "" if gang.waited is None else age(gang.waited)


def where(gang: GangSummary, summary: Summary) -> str:
    """Domains and nodes of a gang that runs, the first reason of one that waits."""
    if gang.state is State.WAITING:
        return first_sentence(gang.reasons[0]) if gang.reasons else ""
    parts = [_domains(use, summary) for use in gang.uses]
    if not any(use.level == HOSTNAME for use in gang.uses):
        parts.append(count(gang.nodes, "node"))
    return ", ".join(parts)


def _domains(use: Use, summary: Summary) -> str:
    level = summary.level_names.get(use.level, use.level)
    names = [shorten(d, LONGEST_DOMAIN) or f"no {level}" for d in use.domains]
    if len(names) == 1:
        return names[0] if level in names[0] else f"{level} {names[0]}"
    more = " …" if len(names) > MOST_DOMAINS else ""
    return f"{count(len(names), level)} ({' '.join(names[:MOST_DOMAINS])}{more})"


def first_sentence(text: str) -> str:
    """Up to the first full stop that ends a sentence."""
    return re.split(r"(?<=[.!?;])\s+(?=[A-Z])", text, maxsplit=1)[0]


def reasons(summary: Summary) -> list[RenderableType]:
    """All reasons of the gangs whose row in the table does not tell them all."""
    lines: list[RenderableType] = []
    for gang in summary.gangs:
        told = gang.state is State.WAITING and (
            len(gang.reasons) == 1 and first_sentence(gang.reasons[0]) == gang.reasons[0]
        )
        if not gang.reasons or told:
            continue
        heading = Text(f"\n{summary.title(gang)}", style="bold")
        heading.append(" waits" if gang.state is State.WAITING else ": why pods wait")
        lines.append(heading)
        lines += [Padding(Text(reason), (0, 0, 0, 2)) for reason in gang.reasons]
    return lines


def evictions(placement: Placement) -> list[RenderableType]:
    """Which pods have to go first: a line for each gang, and for which gang."""
    found: dict[tuple[str, str, str], int] = {}
    for one in placement.evictions:
        kind = EvictionKind.Name(one.kind).removeprefix("EVICTION_KIND_").lower()
        key = (gang_title(one.gang), kind, gang_title(one.for_gang) if one.for_gang else "")
        found[key] = found.get(key, 0) + 1
    lines: list[RenderableType] = [Text("running pods that have to go first", style="bold")]
    for (gang, kind, winner), pods in found.items():
        whom = f" for {winner}" if winner else ""
        lines.append(Text(printable(f"  {gang}: {count(pods, 'pod')}, {kind}{whom}")))
    return lines


def tier_table(placement: Placement, *, width: int) -> RenderableType:
    """What each tier of the objective reaches, what is proven about it, and, where there is room,
    what it means.
    """
    table = _tier_table(placement, with_meanings=True)
    if _needed(table) <= width:
        return table
    return _tier_table(placement, with_meanings=False)


def _needed(table: Table) -> int:
    """The columns that a table takes when nothing in it wraps."""
    console = Console(width=10_000)
    return Measurement.get(console, console.options, table).maximum


def _tier_table(placement: Placement, *, with_meanings: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("objective", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("bound", justify="right", no_wrap=True)
    table.add_column("which is")
    if with_meanings:
        table.add_column("and means", style="dim", no_wrap=True)
    for tier in placement.tiers:
        row = [
            Text(tier.name),
            Text(number(tier.value)),
            Text(_bound(tier)),
            Text(tier_verdict(tier), style="green" if is_proven(tier) else ""),
        ]
        table.add_row(*row, *([MEANINGS.get(tier.name, "")] if with_meanings else []))
    return table


def _bound(tier: ObjectiveTier) -> str:
    return number(tier.bound) if tier.HasField("bound") else "–"


def conclusion(summary: Summary, placement: Placement) -> str:
    """What happens, and how good it is."""
    if not summary.gangs:
        return "Nothing was asked: there is no gang in the input."
    up = sum(g.state is not State.WAITING for g in summary.gangs)
    pods = count(len(placement.bindings), "pod")
    gangs = count(len(summary.gangs), "gang")
    return f"{up:,} of {gangs} placed, {pods} to bind. {verdict(placement)}."


def times(placement: Placement) -> str:
    """``0.4 s, first answer after 12 ms, proven after 0.3 s``."""
    stats = placement.stats
    parts = [seconds(span(stats.elapsed))]
    if stats.HasField("first_answer"):
        parts.append(f"first answer after {seconds(span(stats.first_answer))}")
    if stats.HasField("proof"):
        parts.append(f"proven after {seconds(span(stats.proof))}")
    return ", ".join(parts)
