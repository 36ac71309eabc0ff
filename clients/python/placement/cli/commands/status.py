"""`placementctl status`: how the gangs of the current cluster stand."""

from __future__ import annotations

import sys
import time

import click

from placement.cli.failures import no_answer
from placement.cli.options import options
from placement.cli.options.every_mistake import Command
from placement.cli.writing import write_data, write_text

#: Seconds between two reads of the cluster.
_INTERVAL = 2.0

_EXAMPLES = """\b
Examples:
  placementctl status
  placementctl status --namespace ml --watch
  placementctl status -o name --waiting
"""


@click.command("status", cls=Command, epilog=_EXAMPLES)
@click.option("-n", "--namespace", default="", help="Only this namespace (default: all).")
@click.option("--waiting", is_flag=True, help="Only gangs that are not scheduled.")
@click.option("-w", "--watch", is_flag=True, help="Look again every two seconds.")
@options.output("table", "wide", "name", "json", "yaml")
@options.cluster[0]
@options.cluster[1]
def command(
    namespace: str,
    waiting: bool,
    watch: bool,
    output: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Show the gangs of the current cluster, and why some wait."""
    from placement.cli.input.live import read
    from placement.cli.status import as_json, as_table, statuses
    from placement.cluster import ApiError

    seen = False
    try:
        while True:
            try:
                found = read(kubeconfig=kubeconfig, context=context, also=())
            except ApiError as error:
                raise no_answer(f"the cluster could not be read: {error}") from error
            gangs = statuses(found.bodies, namespace=namespace)
            if waiting:
                gangs = tuple(gang for gang in gangs if gang.scheduled != "True")
            seen = True
            if watch and sys.stdout.isatty():
                click.clear()
            if output in ("json", "yaml"):
                write_data(as_json(gangs), output)
            elif output == "name":
                write_text("".join(f"{gang.title}\n" for gang in gangs))
            else:
                write_text(as_table(gangs, width=10_000 if output == "wide" else None))
            if not watch:
                return
            time.sleep(_INTERVAL)
    except KeyboardInterrupt:
        # This is how a user ends it.
        if not seen:
            raise
