"""`placementctl expand`: the PodGangs and pods that Grove would create."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from placement.cli import options
from placement.cli.every_mistake import Command, checked
from placement.cli.failures import warn, wrong_input
from placement.cli.writing import write_text

_EXAMPLES = """\b
Examples:
  placementctl expand -f my-model.yaml
  placementctl expand -f my-model.yaml topology-binding.yaml | placementctl plan -f nodes.json -
"""


def _check(values: Mapping[str, Any]) -> Iterator[str]:
    if not values["files"]:
        yield "name files with -f"


@click.command("expand", cls=Command, epilog=_EXAMPLES)
@options.files
@options.strict
@checked(_check)
def command(files: tuple[str, ...], strict: bool) -> None:
    """Print the PodGangs and pods that Grove would create from PodCliqueSets, as YAML."""
    from placement.cli.documents import yaml_documents
    from placement.cli.reading import read_objects, standard_input
    from placement.kubernetes import InputError, expand, expand_all

    objects, repeated = read_objects(files, stdin=standard_input(), strict=strict)
    try:
        made = expand(objects)
    except InputError as error:
        raise wrong_input(*error.problems) from error
    warnings = [*repeated, *objects.warnings, *expand_all(objects).warnings]
    warn(warnings if made else [*warnings, "there is no PodCliqueSet to expand"])
    write_text(yaml_documents(made), exact=True)
