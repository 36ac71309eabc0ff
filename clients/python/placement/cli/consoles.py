"""What rich draws on: standard output for answers, standard error for progress."""

from __future__ import annotations

import sys
from typing import Final, TextIO

from rich.console import Console

#: Columns that a drawing needs, and those that no terminal has. The variable COLUMNS may hold any
#: number; Emacs and others set it to 0, which leaves room for nothing at all.
_FEWEST: Final = 40
_MOST: Final = 10_000


def answer_console(file: TextIO | None = None, width: int | None = None) -> Console:
    """For an answer on `file` (standard output), with colours if it is a terminal."""
    console = Console(file=file or sys.stdout, width=width, highlight=False, soft_wrap=False)
    if width is None:
        console.width = min(max(console.width, _FEWEST), _MOST)
    return console


def progress_console() -> Console:
    """For what goes away again. It is shown on terminals only, also where a variable such as
    FORCE_COLOR asks for colours everywhere.
    """
    return Console(file=sys.stderr, force_terminal=sys.stderr.isatty())
