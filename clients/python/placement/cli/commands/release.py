"""`placementctl release`: frees by hand all that waits for advice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from placement.cli.failures import no_answer
from placement.cli.options import options
from placement.cli.options.every_mistake import Command
from placement.cli.writing import write_text

_EXAMPLES = """\b
Examples:
  placementctl release --dry-run
  placementctl release --namespace ml
  placementctl release --after 600
"""


@click.command("release", cls=Command, epilog=_EXAMPLES)
@click.option("-n", "--namespace", default="", help="Only this namespace (default: all).")
@click.option(
    "--after",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Only what is older, counted from when its pods were made (default: all).",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@options.cluster[0]
@options.cluster[1]
def command(
    namespace: str,
    after: float | None,
    dry_run: bool,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Take every gate, hold, Reservation and open BindRequest of the advisor away.

    Stop the controller first, or it advises again. What runs already stays. With --after it may run
    beside a controller that releases pods sooner, and releases what is left when no controller
    runs.
    """
    from placement.cli.releasing import carried_out, releases
    from placement.cluster import ApiError, Cluster

    count = 0
    refused: list[ApiError] = []
    try:
        with Cluster.connect(kubeconfig=kubeconfig, context=context) as cluster:
            # All of it is found before anything is changed.
            before = None if after is None else datetime.now(UTC) - timedelta(seconds=after)
            wanted = list(releases(cluster, namespace=namespace, before=before))
            for one in wanted if dry_run else carried_out(cluster, wanted, refused):
                count += 1
                write_text(f"{one}\n")
    except ApiError as error:
        raise no_answer(f"not all was released: {error}") from error
    if refused:
        more = [f"and {len(refused) - 1} more"] if len(refused) > 1 else []
        raise no_answer(f"not all was released: {refused[0]}", *more)
    if not count:
        write_text("There is nothing to release.\n")
