"""`placementctl explain`: why a gang waits, and the smallest changes that let it in."""

from __future__ import annotations

import click

from placement.cli.asking.asking import asking
from placement.cli.options import options
from placement.cli.options.every_mistake import Command
from placement.cli.options.option_values import GangName
from placement.cli.options.options import Service, Source, WhatIf
from placement.cli.writing import write_data, write_text

_EXAMPLES = """\b
Examples:
  placementctl explain -f cluster.json --gang ml/serve-0
  placementctl explain --live --gang ml/serve-0 --time-limit 1m -o json
"""


@click.command("explain", cls=Command, epilog=_EXAMPLES)
@options.source
@options.service
@options.what_if
@options.gang(required=True)
@options.output("table", "json", "yaml")
def command(source: Source, service: Service, what_if: WhatIf, gang: GangName, output: str) -> None:
    """Say why a gang waits, and for each kind of remedy the least that lets it in.

    A remedy alone is enough, and no other gang that the plan places is displaced.
    """
    from placement.cli.findings.explanations import as_data, as_text, say_levels
    from placement.cli.input.reading import find_gang, read_question, standard_input
    from placement.kubernetes import in_parts
    from placement.kubernetes.level_names import with_own_levels
    from placement.v1 import ExplainGangRequest

    with asking(service) as asker:
        question = read_question(
            source, policy=service.policy, what_if=what_if, stdin=standard_input()
        )
        whole = find_gang(question, gang)
        # Labels whose domains are paths are no levels by themselves.
        own = question.own_levels
        levels = [level for level in question.levels if level not in own.values()]
        explanation = asker.explain(
            ExplainGangRequest(question=question.request, gang=whole, levels=levels)
        )
        spoken = with_own_levels(explanation.placement, own)
        explanation.placement.CopyFrom(in_parts(spoken, question.parts))
        for remedy in explanation.remedies:
            say_levels(remedy, own)
        if output == "table":
            write_text(as_text(gang, explanation))
        else:
            write_data(as_data(gang, explanation, question.warnings), output)
