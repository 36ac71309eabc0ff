"""Measurements as tables in the terminal: a row for each, or a row for all seeds of an instance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean

from rich.table import Table
from rich.text import Text

from bench.growth import Size
from bench.instances import Instance
from bench.measurement import Line

_TOPOLOGY = "topology"


def table(lines: Iterable[Line]) -> Table:
    """One row a line."""
    result = Table(box=None, header_style="bold", pad_edge=False)
    result.add_column("instance", no_wrap=True)
    for name in (
        "nodes",
        "gangs",
        "first s",
        "proof s",
        "total s",
        "placed",
        "+",
        "in turn",
        "minutes",
        "+%",
        "old left",
        "in turn",
        "GPUs",
        "+%",
        "gap %",
        "extras",
        "evicted",
        "domains",
        "≥",
        "was",
        "frag",
        "was",
        "MiB",
    ):
        result.add_column(name, justify="right", no_wrap=True)
    result.add_column("end", no_wrap=True)
    for line in lines:
        result.add_row(*_row(line))
        for fault in line.faults:
            result.add_row(Text(f"  {fault}", style="red", overflow="fold"))
    return result


def _row(line: Line) -> Iterable[str | Text]:
    admitted, before = line.final.tiers["admitted"], line.greedy.tiers["admitted"]
    topology, extra = line.final.tiers[_TOPOLOGY], line.final.tiers["extra"]
    yield str(line)
    yield f"{line.nodes:,}"
    yield f"{line.gangs:,}"
    yield f"{line.first:.2f}"
    yield "–" if line.proof is None else f"{line.proof:.2f}"
    yield f"{line.total:.2f}"
    yield f"{line.final.placed}"
    yield _change(line.final.placed - line.greedy.placed)
    waiting = line.final.tiers.get("waiting")
    turn = line.in_turn
    yield "–" if turn is None else f"{turn.placed}"
    yield "–" if waiting is None else f"{waiting.value:,.10g}"
    minutes = turn.tiers["waiting"].value if turn else 0.0
    more = waiting.value - minutes if waiting and turn else 0.0
    yield _change(100 * more / max(1.0, minutes), ".1f")
    for answer in (line.final, turn):
        left = None if answer is None else answer.oldest_left
        yield "–" if left is None else f"{left}"
    yield f"{admitted.value:,.10g}"
    yield _change(100 * (admitted.value - before.value) / max(1.0, before.value), ".2f")
    yield _gap(admitted.gap)
    open_extras = extra.bound is not None and not extra.proven
    yield f"{extra.value:g}" + (f" of {_number(extra.bound)}" if open_extras else "")
    evicted = line.final.tiers.get("disruption")
    more = evicted is not None and evicted.bound is not None and not evicted.proven
    lost = evicted.value if evicted else 0
    yield f"{lost:g}" + (f" of {_number(evicted.bound)}" if evicted and more else "")
    yield f"{topology.value:g}"
    # Proven only for plans that admit as much, so nothing while the first tier is open.
    yield _number(topology.bound)
    yield f"{line.greedy.tiers[_TOPOLOGY].value:g}"
    yield f"{line.final.tiers['fragmentation'].value:g}"
    yield f"{line.greedy.tiers['fragmentation'].value:g}"
    yield "+".join(f"{mib:.0f}" for mib in line.memory.values())
    yield Text(line.end, style="green" if line.end == "proven" else "yellow")


def summary(lines: Iterable[Line]) -> Table:
    """One row for each instance, its seeds taken together."""
    result = Table(box=None, header_style="bold", pad_edge=False)
    result.add_column("instance", no_wrap=True)
    for name in (
        "runs",
        "nodes",
        "gangs",
        "first s max",
        "proven",
        "proof s mean",
        "max",
        "greedy gap % mean",
        "max",
        "gap % mean",
        "max",
        "domains over bound mean",
        "max",
        "MiB max",
        "faults",
    ):
        result.add_column(name, justify="right")
    for name, group in _groups(lines).items():
        result.add_row(name, *_summary_row(group))
    return result


def _groups(lines: Iterable[Line]) -> dict[str, list[Line]]:
    groups: dict[str, list[Line]] = {}
    for line in lines:
        name = str(Instance(line.family, line.params)).rsplit(" ", 1)[0]
        groups.setdefault(f"{name} {line.path} {line.time_limit:g}s", []).append(line)
    return groups


def _summary_row(lines: Sequence[Line]) -> Iterable[str]:
    proofs = [line.proof for line in lines if line.proof is not None]
    gaps = [gap for line in lines if (gap := line.final.tiers["admitted"].gap) is not None]
    # The greedy answer has no bound of its own; the final one holds for it as well.
    greedy = [
        (bound - value) / max(1.0, value)
        for line in lines
        if (bound := line.final.tiers["admitted"].bound) is not None
        for value in (line.greedy.tiers["admitted"].value,)
    ]
    over = [
        line.final.tiers[_TOPOLOGY].value - (line.final.tiers[_TOPOLOGY].bound or 0.0)
        for line in lines
    ]
    yield f"{len(lines)}"
    yield f"{lines[0].nodes:,}"
    yield f"{max(line.gangs for line in lines):,}"
    yield f"{max(line.first for line in lines):.2f}"
    yield f"{len(proofs)}"
    yield f"{mean(proofs):.2f}" if proofs else "–"
    yield f"{max(proofs):.2f}" if proofs else "–"
    yield from _mean_and_max(greedy)
    yield from _mean_and_max(gaps)
    yield f"{mean(over):.2f}"
    yield f"{max(over):g}"
    yield f"{max(sum(line.memory.values()) for line in lines):.0f}"
    yield f"{sum(len(line.faults) for line in lines)}"


def _mean_and_max(gaps: Sequence[float]) -> tuple[str, str]:
    return (_gap(mean(gaps)), _gap(max(gaps))) if gaps else ("–", "–")


def _gap(gap: float | None) -> str:
    if gap is None:
        return "–"
    return "0" if gap == 0 else f"{100 * gap:.3f}"


def _change(amount: float, form: str = "g") -> str:
    return f"{amount:+{form}}" if abs(amount) > 1e-9 else ""


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def size(one: Size) -> str:
    """One size of the cluster in a line."""
    gap = "no bound" if one.gap is None else f"gap {100 * one.gap:.2f} %"
    memory = ", ".join(f"{name} {mib:,.0f} MiB" for name, mib in one.memory.items())
    return (
        f"{one.nodes:>7,} nodes, {one.gangs:,} gangs: first answer {one.first:.2f} s, "
        f"{one.end} after {one.total:.1f} s ({gap}); CPU to the first answer "
        f"{one.stages['together'] / 1000:.2f} s; {memory}"
    )
