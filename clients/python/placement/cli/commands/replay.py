"""`placementctl replay`: a saved request, computed again."""

from __future__ import annotations

from dataclasses import replace

import click
from click.core import ParameterSource

from placement.cli.asking.asking import asking
from placement.cli.failures import complain, wrong_input
from placement.cli.options import options
from placement.cli.options.every_mistake import Command
from placement.cli.options.options import Service
from placement.cli.writing import write_data, write_text

_EXAMPLES = """\b
Examples:
  # Does today's version answer a request that the service saved as it was answered then?
  placementctl replay dumps/20261122T101500-0a1b2c3d4e5f6a7b.binpb
\b
  # The first difference to another answer, if there is one.
  placementctl replay 20261122T101500-0a1b2c3d4e5f6a7b.json --answer plan.json
"""


@click.command("replay", cls=Command, epilog=_EXAMPLES)
@click.argument("dump", type=click.Path())
@click.option(
    "--answer",
    metavar="FILE",
    type=click.Path(),
    help="The answer to compare with, as -o json prints it.",
)
@options.service
@options.without_effect("--strict", "--as-of")
@options.output("table", "json", "yaml")
def command(dump: str, answer: str | None, service: Service, output: str) -> None:
    """Compute the saved request in DUMP again, and compare the answers.

    It is compared with the answer that the service saved beside it. Where there is none, nor
    --answer, it is computed twice, which tells whether the answer repeats. A request that asks
    for determinism repeats bit for bit, times of the clock aside. Its own time limit holds
    unless --time-limit names one.
    """
    from placement.cli.input.answers import read_answer
    from placement.cli.input.policy import read_policy
    from placement.cli.input.saved import read_saved, read_saved_answer
    from placement.cli.plan.answer import answer as as_data
    from placement.kubernetes import InputError
    from placement.planning.replay import compare

    try:
        request = read_saved(dump)
        if request is not None and service.policy:
            request.policy.CopyFrom(read_policy(service.policy))
        saved = None if answer else read_saved_answer(dump)
    except OSError as error:
        raise wrong_input(f"{dump}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise wrong_input(f"{dump}: {error}") from error
    except InputError as error:
        raise wrong_input(*error.problems) from error
    if request is None:
        raise wrong_input(f"{dump}: is not a saved request")
    before = read_answer(answer) if answer else None
    if saved is not None:
        before = as_data(saved)
    given = click.get_current_context().get_parameter_source("time_limit")
    if given is ParameterSource.DEFAULT and request.HasField("time_limit"):
        service = replace(service, time_limit=request.time_limit.ToNanoseconds() / 1e9)
    with asking(service) as asker:
        after = as_data(asker.plan(request))
        if before is None:
            before, after = after, as_data(asker.plan(request))
    found = compare(before, after)
    told = f"first difference: {found}" if found else "same answer, bit for bit"
    if found and not request.policy.deterministic:
        told += " (the request does not ask for determinism)"
    if output == "table":
        write_text(f"{told}\n")
    else:
        write_data({"same": not found, "difference": found or None, "answer": after}, output)
        complain([told])
