"""`placementctl completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import click

from placement.cli.completing import SHELLS, script
from placement.cli.options.every_mistake import Command
from placement.cli.writing import write_text

_EXAMPLES = """\b
Examples:
  source <(placementctl completion bash)
  placementctl completion zsh > "${fpath[1]}/_placementctl"
  placementctl completion fish | source
"""


@click.command("completion", cls=Command, epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(list(SHELLS)))
def command(shell: str) -> None:
    """Print the completion of SHELL."""
    from placement.cli.main import cli

    write_text(script(cli, shell))
