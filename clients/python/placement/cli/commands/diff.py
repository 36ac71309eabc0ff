"""`placementctl diff`: two answers side by side."""

from __future__ import annotations

import click

from placement.cli.options import options
from placement.cli.options.every_mistake import Command
from placement.cli.writing import write_data, write_text

_EXAMPLES = """\b
Examples:
  placementctl plan -f cluster.json -o json > today.json
  placementctl plan -f cluster.json -o json --add 1=topology.example.com/rack:r7 > more.json
  placementctl diff today.json more.json
  placementctl diff today.json more.json -o html > diff.html
"""

#: Gangs on other nodes that the table lists.
_MOST_MOVED = 20


@click.command("diff", cls=Command, epilog=_EXAMPLES)
@click.argument("before", type=click.Path(allow_dash=True))
@click.argument("after", type=click.Path(allow_dash=True))
@options.without_effect("--server", "--time-limit", "--policy", "--strict", "--as-of")
@options.output("table", "wide", "name", "json", "yaml", "html")
def command(before: str, after: str, output: str) -> None:
    """Show how answer AFTER differs from answer BEFORE: gangs won, lost and moved."""
    from placement.cli.findings.differences import as_data, as_names, as_text
    from placement.cli.input.answers import read_answers
    from placement.planning.diff import difference

    first, second = read_answers(before, after)
    found = difference(first, second)
    if output == "table":
        write_text(as_text(found, most_moved=_MOST_MOVED))
    elif output == "wide":
        write_text(as_text(found))
    elif output == "name":
        write_text(as_names(found))
    elif output == "html":
        from placement.cli.findings.difference_page import page
        from placement.planning.diff import seats

        text = page(found, seats(first, second), before=before, after=after)
        write_text(text, exact=True)
    else:
        write_data(as_data(found), output)
