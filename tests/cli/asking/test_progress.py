"""The live line, and that it is shown to people only."""

from __future__ import annotations

import io

from rich.console import Console

from placement import v1
from placement.cli.asking.progress import ProgressLine, line
from tests.cli.question import tier


def test_before_the_first_answer_the_line_says_what_is_asked() -> None:
    assert line(None, elapsed=0.3, gangs=14) == "300 ms  asking for 14 gangs"


def test_the_line_tells_phase_gangs_and_tiers_with_bounds() -> None:
    progress = v1.Progress(
        phase="exact",
        placed_gang_count=12,
        tiers=[
            tier("admitted", 96, 96),
            tier("extra", 4, 6),
            tier("topology", 3, 1),
            tier("fragmentation", 9),
        ],
    )
    assert line(progress, elapsed=1.84, gangs=14) == (
        "1.8 s  exact  12 of 14 gangs  admitted 96 proven  "
        "extra 4 (bound 6, within 50 %)  topology 3 (bound 1)"
    )


def test_a_terminal_sees_the_line_while_the_block_runs() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80)
    with ProgressLine(console, gangs=2, clock=lambda: 0.0) as shown:
        shown.show(v1.Progress(phase="greedy", placed_gang_count=1))
    assert "greedy" in file.getvalue()
    assert file.getvalue().rstrip().endswith("\x1b[2K")  # The line is wiped at the end.


def test_a_pipe_sees_nothing() -> None:
    file = io.StringIO()
    with ProgressLine(Console(file=file), gangs=2) as shown:
        shown.show(v1.Progress(phase="greedy"))
    assert file.getvalue() == ""
