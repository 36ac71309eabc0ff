"""`placementctl simulate`: a trace of jobs under one policy or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placement.cli.asking.asking import interrupts
from placement.cli.failures import complain, warn, wrong_input
from placement.cli.options import options
from placement.cli.options.every_mistake import Command, checked
from placement.cli.options.options import Service, Source, WhatIf
from placement.cli.writing import write_data, write_text

if TYPE_CHECKING:
    from placement.cli.asking.traces import Ending, Trace
    from placement.planning.simulate import Outcome

_EXAMPLES = """\b
Examples:
  placementctl simulate -f nodes.yaml --jobs trace.csv
  placementctl simulate -f nodes.yaml --jobs trace.csv --policy patient.yaml --compare fair.yaml \\
    --workers 2
\b
The trace is a CSV file with a header: name, submit and duration in seconds, pods, gpus of each
pod, and as you like minimum, required (a node label key), priority and queue.
"""


def _check_policies(values: Mapping[str, Any]) -> Iterator[str]:
    named = [values["policy"], *values["compare"]]
    for path in sorted({path for path in named if path and named.count(path) > 1}):
        yield f"--compare: {path} is named more than once"


@click.command("simulate", cls=Command, epilog=_EXAMPLES)
@options.source
@options.service
@options.what_if
@click.option("--jobs", metavar="FILE", type=click.Path(), required=True, help="The trace, as CSV.")
@click.option(
    "--compare",
    metavar="FILE",
    type=click.Path(),
    multiple=True,
    help="Further policies to run it under.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    help="Policies that are run at once on this machine, each by a service of its own (default 1).",
)
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="Run each policy on a machine of a Ray cluster: auto, HOST:PORT, or local.",
)
@options.output("table", "json", "yaml")
@checked(_check_policies)
def command(
    source: Source,
    service: Service,
    what_if: WhatIf,
    jobs: str,
    compare: tuple[str, ...],
    workers: int | None,
    ray: str | None,
    output: str,
) -> None:
    """Run a trace of jobs on the nodes of the input, under one policy or several.

    The time limit is that of each plan on the way. --evict is also for the policies of --compare
    that name no eviction. Ctrl-C ends the traces where they are.
    """
    from placement.cli.asking.traces import Ending, Trace
    from placement.cli.findings.simulations import as_data, as_text
    from placement.cli.input.policy import read_policy
    from placement.cli.input.reading import read_question, standard_input
    from placement.kubernetes import InputError, Problem
    from placement.planning.simulate import columns_not_read, read_jobs

    run = _everywhere(ray, workers)
    try:
        lines = Path(jobs).read_text(encoding="utf-8-sig").splitlines(keepends=True)
        trace = read_jobs(lines)
        further = {path: read_policy(path) for path in compare}
    except OSError as error:
        raise wrong_input(f"{jobs}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise wrong_input(f"{jobs}: is not text in UTF-8") from error
    except ValueError as error:
        raise wrong_input(*(f"{jobs}: {line}" for line in str(error).splitlines())) from error
    except InputError as error:
        raise wrong_input(*error.problems) from error
    ignored = [
        Problem(jobs, "", name, f"is not a column of traces{f'; is {near} meant?' if near else ''}")
        for name, near in columns_not_read(lines[0]).items()
    ]
    if source.strict and ignored:
        raise wrong_input(*ignored)
    warn(ignored)
    question = read_question(source, policy=service.policy, what_if=what_if, stdin=standard_input())
    for policy in further.values():
        if not policy.gpu_resources:
            # What counts as GPUs in this input does so under all policies.
            policy.gpu_resources.extend(question.request.policy.gpu_resources)
        if what_if.evict is not None and not policy.eviction:
            policy.eviction = question.request.policy.eviction
    policies = {service.policy or "default": question.request.policy, **further}
    traces = [Trace(question.request, trace, policy, service) for policy in policies.values()]
    ending = Ending()
    with interrupts(ending.begin) as interrupted:
        found = run(traces, ending)
    outcomes = dict(zip(policies, found, strict=True))
    if interrupted.is_set():
        complain(["interrupted; this is how the traces went so far"])
    if output == "table":
        write_text(as_text(outcomes))
    else:
        write_data(as_data(outcomes, (*ignored, *question.warnings)), output)


def _everywhere(
    ray: str | None, workers: int | None
) -> Callable[[Sequence[Trace], Ending], list[Outcome]]:
    """Where the traces run: on machines of Ray, or on this one. Raises `Failure`."""
    if not ray:
        from placement.cli.asking.traces import run
        from placement.planning.simulate import each

        return lambda traces, ending: each(
            lambda trace: run(trace, ending), traces, at_once=workers or 1
        )
    if workers:
        raise wrong_input("--workers: is for this machine alone; with --ray the cluster decides")
    try:
        from placement.cli.asking.on_ray import run_on_ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise wrong_input("--ray: Ray is not installed here: pip install 'ray>=2.50,<3'") from error
    return partial(run_on_ray, address=ray)
