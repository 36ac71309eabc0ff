"""YAML as Kubernetes reads it. Documents as programs write them are read line by line, and all
others by the parser, which is several times slower.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import yaml

from placement.kubernetes.files import yaml_lines
from placement.kubernetes.files.yaml_parser import Repeated, UnfoldsTooFarError, parsed

__all__ = ["Repeated", "UnfoldsTooFarError", "documents"]

#: Where a document begins.
_BEGINNING: Final = re.compile(r"^---(?=[ \t\n]|\Z)", re.MULTILINE)

#: Characters that may not be there, or end a line as `\n` does.
_UNUSUAL: Final = re.compile(
    r"[^\n\t\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


def documents(text: str, repeated: list[Repeated] | None = None) -> Iterator[Any]:
    """The values of all documents of a text. Of a key that is repeated the last value counts, and
    it is added to `repeated`.

    Raises `yaml.YAMLError` for what is no YAML, `UnfoldsTooFarError`, `RecursionError` where it
    nests too deeply, and `ValueError` for values that make no sense, such as keys that are
    mappings.
    """
    # Directives, and ends of documents, matter to the documents behind them.
    if _UNUSUAL.search(text) or text.startswith(("%", "...")) or "\n%" in text or "\n..." in text:
        yield from parsed(text, repeated)
        return
    starts = [0, *(match.start() for match in _BEGINNING.finditer(text)), len(text)]
    words = yaml_lines.Words()
    line = 0
    for start, end in pairwise(starts):
        part = text[start:end]
        found: list[Repeated] = []
        try:
            values = yaml_lines.read(part, words, found)
        except yaml_lines.NotByLinesError:
            found = []
            try:
                values = list(parsed(part, found))
            except yaml.YAMLError:
                # With all that follows, and every line at its number, for the message.
                yield from parsed("\n" * line + text[start:], repeated)
                raise
        yield from values
        if repeated is not None:
            repeated += [
                one if one.line is None else one._replace(line=one.line + line) for one in found
            ]
        line += part.count("\n")
