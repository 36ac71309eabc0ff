"""Completion of commands and options, for shells that each cut `--option=value` elsewhere."""

from __future__ import annotations

from typing import Any, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
)

#: The variable with which a shell asks for completions.
VARIABLE: Final = "_PLACEMENTCTL_COMPLETE"


class _Bash(BashComplete):
    """For bash the sign is a word of its own, and only what follows it is completed."""

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        if incomplete == "=" and args:
            return args[:-1], f"{args[-1]}="
        if args[-1:] == ["="] and len(args) > 1:
            return args[:-2], f"{args[-2]}={incomplete}"
        return args, incomplete


class _WholeWord(ShellComplete):
    """Zsh and fish take a completion for the whole word, with the option."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        found = super().get_completions(args, incomplete)
        option, sign, _ = incomplete.partition("=")
        if sign and option.startswith("--"):
            for item in found:
                item.value = f"{option}={item.value}"
        return found


class _Zsh(_WholeWord, ZshComplete):
    """Where zsh looks for files itself, it leaves the option alone."""

    source_template = ZshComplete.source_template.replace(
        "            _path_files -f\n",
        "            compset -P '--*='\n            _path_files -f\n",
    )


class _Fish(_WholeWord, FishComplete):
    """A description may hold a comma, and where fish looks for files it knows no options."""

    source_template = FishComplete.source_template.replace(
        'string split ","', 'string split -m 1 ","'
    ).replace(
        "__fish_complete_path $metadata[2];",
        "set -l option (string match -r -- '^--[^=]+=' $metadata[2]);\n"
        "            __fish_complete_path (string replace -r -- '^--[^=]+=' '' $metadata[2])"
        " | string replace -r -- '^' \"$option\";",
    )


SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def script(cli: click.Command, shell: str) -> str:
    """What the shell runs to have commands and options completed."""
    return _of(cli, shell).source() + "\n"


def completions(cli: click.Command, instruction: str) -> str:
    """What the script of a shell asks for, as ``bash_complete`` in `VARIABLE`."""
    return _of(cli, instruction.partition("_")[0]).complete() + "\n"


def _of(cli: click.Command, shell: str) -> ShellComplete:
    nothing: dict[str, Any] = {}
    return SHELLS[shell](cli, nothing, "placementctl", VARIABLE)
