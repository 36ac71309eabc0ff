"""The answer for people at a terminal: drawing, table, verdict."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TextIO

from placement.cli.consoles import answer_console
from placement.cli.plan.drawing import draw
from placement.cli.plan.picture import compose
from placement.cli.plan.summary import Filter, summarize
from placement.cli.plan.table import report
from placement.v1 import ComputePlacementRequest, Placement

#: A table with more gangs than this is a summary.
MOST_GANGS = 100


def screen(
    request: ComputePlacementRequest,
    placement: Placement,
    *,
    chosen: Filter | None = None,
    wide: bool = False,
    file: TextIO | None = None,
    width: int | None = None,
) -> str:
    """Drawing and table for `file` (standard output), with colours if it is a terminal.

    A list of only some gangs comes without the drawing. `wide` lists everything and wraps nothing.
    Lines have no blanks at their ends.
    """
    chosen = replace(chosen or Filter(), most=None if wide else MOST_GANGS)
    if wide and width is None:
        width = 400
    console = answer_console(file, width)
    summary = summarize(request, placement)
    with console.capture() as capture:
        if request.snapshot.nodes and not (chosen is not None and chosen.narrows):
            console.print(draw(compose(request, summary), summary, width=console.width))
            console.print()
        console.print(report(summary, placement, width=console.width, chosen=chosen))
    return re.sub(r"[ \t]+$", "", capture.get(), flags=re.MULTILINE)


def names(request: ComputePlacementRequest, placement: Placement, chosen: Filter) -> str:
    """The gangs that are listed, one ``namespace/name`` per line."""
    gangs, _ = chosen.choose(summarize(request, placement))
    return "".join(f"{gang.namespace}/{gang.name}\n" for gang in gangs)
