"""`placementctl completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from placement.cli.writing import write_text

_EXAMPLES = """\b
Examples:
  source <(placementctl completion bash)
  placementctl completion zsh > "${fpath[1]}/_placementctl"
  placementctl completion fish | source
"""


@click.command("completion", epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion of SHELL."""
    from placement.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    write_text(kind(cli, {}, "placementctl", "_PLACEMENTCTL_COMPLETE").source() + "\n")
