"""`placementctl repack`: fewest moves that free whole domains."""

from __future__ import annotations

import click

from placement.cli import options
from placement.cli.asking import asking
from placement.cli.failures import wrong_input
from placement.cli.options import Freeing, Service, Source, WhatIf
from placement.cli.writing import write_data, write_text

_EXAMPLES = """\b
Examples:
  # What to move so that two racks hold no GPU pod, free ones counted?
  placementctl repack -f cluster.json --free topology.example.com/rack=2
\b
  # The same as migration jobs for Koordinator, the first step first.
  placementctl repack -f cluster.json --free topology.example.com/rack=2 -o jobs
"""


@click.command("repack", epilog=_EXAMPLES)
@options.source
@options.service
@options.what_if
@options.free
@options.output("table", "json", "yaml", "jobs")
def command(source: Source, service: Service, what_if: WhatIf, free: Freeing, output: str) -> None:
    """Find the fewest running pods to move so that whole domains hold no GPU pod.

    Only preemptible gangs move, whole or only extras, in steps that always have room.
    """
    from placement.cli.reading import read_question, standard_input
    from placement.cli.repacking import as_data, as_jobs, as_text
    from placement.planning.repack import repack

    with asking(service) as asker:
        question = read_question(
            source, policy=service.policy, what_if=what_if, stdin=standard_input()
        )
        planner = asker.planner()
        try:
            found = repack(question.request, free.level, free.number, planner=planner)
        except ValueError as error:
            raise wrong_input(error) from error
        if output == "table":
            write_text(as_text(free, found))
        elif output == "jobs":
            write_text(as_jobs(found), exact=True)
        else:
            write_data(as_data(found, question.warnings), output)
