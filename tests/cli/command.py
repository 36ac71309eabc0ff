"""The command as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import placement
from tests.waiting import LONG

COMMAND = [sys.executable, "-m", "placement.cli"]

#: Calls the command with arguments and standard input.
Call = Callable[..., subprocess.CompletedProcess[str]]


def environment() -> dict[str, str]:
    """This process's, with the package findable and nothing that adds colours."""
    root = Path(placement.__path__[0]).parent
    path = os.pathsep.join([str(root), str(root.parent.parent), os.environ.get("PYTHONPATH", "")])
    inherited = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "COLUMNS")}
    return {**inherited, "PYTHONPATH": path}


def run(
    *arguments: str, stdin: str = "", command: Sequence[str] = COMMAND
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        env=environment(),
        encoding="utf-8",
    )
