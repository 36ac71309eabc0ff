"""Files, folders and standard input to `Objects`.

Takes what people have: YAML with several documents, JSON, lists, the output of
``kubectl get ... -o json``, folders of all that. JSON goes through the JSON
parser, since a snapshot of a large cluster is a hundred times slower as YAML.
A file that cannot be read or parsed is a problem, and the others are read on.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import yaml

from placement.kubernetes.objects import Objects, collect, flatten
from placement.kubernetes.problems import Problem

STDIN: Final = "-"
_STDIN_NAME: Final = "<stdin>"
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})

#: A document with aliases (`*name`) may unfold to no more values than this.
_MOST_UNFOLDED_VALUES: Final = 2_000_000

#: An escape that may be half a character: what JSON lets through and no encoding can write.
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")

_Found = tuple[str, int, Any]


# The parser in C when PyYAML was built with it: ten times faster.
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _KubernetesLoader(_BASE):  # type: ignore[misc]
    """Plain YAML, except that dates stay the strings that Kubernetes sees."""

    yaml_implicit_resolvers: Final = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in _BASE.yaml_implicit_resolvers.items()
    }


def load(paths: Sequence[str], *, stdin: IO[str] | IO[bytes] | None = None) -> Objects:
    """Reads all objects of the kinds that are known.

    A path is a file, a folder (all its ``*.yaml``, ``*.yml`` and ``*.json`` files,
    recursively, in order of path) or ``-`` for `stdin`. Never raises for bad
    input: what is wrong is in `Objects.problems`.
    """
    problems: list[Problem] = []
    found: list[_Found] = []
    with _collector_paused():
        for file, text in _texts(paths, stdin, problems):
            found += _parse(file, text, problems)
    return collect(found, problems)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection meanwhile.

    Parsing makes millions of containers and no cycles; looking for some among
    them takes longer than the parsing itself.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _texts(
    paths: Iterable[str], stdin: IO[str] | IO[bytes] | None, problems: list[Problem]
) -> Iterator[tuple[str, str]]:
    for path in paths:
        if path == STDIN:
            if stdin is None:
                problems.append(Problem(_STDIN_NAME, "", "", "there is no standard input"))
            else:
                yield from _decoded(_STDIN_NAME, stdin.read(), problems)
            continue
        place = Path(path)
        try:
            files = [place]
            if place.is_dir():
                files = sorted(f for f in place.rglob("*") if f.suffix in _SUFFIXES and f.is_file())
                if not files:
                    problems.append(Problem(path, "", "", "holds no .yaml, .yml or .json file"))
            contents = [(str(f), f.read_bytes()) for f in files]
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            problems.append(Problem(path, "", "", f"cannot be read: {reason}"))
            continue
        for name, content in contents:
            yield from _decoded(name, content, problems)


def _decoded(file: str, content: str | bytes, problems: list[Problem]) -> Iterator[tuple[str, str]]:
    if isinstance(content, str):
        yield file, content
        return
    try:
        yield file, content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problems.append(Problem(file, "", "", "is not text in UTF-8", line))


def _parse(file: str, text: str, problems: list[Problem]) -> Iterator[_Found]:
    """The objects of one text, with the documents that could be parsed before an error."""
    documents: list[Any] = []
    json_error: json.JSONDecodeError | None = None
    try:
        if text.lstrip().startswith(("{", "[")):
            try:
                documents = _json(text)
            except json.JSONDecodeError as error:
                # It may still be YAML, whose flow style looks alike.
                json_error = error
        if not documents:
            for document in yaml.load_all(text, Loader=_KubernetesLoader):
                if _unfolds_too_far(document, text):
                    problems.append(Problem(file, "", "", "its YAML aliases unfold too far"))
                else:
                    documents += document if isinstance(document, list) else [document]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(filter(None, (error.context, error.problem)))
        line = mark.line + 1 if mark is not None else None
        if json_error is not None:
            what, line = json_error.msg, json_error.lineno
        form = "YAML" if json_error is None else "JSON"
        problems.append(Problem(file, "", "", f"is not valid {form}: {what}", line))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problems.append(Problem(file, "", "", f"is not valid YAML: {error.reason}", line))
    except (RecursionError, ValueError) as error:
        what = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        problems.append(Problem(file, "", "", f"cannot be parsed: {what}"))
    if _SURROGATE.search(text) and not _can_be_written(documents):
        problems.append(Problem(file, "", "", "holds an escape for half a character"))
        documents = []
    objects = flatten(d for d in documents if d is not None)
    return ((file, index, body) for index, body in enumerate(objects))


def _json(text: str) -> list[Any]:
    """All JSON values of a text, arrays taken apart.

    Several values may follow each other, as when outputs are concatenated.
    """
    decoder = json.JSONDecoder()
    values: list[Any] = []
    position = _next_text(text, 0)
    while position < len(text):
        value, position = decoder.raw_decode(text, position)
        values += value if isinstance(value, list) else [value]
        position = _next_text(text, position)
    return values


def _can_be_written(documents: list[Any]) -> bool:
    try:
        json.dumps(documents, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return False
    return True


def _next_text(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _unfolds_too_far(document: Any, text: str) -> bool:
    """Whether aliases make a small text stand for a huge, or endless, document."""
    if "*" not in text or "&" not in text:
        return False
    left = _MOST_UNFOLDED_VALUES
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            left -= len(value)
            waiting += value.values()
        elif isinstance(value, list):
            left -= len(value)
            waiting += value
        if left < 0:
            return True
    return False
