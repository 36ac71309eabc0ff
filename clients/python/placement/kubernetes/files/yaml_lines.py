"""YAML as programs write it, read line by line: a line has dashes, a key and a value, or some of
these.

What does not look like that is given to the parser: one value, such as a text of many lines or a
list in brackets, or the whole document. What can be read here means the same to the parser.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import yaml

from placement.kubernetes.files.yaml_parser import Repeated, is_plain_string, parsed

#: Blanks, dashes, a key, and the rest.
_LINE: Final = re.compile(
    r"( *)((?:-(?: +|$))*)"
    r"(?:(\"[^\"\\]*\"|'[^']*'|[A-Za-z0-9_./$][^\s:#]*(?::[^\s:#]+)*):(?: +|$))?(.*)"
)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./~+$(^;\\]|-\S")
#: What ends a plain word, or is no part of it.
_NOT_PLAIN: Final = re.compile(r": |:$| #| $|\t")
_DOUBLE_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\[\\"nrt])*"')
_SINGLE_QUOTED: Final = re.compile(r"'(?:[^']|'')*'")

#: The parser takes no longer word as a key.
_LONGEST_KEY: Final = 1000
#: Nothing of Kubernetes is deeper; the parser knows how deep is too deep.
_DEEPEST: Final = 100

#: Words that are remembered: most are there many times.
_MOST_REMEMBERED: Final = 200_000


class NotByLinesError(Exception):
    """The document, or the value, has to be given to the parser."""


class Words(dict[str, Any]):
    """What keys and values of one line mean. Raises `NotByLinesError` where only the parser knows
    it."""

    def __missing__(self, text: str) -> Any:
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        self[text] = meaning = _meaning(text)
        return meaning


def read(text: str, words: Words, repeated: list[Repeated]) -> list[Any]:
    """The value of a text with at most one document, if it has one. The text may begin with `---`.
    Keys that are repeated are added.

    Raises `NotByLinesError`.
    """
    lines = text.split("\n")
    marked = lines[0].startswith("---")
    if marked:
        if lines[0] != "---":
            raise NotByLinesError
        lines[0] = ""
    root: list[Any] = [None]
    has_content = _fill(root, lines, words, repeated)
    return root if has_content or marked else []


def _fill(root: list[Any], lines: list[str], words: Words, repeated: list[Repeated]) -> bool:
    """Writes the value of the document into the list. Whether there is any."""
    # The lists and mappings that are open, outermost first, and the column of each.
    columns: list[int] = [-1]
    opened: list[Any] = [root]
    # The value that was read last is at `key` of `container`. It begins in the line `began` with
    # `written`; where it is `open`, the next line may hold it.
    container: Any = root
    key: Any = 0
    began, written, is_open = -1, "", True
    at = 0
    while at < len(lines):
        blanks, dashes, name, rest = _LINE.match(lines[at]).groups()  # type: ignore[union-attr]
        column = len(blanks)
        if not dashes and not name:
            if rest and rest[0] != "#":
                # The last value has more lines than one.
                after, container[key] = _long(lines, began, written, columns[-1], repeated)
                if after <= at:
                    raise NotByLinesError
                at, is_open = after, False
            else:
                at += 1
            continue

        # 1. Where the line belongs.
        while columns[-1] > column:
            columns.pop()
            opened.pop()
        top = opened[-1]
        fills = is_open and container is top
        if dashes:
            if fills and (columns[-1] < column or type(top) is dict):
                container = top[key] = []
                columns.append(column)
                opened.append(container)
            elif columns[-1] == column and type(top) is list:
                container = top
            else:
                raise NotByLinesError
            container.append(None)
            key = len(container) - 1
            for place in range(1, len(dashes)):
                if dashes[place] == "-":
                    container[key] = [None]
                    container, key = container[key], 0
                    columns.append(column + place)
                    opened.append(container)
            if name:
                container[key] = {}
                container = container[key]
                columns.append(column + len(dashes))
                opened.append(container)
        elif columns[-1] < column:
            if not fills:
                raise NotByLinesError
            container = top[key] = {}
            columns.append(column)
            opened.append(container)
        else:
            if type(top) is list:
                # A list may stand as far left as the key that it belongs to.
                columns.pop()
                opened.pop()
            container = opened[-1]
            if columns[-1] != column or type(container) is not dict:
                raise NotByLinesError
        if len(columns) > _DEEPEST or (name and len(name) > _LONGEST_KEY):
            raise NotByLinesError

        # 2. The key.
        if name:
            key = words[name]
            if key in container:
                repeated.append(Repeated(str(key), at + 1))

        # 3. The value.
        began, written = at, "" if rest[:1] == "#" else rest
        is_open = not written
        at += 1
        if is_open:
            container[key] = None
        elif written == "{}":
            container[key] = {}
        elif written == "[]":
            container[key] = []
        else:
            try:
                container[key] = words[written]
            except NotByLinesError:
                at, container[key] = _long(lines, began, written, columns[-1], repeated)
    return began >= 0


def _meaning(text: str) -> Any:
    if text[0] == '"':
        if not _DOUBLE_QUOTED.fullmatch(text):
            raise NotByLinesError
        return json.loads(text, strict=False)
    if text[0] == "'":
        if not _SINGLE_QUOTED.fullmatch(text):
            raise NotByLinesError
        return text[1:-1].replace("''", "'")
    if not _PLAIN.match(text) or _NOT_PLAIN.search(text):
        raise NotByLinesError
    return text if is_plain_string(text) else _parsed(text)


def _long(
    lines: list[str], began: int, written: str, column: int, repeated: list[Repeated]
) -> tuple[int, Any]:
    """The value that begins with what is written in the line where it began, and goes on in the
    lines that are right of the column; and the line behind it.
    """
    # Behind a dash the parser takes no tab; behind a key it does.
    if column < 0 or written.startswith("\t"):
        raise NotByLinesError
    end = began + 1
    indented = " " * (column + 1)
    while end < len(lines) and (lines[end].startswith(indented) or not lines[end].strip(" ")):
        end += 1
    more = [line[column:] for line in lines[began + 1 : end]]
    text = "\n".join([f"value: {written}", *more, *([""] if end < len(lines) else [])])
    if "&" in text and written[:1] not in ("|", ">", "'", '"'):
        # An anchor, perhaps of what is elsewhere.
        raise NotByLinesError
    found: list[Repeated] = []
    value = _parsed(text, found)
    if not isinstance(value, dict) or list(value) != ["value"]:
        raise NotByLinesError
    repeated += [one._replace(line=began + (one.line or 1)) for one in found]
    return end, value["value"]


def _parsed(text: str, repeated: list[Repeated] | None = None) -> Any:
    try:
        (value,) = parsed(text, repeated)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise NotByLinesError from error
    return value
