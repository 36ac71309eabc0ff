"""`placementctl`: files in, an answer out; problems on standard error.

Exit status 0: an answer was computed. 2: the input or the arguments are wrong.
3: the service, or the cluster, could not answer. 130: interrupted. Standard output holds the
answer alone. A command is imported when it runs, so each costs only what it needs.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Final

import click

from placement import __version__
from placement.cli.failures import Failure, Status, complain, complaining, discard
from placement.planning.planner import OutOfTime

#: Each command and its line in the help. The module of the same name holds it.
COMMANDS: Final = {
    "plan": "Compute where the pods of all waiting gangs go.",
    "explain": "Say why a gang waits, and the least that lets it in.",
    "capacity": "How many copies of a gang fit, or what is missing for all.",
    "repack": "Fewest moves that free whole domains.",
    "diff": "Two answers side by side.",
    "replay": "Compute a saved request again and compare the answers.",
    "simulate": "A trace of arrivals under one policy or several.",
    "expand": "Print the PodGangs and pods that Grove would create.",
    "status": "Show the gangs of the current cluster, and why some wait.",
    "release": "Free by hand all that waits for advice.",
    "completion": "Print the completion of a shell.",
}

#: Errors of a full disk, a quota, a limit of file sizes, or a device that is gone. What cannot be
#: read is told, with its name, where it is read.
_NOT_WRITTEN: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)

_EXAMPLES: Final = """\b
Examples:
  # What would happen to everything that waits in this cluster?
  kubectl get nodes,pods,podgangs,podcliquesets,clustertopologybindings,priorityclasses \\
    -A -o json | placementctl plan -f -
\b
  # The same, read from the current cluster, as if rack r7 were closed.
  placementctl plan --live --cordon topology.example.com/rack=r7
\b
  # Would this PodCliqueSet fit? Nodes from one file, the workload from another.
  placementctl plan -f nodes.json my-model.yaml
\b
  # Why does this gang wait, and what would let it in?
  placementctl explain -f cluster.json --gang ml/serve-0
\b
  # Completion of commands and options in this shell.
  source <(placementctl completion bash)
"""


class _Commands(click.Group):
    """Commands that are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"placement.cli.commands.{cmd_name}").command
        # The line of the list, whole, where shells show one.
        command.short_help = COMMANDS[cmd_name]
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[:1] == ["help"] and len(args) == 2 and args[1] in COMMANDS:
            args = [args[1], "--help"]
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = get_close_matches(args[0], COMMANDS, n=1)
            near = near or (["--help"] if args[0] == "help" else [])
            hint = f" Did you mean {near[0]}?" if near else f" There are: {', '.join(COMMANDS)}."
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list without importing them all."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_Commands,
    epilog=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="placementctl %(version)s")
def cli() -> None:
    """Plan where gangs of GPU pods go, with a proof of how good the plan is.

    Nothing is changed in any cluster: files, or what a cluster holds, in, answer out.
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if instruction := os.environ.get("_PLACEMENTCTL_COMPLETE"):
        from placement.cli.completing import completions

        sys.stdout.write(completions(cli, instruction))
        return Status.OK
    if sys.stderr is None:
        # It is closed, and `print` would write to standard output instead.
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stdout is None:
        # A file that is opened would take its number, and be written to.
        complain(["standard output is closed; there is no place for an answer"])
        return Status.NO_ANSWER
    try:
        with cli.make_context("placementctl", arguments) as context:
            cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and error.ctx is None:
            error.ctx = click.Context(cli, info_name="placementctl")
        with complaining():
            error.show()
        return Status.WRONG_INPUT
    except Failure as failure:
        complain(failure.problems)
        return failure.status
    except OutOfTime as error:
        complain([error])
        return Status.NO_ANSWER
    except KeyboardInterrupt:
        complain(["interrupted; there is no answer"])
        return Status.INTERRUPTED
    except BrokenPipeError:
        # The reader has enough, as `head` does.
        discard(sys.stdout)
    except OSError as error:
        if error.errno not in _NOT_WRITTEN:
            raise
        complain([f"standard output could not be written: {error.strerror}"])
        discard(sys.stdout)
        return Status.NO_ANSWER
    return Status.OK


if __name__ == "__main__":
    sys.exit(main())
