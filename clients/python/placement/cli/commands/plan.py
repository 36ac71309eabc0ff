"""`placementctl plan`: where the pods of all waiting gangs go."""

from __future__ import annotations

import click

from placement.cli.asking.asking import asking
from placement.cli.options import options
from placement.cli.options.every_mistake import Command
from placement.cli.options.options import Service, Source, WhatIf
from placement.cli.writing import write_data, write_text

_EXAMPLES = """\b
Examples:
  placementctl plan -f cluster.json
  placementctl plan -f nodes/ gangs/ -o html > plan.html
  placementctl plan -f cluster.json --time-limit 1m30s -o json
  placementctl plan -f cluster.json --server localhost:50051
  placementctl plan --live --context prod --scheduler-name placement-service
\b
  # What if rack r7 were emptied for repair, and four nodes like gpu-0 came?
  placementctl plan -f cluster.json --drain topology.example.com/rack=r7 --add 4=gpu-0
\b
Exit status:
  0  an answer was computed; gangs may be unplaced, the answer says why
  2  the input or the arguments are wrong; every problem found is printed
  3  the service, or the cluster, could not answer
"""


@click.command("plan", cls=Command, epilog=_EXAMPLES)
@options.source
@options.service
@options.what_if
@options.output("table", "wide", "name", "json", "yaml", "html")
@click.option("--waiting", is_flag=True, help="List only gangs that wait, or wait in part.")
@click.option("--name", metavar="TEXT", default="", help="List only gangs with TEXT in the name.")
def command(
    source: Source, service: Service, what_if: WhatIf, output: str, waiting: bool, name: str
) -> None:
    """Compute where the pods of all waiting gangs go. Nothing is changed."""
    from placement.cli.input.reading import read_question, standard_input
    from placement.kubernetes.level_names import as_drawn, spoken_all, with_own_levels

    # 1. A service to ask. Its own one warms up while the input is read.
    with asking(service) as asker:
        # 2. The question, or everything that is wrong with it.
        question = read_question(
            source, policy=service.policy, what_if=what_if, stdin=standard_input()
        )
        # 3. The answer, written before the service is stopped.
        own = question.own_levels
        placement = with_own_levels(asker.plan(question.request), own)
        request = as_drawn(question.request, own)
        if output in ("json", "yaml"):
            from placement.cli.plan.answer import answer
            from placement.kubernetes import in_parts, own_gangs
            from placement.planning.room import room_after

            room = room_after(request, placement, spoken_all(question.levels, own))
            own_gang = own_gangs(question.parts, question.request)
            placement = in_parts(placement, question.parts, own_gang)
            write_data(answer(placement, question.warnings, room), output)
        elif output == "html":
            from datetime import UTC, datetime

            from placement.cli.plan.html import page

            text = page(
                request,
                placement,
                origin=question.origin,
                made=datetime.now(UTC),
                warnings=question.warnings,
            )
            write_text(text, exact=True)
        else:
            from placement.cli.plan.screen import names, screen
            from placement.cli.plan.summary import Filter

            chosen = Filter(waiting=waiting, name=name)
            if output == "name":
                write_text(names(request, placement, chosen))
            else:
                wide = output == "wide"
                write_text(screen(request, placement, chosen=chosen, wide=wide))
