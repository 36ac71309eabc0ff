"""The results of a trace under each policy, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from placement.cli.plan.answer import Json, warnings_as_data
from placement.cli.words import age, printable, seconds
from placement.kubernetes import Problem
from placement.planning.simulate import Outcome, Run

_HEADINGS: Final = (
    "policy",
    "jobs that ran",
    "median wait",
    "95 % within",
    "longest",
    "of all GPUs",
    "evicted",
)

#: Jobs of which the table says why they wait.
_MOST_REASONS: Final = 5


def as_data(outcomes: Mapping[str, Outcome], warnings: Iterable[Problem]) -> Json:
    """`simulate` for programs."""
    return {
        "policies": [
            {
                "policy": name,
                "jobs": [
                    {
                        "name": run.job.name,
                        "submit": run.job.submit,
                        "started": run.started,
                        "waited": run.waited,
                        "starts": run.starts,
                        **({"reason": run.why} if run.why else {}),
                    }
                    for run in outcome.runs
                ],
                "end": outcome.end,
                **({} if outcome.stopped is None else {"stopped": outcome.stopped}),
                "utilisation": outcome.utilisation,
                "medianWait": outcome.wait(0.5),
                "wait95": outcome.wait(0.95),
                "longestWait": outcome.wait(1.0),
            }
            for name, outcome in outcomes.items()
        ],
        "warnings": warnings_as_data(warnings),
    }


def as_text(outcomes: Mapping[str, Outcome]) -> str:
    """A line for each policy, and why some jobs never ran."""
    rows: list[tuple[str, ...]] = [_HEADINGS]
    for name, outcome in outcomes.items():
        ran = [run for run in outcome.runs if run.started is not None]
        waits = [outcome.wait(share) for share in (0.5, 0.95, 1.0)]
        used = "–" if outcome.utilisation is None else f"{100 * outcome.utilisation:.1f} %"
        again = sum(max(0, run.starts - 1) for run in outcome.runs)
        rows.append(
            (
                name,
                f"{len(ran)} of {len(outcome.runs)}",
                *("–" if wait is None else seconds(wait) for wait in waits),
                used,
                str(again),
            )
        )
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = []
    for name, *cells in rows:
        told = "".join(f"  {cell:>{width}}" for cell, width in zip(cells, others, strict=True))
        lines.append(f"{name:{first}}{told}")
    lines += [
        f"{name} was ended after {seconds(outcome.stopped)} of the trace"
        for name, outcome in outcomes.items()
        if outcome.stopped is not None
    ]
    waiting = {
        run.job.name: f"waits{_waited(run, outcome)}: {run.why}"
        for outcome in outcomes.values()
        for run in sorted(outcome.runs, key=lambda run: run.job.submit)
        if run.why
    }
    lines += [f"{name} {told}" for name, told in list(waiting.items())[:_MOST_REASONS]]
    if len(waiting) > _MOST_REASONS:
        lines.append(f"{len(waiting) - _MOST_REASONS} more wait; -o json says why.")
    return "".join(f"{printable(line)}\n" for line in lines)


def _waited(run: Run, outcome: Outcome) -> str:
    """How long it waits until the last job ends, if it came before that."""
    end = outcome.end if outcome.stopped is None else outcome.stopped
    waited = end - run.job.submit
    return f" for {age(waited)}" if waited > 0 else ""
