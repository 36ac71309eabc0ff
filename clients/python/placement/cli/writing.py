"""Answers on standard output: for programs as JSON or YAML, for people as they are."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Any


def write_data(value: Any, form: str) -> None:
    """A value as ``json`` or ``yaml``."""
    if form == "json":
        import json

        write_text(json.dumps(value, indent=2) + "\n", exact=True)
    else:
        from placement.cli.documents import yaml_documents

        write_text(yaml_documents([value], explicit_start=False), exact=True)


def write_text(text: str, *, exact: bool = False) -> None:
    """A text; `exact` for programs, which read UTF-8 whatever the locale.

    A terminal shows what it can.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        if exact:
            sys.stdout.reconfigure(encoding="utf-8")
        else:
            sys.stdout.reconfigure(errors="replace")
    sys.stdout.write(text)
    sys.stdout.flush()
