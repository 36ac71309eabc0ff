"""`placementctl capacity`: how much more fits, or what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from placement.cli.asking.asking import asking
from placement.cli.options import options
from placement.cli.options.every_mistake import Command, checked
from placement.cli.options.option_values import GangName
from placement.cli.options.options import Service, Source, WhatIf
from placement.cli.writing import write_data, write_text

_EXAMPLES = """\b
Examples:
  # How many copies of this gang run beside all that the plan places?
  placementctl capacity -f cluster.json --gang ml/serve-0
\b
  # How many further racks like r7 until every gang is placed? How many nodes like gpu-0?
  placementctl capacity -f cluster.json --add topology.example.com/rack --like r7
  placementctl capacity -f cluster.json --add kubernetes.io/hostname --like gpu-0
\b
  # A table: how many copies of each fit with 0, 1, 2, ... 8 further racks?
  placementctl capacity -f cluster.json --gang ml/serve-0 --gang ml/train-1 \\
    --add topology.example.com/rack --like r7 --up-to 8
"""

#: Rows of a table beyond the first, when no number is named.
_ROWS = 8


def _check(values: Mapping[str, Any]) -> Iterator[str]:
    gang, level = values["gang"], values["level"]
    if not gang and level is None:
        yield "name a gang with --gang, or a level with --add"
    if len(gang) > 1 and level is None:
        yield "several gangs go with --add: they make a table"
    if level and not gang and values["evict"] not in (None, "none"):
        yield "--evict: with --add nobody gives way; each gang gets a place"
    if values["like"] is not None and level is None:
        yield "--like goes with --add"
    if values["up_to"] is not None and not (gang and level):
        yield "--up-to goes with --gang and --add"


@click.command("capacity", cls=Command, epilog=_EXAMPLES)
@options.source
@options.service
@options.what_if_changes
@options.gangs
@click.option("--add", "level", metavar="LEVEL", help="Count the domains of LEVEL to add.")
@click.option("--like", metavar="DOMAIN", help="With --add: what the new ones are like.")
@click.option(
    "--up-to",
    type=click.IntRange(0, 200),
    help=f"With --gang and --add: the most domains of the table (default: {_ROWS}).",
)
@options.output("table", "json", "yaml")
@checked(_check)
def command(
    source: Source,
    service: Service,
    what_if: WhatIf,
    gang: tuple[GangName, ...],
    level: str | None,
    like: str | None,
    up_to: int | None,
    output: str,
) -> None:
    """How many copies of a gang fit beside all the others, or what is missing for all."""
    from placement.cli.failures import wrong_input
    from placement.cli.findings import explanations
    from placement.cli.input.reading import find_gang, read_question, standard_input
    from placement.kubernetes.level_names import spoken, with_own_levels
    from placement.v1 import ComputeCapacityRequest, FurtherDomains

    with asking(service) as asker:
        question = read_question(
            source, policy=service.policy, what_if=what_if, stdin=standard_input()
        )
        names = [find_gang(question, one) for one in gang]
        asked = ComputeCapacityRequest(question=question.request, levels=question.levels)
        try:
            asked_for, example = question.domains(level or "", like or "")
        except ValueError as error:
            raise wrong_input(f"--like: {error}") from error
        domains = FurtherDomains(level=asked_for, like=example)
        if gang and level:
            asked.frontier.domains.CopyFrom(domains)
            asked.frontier.gangs.extend(names)
            asked.frontier.most = _ROWS if up_to is None else up_to
        elif gang:
            asked.copies.gang = names[0]
        else:
            asked.domains.CopyFrom(domains)
        found = asker.capacity(asked)
        # The answer has the level as it was asked for.
        domains.level = level or ""
        if found.HasField("domains"):
            found.domains.level = spoken(found.domains.level, question.own_levels)
        if found.HasField("placement"):
            found.placement.CopyFrom(with_own_levels(found.placement, question.own_levels))
        if output == "table":
            write_text(explanations.capacity_as_text(gang, domains, found))
        else:
            write_data(
                explanations.capacity_as_data(gang, domains, found, question.warnings), output
            )
