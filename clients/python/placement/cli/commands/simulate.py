"""`placementctl simulate`: a trace of jobs under one policy or several."""

from __future__ import annotations

from pathlib import Path

import click

from placement.cli import options
from placement.cli.asking import Asker, asking, interrupts
from placement.cli.failures import complain, wrong_input
from placement.cli.options import Service, Source, WhatIf
from placement.cli.writing import write_data, write_text

_EXAMPLES = """\b
Examples:
  placementctl simulate -f nodes.yaml --jobs trace.csv
  placementctl simulate -f nodes.yaml --jobs trace.csv --policy patient.yaml --compare fair.yaml \\
    --workers 2
\b
The trace is a CSV file with a header: name, submit and duration in seconds, pods, gpus of each
pod, and as you like minimum, required (a node label key), priority and queue.
"""


@click.command("simulate", epilog=_EXAMPLES)
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
    default=1,
    show_default=True,
    help="Policies that are run at once, each by a service of its own.",
)
@options.output("table", "json", "yaml")
def command(
    source: Source,
    service: Service,
    what_if: WhatIf,
    jobs: str,
    compare: tuple[str, ...],
    workers: int,
    output: str,
) -> None:
    """Run a trace of jobs on the nodes of the input, under one policy or several.

    The time limit is that of each plan on the way. Ctrl-C ends the traces where they are.
    """
    from placement.cli.policy import read_policy
    from placement.cli.reading import read_question, standard_input
    from placement.cli.simulations import as_data, as_text
    from placement.kubernetes import InputError
    from placement.planning.simulate import Outcome, each, read_jobs, simulate
    from placement.v1 import Policy

    try:
        with Path(jobs).open(encoding="utf-8-sig", newline="") as lines:
            trace = read_jobs(lines)
        further = {path: read_policy(path) for path in compare}
    except OSError as error:
        raise wrong_input(f"{jobs}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise wrong_input(*(f"{jobs}: {line}" for line in str(error).splitlines())) from error
    except InputError as error:
        raise wrong_input(*error.problems) from error
    question = read_question(source, policy=service.policy, what_if=what_if, stdin=standard_input())
    request = question.request
    policies = {service.policy or "default": request.policy, **further}

    askers: list[Asker] = []

    def finish() -> None:
        for asker in askers:
            asker.finish()

    with interrupts(finish) as interrupted:

        def outcome(policy: Policy) -> Outcome:
            with asking(service) as asker:
                askers.append(asker)
                return simulate(
                    request,
                    trace,
                    policy,
                    ask=lambda asked: asker.ask(asked, service.time_limit),
                    stops=interrupted.is_set,
                )

        outcomes = dict(
            zip(policies, each(outcome, policies.values(), at_once=workers), strict=True)
        )
    if interrupted.is_set():
        complain(["interrupted; this is how the traces went so far"])
    if output == "table":
        write_text(as_text(outcomes))
    else:
        write_data(as_data(outcomes, question.warnings), output)
