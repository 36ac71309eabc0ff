"""What is known while the search goes on: one live line for people.

Shown on standard error, and only when that is a terminal; the line goes away
when the answer comes, so a screen holds the answer alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from placement.cli.words import BEST_EFFORT, count, is_proven, number, seconds, tier_verdict
from placement.v1 import ObjectiveTier, Progress


def line(progress: Progress | None, *, elapsed: float, gangs: int) -> str:
    """The live line, for example::

    0.8 s  exact  12 of 14 gangs  admitted 96 proven  extra 4 (bound 6)
    """
    clock = seconds(elapsed)
    if progress is None:
        return f"{clock}  asking for {count(gangs, 'gang')}"
    parts = [clock, progress.phase]
    if progress.tiers:
        # Progress of a planning question has no tiers, and places no gangs.
        parts.append(f"{progress.placed_gang_count:,} of {count(gangs, 'gang')}")
    parts += [_tier(tier) for tier in progress.tiers if tier.name != BEST_EFFORT]
    return "  ".join(part for part in parts if part)


def _tier(tier: ObjectiveTier) -> str:
    reached = f"{tier.name} {number(tier.value)}"
    if is_proven(tier):
        return f"{reached} proven"
    if not tier.HasField("bound"):
        return reached
    if tier.minimize:
        return f"{reached} (bound {number(tier.bound)})"
    return f"{reached} (bound {number(tier.bound)}, {tier_verdict(tier).split(' of ')[0]})"


class ProgressLine:
    """Shows the line while its block runs; shows nothing when `console` is no terminal."""

    def __init__(
        self, console: Console, *, gangs: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._start = clock()
        self._gangs = gangs
        self._latest: Progress | None = None
        self._live = (
            Live(self, console=console, transient=True, refresh_per_second=10)
            if console.is_terminal
            else None
        )

    def show(self, progress: Progress) -> None:
        """Show what is known now."""
        self._latest = progress

    def __rich__(self) -> Text:
        elapsed = self._clock() - self._start
        text = line(self._latest, elapsed=elapsed, gangs=self._gangs)
        return Text(text, style="dim", no_wrap=True, overflow="ellipsis")

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()
