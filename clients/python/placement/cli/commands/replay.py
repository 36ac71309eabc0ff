"""`placementctl replay`: a saved request, computed again."""

from __future__ import annotations

import sys

import click

from placement.cli import options
from placement.cli.asking import asking
from placement.cli.failures import wrong_input
from placement.cli.options import Service
from placement.cli.writing import write_data

_EXAMPLES = """\b
Examples:
  # The answer of today's version to a request that the service saved.
  placementctl replay 20261122T101500-0a1b2c3d.json
\b
  # The first difference to the answer of that day, if there is one.
  placementctl replay 20261122T101500-0a1b2c3d.json --answer plan.json
"""


@click.command("replay", epilog=_EXAMPLES)
@click.argument("dump", type=click.Path())
@click.option("--answer", metavar="FILE", help="The answer to compare with, as -o json prints it.")
@options.service
@options.output("table", "json", "yaml")
def command(dump: str, answer: str | None, service: Service, output: str) -> None:
    """Compute the saved request in DUMP again, and compare the answers.

    Without --answer it is computed twice, which tells whether the answer repeats. A
    request that asks for determinism repeats bit for bit, times of the clock aside.
    """
    from placement.cli.answer import answer as as_data
    from placement.cli.answers import read_answer
    from placement.cli.policy import read_policy
    from placement.cli.reading import read_saved
    from placement.kubernetes import InputError
    from placement.planning.replay import compare

    try:
        request = read_saved(dump)
        if request is not None and service.policy:
            request.policy.CopyFrom(read_policy(service.policy))
    except (OSError, ValueError) as error:
        raise wrong_input(f"{dump}: {error}") from error
    except InputError as error:
        raise wrong_input(*error.problems) from error
    if request is None:
        raise wrong_input(f"{dump}: is not a saved request")
    before = read_answer(answer) if answer else None
    with asking(service) as asker:
        after = as_data(asker.plan(request))
        if before is None:
            before, after = after, as_data(asker.plan(request))
    found = compare(before, after)
    told = f"first difference: {found}" if found else "same answer, bit for bit"
    if output == "table":
        print(told)
    else:
        write_data({"same": not found, "difference": found or None, "answer": after}, output)
        print(f"placementctl: {told}", file=sys.stderr)
