"""The difference of two answers, for people and for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from placement.cli.words import count, number, percent, printable
from placement.planning.diff import Difference, Open, Stay, TierChange


def as_data(found: Difference) -> dict[str, Any]:
    """For ``-o json`` and ``-o yaml``."""
    names = {"before": "before", "after": "after"}
    return {
        "won": list(found.won),
        "lost": list(found.lost),
        "moved": [
            {
                "gang": m.gang,
                "pods": m.pods,
                "before": list(m.before),
                "after": list(m.after),
                "domainsBefore": list(found.stays_before[m.gang].domains),
                "domainsAfter": list(found.stays_after[m.gang].domains),
            }
            for m in found.moved
        ],
        "reseated": list(found.reseated),
        "gpusWon": found.gpus((*found.won, *found.added)),
        "gpusLost": found.gpus((*found.lost, *found.removed)),
        "free": [asdict(one) for one in found.room],
        "added": list(found.added),
        "removed": list(found.removed),
        "evicted": list(found.evicted),
        "spared": list(found.spared),
        "unproven": [asdict(one) for one in found.unproven],
        "objective": [{"tier": t.tier, **{n: asdict(t)[n] for n in names}} for t in found.tiers],
    }


def as_names(found: Difference) -> str:
    """The gangs that differ, one a line."""
    names = (*found.won, *found.lost, *(m.gang for m in found.moved), *found.reseated, *found.added,
             *found.removed)  # fmt: skip
    return "".join(f"{printable(gang)}\n" for gang in dict.fromkeys(names))


def as_text(found: Difference, *, most_moved: int | None = None) -> str:
    """A line for each change, then the totals; of moved gangs at most so many."""
    if found.empty:
        return "Both answers say the same.\n"
    lines = []
    for title, gangs, stays in (
        ("won", found.won, found.stays_after),
        ("lost", found.lost, found.stays_before),
        ("only after", found.added, found.stays_after),
        ("only before", found.removed, found.stays_before),
    ):
        lines += [f"{title:12} {gang}{_stay(stays.get(gang))}" for gang in gangs]
    for gang in found.moved[:most_moved]:
        here = found.stays_before[gang.gang].domains
        there = found.stays_after[gang.gang].domains
        # Pods that are not bound anew run where they ran.
        where = f"{_some(gang.before) or 'running'} -> {_some(gang.after) or 'running'}"
        if here and there and here != there:
            where = f"{_some(here)} -> {_some(there)}"
        lines.append(f"{'moved':12} {gang.gang}: {count(gang.pods, 'pod')}, {where}")
    if most_moved is not None and len(found.moved) > most_moved:
        lines.append(f"{'moved':12} and {len(found.moved) - most_moved} more; -o wide lists them")
    lines += [f"{'reseated':12} {gang}: other devices or reservations" for gang in found.reseated]
    lines += [f"{'evicted':12} {pod}" for pod in found.evicted]
    lines += [f"{'not evicted':12} {pod}" for pod in found.spared]
    lines += [_tier(tier) for tier in found.tiers if tier.before != tier.after]
    for one in found.room:
        if one.before != one.after:
            what = "GPUs" if one.what == "GPUs" else f"whole domains of {one.what}"
            lines.append(f"{'free':12} {one.before} -> {one.after} {what}")
    lines += [f"{'not proven':12} {unproven(one)}" for one in found.unproven]
    return "".join(f"{printable(line)}\n" for line in lines)


def unproven(one: Open) -> str:
    """What an answer that is not proven leaves open."""
    if one.gap is None:
        return f"{one.which}: how much better it could be is not known"
    return f"{one.which}: its first open tier could be {percent(one.gap)} better at most"


def _stay(stay: Stay | None) -> str:
    """The domains and GPUs of a gang, as far as they are known."""
    known = [_some(stay.domains)] if stay and stay.domains else []
    known += [count(stay.gpus, "GPU")] if stay and stay.gpus else []
    return f": {', '.join(known)}" if known else ""


def _tier(tier: TierChange) -> str:
    def told(value: float | None) -> str:
        return "–" if value is None else number(value)

    return f"{tier.tier:12} {told(tier.before)} -> {told(tier.after)}"


def _some(nodes: tuple[str, ...]) -> str:
    shown = " ".join(nodes[:4])
    return f"{shown} and {len(nodes) - 4} more" if len(nodes) > 4 else shown
