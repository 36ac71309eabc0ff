"""`placementctl repack`: fewest moves that free whole domains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from placement.cli.asking.asking import asking
from placement.cli.options import options
from placement.cli.options.every_mistake import Command, checked
from placement.cli.options.option_values import Freeing
from placement.cli.options.options import Service, Source, WhatIf
from placement.cli.writing import write_data, write_text

_EXAMPLES = """\b
Examples:
  # What to move so that two racks hold no GPU pod, free ones counted?
  placementctl repack -f cluster.json --free topology.example.com/rack=2
\b
  # The same as migration jobs for Koordinator, the first step first.
  placementctl repack -f cluster.json --free topology.example.com/rack=2 -o jobs
\b
  # The same as a shell script that evicts the pods step by step.
  placementctl repack --live --free topology.example.com/rack=2 -o script > repack.sh
"""


def _check(values: Mapping[str, Any]) -> Iterator[str]:
    if values["evict"] not in (None, "none"):
        yield "--evict: repack moves gangs, and evicts none for others"


@click.command("repack", cls=Command, epilog=_EXAMPLES)
@options.source
@options.service
@options.what_if
@options.free
@options.output("table", "name", "json", "yaml", "jobs", "script")
@checked(_check)
def command(source: Source, service: Service, what_if: WhatIf, free: Freeing, output: str) -> None:
    """Find the fewest running pods to move so that whole domains hold no GPU pod.

    Only preemptible gangs move, whole or only extras, in steps that always have room.
    """
    from placement.cli.findings import repacking
    from placement.cli.findings.eviction_script import as_script
    from placement.cli.findings.migration_jobs import as_jobs
    from placement.cli.input.reading import read_question, standard_input
    from placement.kubernetes import own_gangs
    from placement.v1 import ComputeRepackingRequest

    with asking(service) as asker:
        question = read_question(
            source, policy=service.policy, what_if=what_if, stdin=standard_input()
        )
        found = asker.repack(
            ComputeRepackingRequest(question=question.request, level=free.level, count=free.number)
        )
        own = own_gangs(question.parts, question.request)
        for move in found.moves:
            move.gang = own.get(move.pod, move.gang)
        match output:
            case "table":
                write_text(repacking.as_text(free, found))
            case "name":
                write_text(repacking.as_names(found))
            case "jobs":
                write_text(as_jobs(question.request, found), exact=True)
            case "script":
                write_text(as_script(free, found), exact=True)
            case _:
                write_data(repacking.as_data(found, question.warnings), output)
