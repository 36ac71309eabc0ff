"""`placementctl expand`: the PodGangs and pods that Grove would create."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from placement.cli.failures import warn, wrong_input
from placement.cli.options import options
from placement.cli.options.every_mistake import Command, checked
from placement.cli.writing import write_data, write_text

_EXAMPLES = """\b
Examples:
  placementctl expand -f my-model.yaml
  placementctl expand -f my-model.yaml -o table
  placementctl expand -f my-model.yaml topology-binding.yaml | placementctl plan -f nodes.json -
"""


def _check(values: Mapping[str, Any]) -> Iterator[str]:
    if not values["files"]:
        yield "name files with -f"


@click.command("expand", cls=Command, epilog=_EXAMPLES)
@options.files
@options.strict
@options.without_effect("--server", "--time-limit", "--policy", "--as-of")
@options.output("yaml", "json", "table")
@checked(_check)
def command(files: tuple[str, ...], strict: bool, output: str) -> None:
    """Print the PodGangs and pods that Grove would create from PodCliqueSets."""
    from placement.cli.documents import yaml_documents
    from placement.cli.input.reading import read_objects, standard_input
    from placement.kubernetes import InputError, expand, expand_all

    objects, repeated = read_objects(files, stdin=standard_input(), strict=strict)
    try:
        made = expand(objects)
    except InputError as error:
        raise wrong_input(*error.problems) from error
    warnings = [*repeated, *objects.warnings, *expand_all(objects).warnings]
    warn(warnings if made else [*warnings, "there is no PodCliqueSet to expand"])
    if output == "table":
        write_text(_table(made))
    elif output == "json":
        write_data({"apiVersion": "v1", "kind": "List", "items": made}, "json")
    else:
        write_text(yaml_documents(made), exact=True)


def _table(made: Sequence[Mapping[str, Any]]) -> str:
    """A line for each PodGang: its name, and of its groups how many pods and how many at least."""
    lines = []
    for gang in (one for one in made if one["kind"] == "PodGang"):
        groups = ", ".join(
            f"{group['name']} {len(group['podReferences'])} (min {group['minReplicas']})"
            for group in gang["spec"]["podgroups"]
        )
        lines.append((f"{gang['metadata']['namespace']}/{gang['metadata']['name']}", groups))
    width = max((len(name) for name, _ in lines), default=0)
    return "".join(f"{name:<{width}}  {groups}\n" for name, groups in lines)
