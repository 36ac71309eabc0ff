"""Measurements as JSON, one per line, to be read and compared later."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter

from bench.measurement import Line

_LINE = TypeAdapter(Line)


def to_json(line: Line) -> str:
    return json.dumps(asdict(line))


def read(files: Iterable[Path]) -> list[Line]:
    """All lines of some files; raises pydantic.ValidationError for what is none."""
    return [
        _LINE.validate_json(text)
        for file in files
        for text in file.read_text().splitlines()
        if text.strip()
    ]
