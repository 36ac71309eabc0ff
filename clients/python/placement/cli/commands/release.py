"""`placementctl release`: frees by hand all that waits for advice."""

from __future__ import annotations

import click

from placement.cli import options
from placement.cli.failures import no_answer
from placement.cli.writing import write_text

_EXAMPLES = """\b
Examples:
  placementctl release --dry-run
  placementctl release --namespace ml
"""


@click.command("release", epilog=_EXAMPLES)
@click.option("-n", "--namespace", default="", help="Only this namespace (default: all).")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@options.cluster[0]
@options.cluster[1]
def command(namespace: str, dry_run: bool, kubeconfig: str | None, context: str | None) -> None:
    """Take every gate, hold, Reservation and open BindRequest of the advisor away.

    Stop the controller first, or it advises again. What runs already stays.
    """
    from placement.cli.releasing import carry_out, releases
    from placement.cluster import ApiError, Cluster

    count = 0
    try:
        with Cluster.connect(kubeconfig=kubeconfig, context=context) as cluster:
            # All of it is found before anything is changed.
            for one in list(releases(cluster, namespace=namespace)):
                if dry_run or carry_out(cluster, one):
                    count += 1
                    write_text(f"{one}\n")
    except ApiError as error:
        raise no_answer(f"not all was released: {error}") from error
    if not count:
        write_text("There is nothing to release.\n")
