"""Peaks of the memory of processes, as the kernel tells them."""

from __future__ import annotations

import contextlib
from pathlib import Path


def children_of(process: int) -> list[int]:
    """The processes that a process has started; none where the kernel does not tell."""
    found: list[int] = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, task.read_text().split())
    return found


def forget_peak(process: int | str) -> None:
    """Starts the peak of a process's memory anew, where the kernel lets us."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{process}/clear_refs").write_text("5")


def peak_of(process: int | str) -> float:
    """Peak resident memory in MiB; 0 where the kernel does not tell."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0
