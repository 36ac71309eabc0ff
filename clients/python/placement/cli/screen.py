"""The answer for people at a terminal: drawing, table, verdict."""

from __future__ import annotations

import re
import sys
from typing import TextIO

from rich.console import Console

from placement.cli.drawing import draw
from placement.cli.picture import compose
from placement.cli.summary import summarize
from placement.cli.table import report
from placement.v1 import ComputePlacementRequest, Placement


def screen(
    request: ComputePlacementRequest,
    placement: Placement,
    *,
    file: TextIO | None = None,
    width: int | None = None,
) -> str:
    """Drawing and table for `file` (standard output), with colours if it is a terminal.

    Lines carry no blanks at their ends.
    """
    console = Console(file=file or sys.stdout, width=width, highlight=False, soft_wrap=False)
    summary = summarize(request, placement)
    with console.capture() as capture:
        if request.snapshot.nodes:
            console.print(draw(compose(request, summary), summary, width=console.width))
            console.print()
        console.print(report(summary, placement, width=console.width))
    return re.sub(r"[ \t]+$", "", capture.get(), flags=re.MULTILINE)
