"""The difference of two answers, for people and for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from placement.cli.words import count, number
from placement.planning.diff import Difference, TierChange


def as_data(found: Difference) -> dict[str, Any]:
    """For ``-o json`` and ``-o yaml``."""
    names = {"before": "before", "after": "after"}
    return {
        "won": list(found.won),
        "lost": list(found.lost),
        "moved": [
            {"gang": m.gang, "pods": m.pods, "before": list(m.before), "after": list(m.after)}
            for m in found.moved
        ],
        "added": list(found.added),
        "removed": list(found.removed),
        "evicted": list(found.evicted),
        "spared": list(found.spared),
        "objective": [{"tier": t.tier, **{n: asdict(t)[n] for n in names}} for t in found.tiers],
    }


def as_text(found: Difference) -> str:
    """A line for each change."""
    if found.empty:
        return "Both answers say the same.\n"
    lines = []
    for title, gangs in (
        ("won", found.won),
        ("lost", found.lost),
        ("only after", found.added),
        ("only before", found.removed),
    ):
        lines += [f"{title:12} {gang}" for gang in gangs]
    for gang in found.moved:
        where = f"{_some(gang.before)} -> {_some(gang.after)}"
        lines.append(f"{'moved':12} {gang.gang}: {count(gang.pods, 'pod')}, {where}")
    lines += [f"{'evicted':12} {pod}" for pod in found.evicted]
    lines += [f"{'not evicted':12} {pod}" for pod in found.spared]
    lines += [_tier(tier) for tier in found.tiers if tier.before != tier.after]
    return "".join(f"{line}\n" for line in lines)


def _tier(tier: TierChange) -> str:
    def told(value: float | None) -> str:
        return "–" if value is None else number(value)

    return f"{tier.tier:12} {told(tier.before)} -> {told(tier.after)}"


def _some(nodes: tuple[str, ...]) -> str:
    shown = " ".join(nodes[:4])
    return f"{shown} and {len(nodes) - 4} more" if len(nodes) > 4 else shown or "–"
