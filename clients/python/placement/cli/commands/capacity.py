"""`placementctl capacity`: how much more fits, or what is missing."""

from __future__ import annotations

import click

from placement.cli import options
from placement.cli.asking import asking
from placement.cli.failures import wrong_input
from placement.cli.options import GangName, Service, Source
from placement.cli.writing import write_data, write_text

_EXAMPLES = """\b
Examples:
  # How many copies of this gang run beside all that the plan places?
  placementctl capacity -f cluster.json --gang ml/serve-0
\b
  # How many further racks like r7 until every gang is placed?
  placementctl capacity -f cluster.json --add topology.example.com/rack --like r7
"""


@click.command("capacity", epilog=_EXAMPLES)
@options.source
@options.service
@options.gang(required=False)
@click.option("--add", "level", metavar="LEVEL", help="Count the domains of LEVEL to add.")
@click.option("--like", metavar="DOMAIN", help="With --add: what the new ones are like.")
@options.output("table", "json", "yaml")
def command(
    source: Source,
    service: Service,
    gang: GangName | None,
    level: str | None,
    like: str | None,
    output: str,
) -> None:
    """How many copies of a gang fit beside all the others, or what is missing for all."""
    from placement.cli.explanations import (
        copies_as_data,
        copies_as_text,
        domains_as_data,
        domains_as_text,
    )
    from placement.cli.reading import read_question, standard_input
    from placement.planning.capacity import copies, further_domains

    if (gang is None) == (level is None):
        raise click.UsageError("name a gang with --gang, or a level with --add")
    if like is not None and level is None:
        raise click.UsageError("--like goes with --add")
    with asking(service) as asker:
        question = read_question(source, policy=service.policy, stdin=standard_input())
        request = question.request
        planner = asker.planner()
        try:
            if gang is not None:
                found = copies(request, gang.resource_name, planner=planner)
                data = copies_as_data(gang, found, question.warnings)
                text = copies_as_text(gang, found)
            else:
                assert level is not None
                more = further_domains(
                    request, level, like, planner=planner, levels=question.levels
                )
                data = domains_as_data(more, question.warnings)
                text = domains_as_text(more)
        except ValueError as error:
            raise wrong_input(error) from error
        if output == "table":
            write_text(text)
        else:
            write_data(data, output)
