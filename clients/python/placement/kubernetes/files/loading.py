"""Files, folders and standard input to `Objects`.

Reads what people have: YAML with several documents, JSON, lists, the output of
``kubectl get ... -o json``, snapshot archives of KAI, gzip, ZIP, folders of all that. JSON
goes through the JSON parser, which is several times faster. A file that cannot be read or parsed is
a problem, and the others are read on.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

import yaml

from placement.kubernetes.files.archives import SUFFIXES, ArchiveError, is_archive, unpacked
from placement.kubernetes.files.bounded_files import read_file, read_stream
from placement.kubernetes.files.json_text import decoder
from placement.kubernetes.files.yaml_text import Repeated, UnfoldsTooFarError, documents
from placement.kubernetes.objects import Objects, collect, flatten
from placement.kubernetes.problems import Problem

STDIN: Final = "-"
_STDIN_NAME: Final = "<stdin>"

#: Characters of a parser's message, which may repeat a line of any length.
_LONGEST_REASON: Final = 200

#: An escape that may be half a character: JSON allows it, and no encoding can write it.
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")

_Found = tuple[str, int, Any]


def load(
    paths: Sequence[str], *, stdin: IO[str] | IO[bytes] | None = None, strict: bool = False
) -> Objects:
    """Reads all objects of the kinds that are known.

    A path is a file, a folder (all its ``*.yaml``, ``*.yml`` and ``*.json`` files,
    recursively, in order of path), gzip or ZIP of such files, a snapshot archive of KAI, or
    ``-`` for `stdin`.
    Never raises for bad input: what is wrong is in `Objects.problems`. Fields that no
    definition knows are in `Objects.warnings`, or with `strict` among the problems.
    """
    problems: list[Problem] = []
    warnings: list[Problem] = []
    with _collector_paused():
        found = list(_found(paths, stdin, problems, problems if strict else warnings))
    return collect(found, problems, warnings, check_fields=True, strict=strict)


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


def _found(
    paths: Iterable[str],
    stdin: IO[str] | IO[bytes] | None,
    problems: list[Problem],
    slips: list[Problem],
) -> Iterator[_Found]:
    """The objects of all paths, numbered within each file."""
    for file, content in _contents(paths, stdin, problems):
        if isinstance(content, str):
            text = content
        elif is_archive(content):
            try:
                for name, inside, skipped in unpacked(content):
                    slips += [
                        Problem(file, "", f"rawObjects.{key}", "skipped: it is not read")
                        for key in skipped
                    ]
                    within = f"{file}/{name}" if name else file
                    if isinstance(inside, str):
                        yield from _parse(within, inside, problems, slips)
                    else:
                        yield from _numbered(within, inside)
            except ArchiveError as error:
                problems.append(Problem(file, "", "", str(error)))
            continue
        else:
            try:
                text = content.decode("utf-8-sig")
            except UnicodeDecodeError as error:
                line = content.count(b"\n", 0, error.start) + 1
                problems.append(Problem(file, "", "", "is not text in UTF-8", line))
                continue
        # A list of a large cluster is hundreds of megabytes, and so are its objects.
        del content
        found = _parse(file, text, problems, slips)
        del text
        yield from found


def files_in(folder: Path) -> list[Path]:
    """The files of a folder, and of those in it, that are read. Raises OSError.

    A file that links lead to is read once, as in the volume of a ConfigMap, where each is a link to
    one in a folder beside it.
    """
    found = [file for file in folder.rglob("*") if file.suffix in SUFFIXES and file.is_file()]
    outermost = sorted(found, key=lambda file: (len(file.parts), file))
    return sorted({file.resolve(): file for file in reversed(outermost)}.values())


def _contents(
    paths: Iterable[str], stdin: IO[str] | IO[bytes] | None, problems: list[Problem]
) -> Iterator[tuple[str, str | bytes]]:
    for path in paths:
        if not path:
            problems.append(Problem("", "", "", "the path of a file is empty"))
            continue
        if path == STDIN:
            if stdin is None:
                problems.append(Problem(_STDIN_NAME, "", "", "there is no standard input"))
                continue
            try:
                yield _STDIN_NAME, read_stream(stdin)
            except ValueError as error:
                problems.append(Problem(_STDIN_NAME, "", "", str(error)))
            continue
        place = Path(path)
        files = [place]
        if place.is_dir():
            try:
                files = files_in(place)
            except OSError as error:
                problems.append(_unreadable(path, error))
                continue
            if not files:
                problems.append(Problem(path, "", "", "holds no .yaml, .yml or .json file"))
        for file in files:
            try:
                # Nothing here holds the content: it may be large.
                yield str(file), read_file(file)
            except (OSError, ValueError) as error:
                problems.append(_unreadable(str(file), error))


def _unreadable(path: str, error: OSError | ValueError) -> Problem:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return Problem(path, "", "", f"cannot be read: {reason}")


def _parse(file: str, text: str, problems: list[Problem], slips: list[Problem]) -> Iterator[_Found]:
    """The objects of one text, with the documents that could be parsed before an error; `slips` are
    keys that are there twice.
    """
    parsed: list[Any] = []
    repeated: list[Repeated] = []
    json_error: json.JSONDecodeError | None = None
    try:
        if text.lstrip().startswith(("{", "[")):
            try:
                parsed = _json(text, repeated)
            except json.JSONDecodeError as error:
                # It may still be YAML, whose flow style looks alike.
                json_error = error
        if not parsed:
            for document in documents(text, repeated):
                parsed += document if isinstance(document, list) else [document]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(filter(None, (error.context, error.problem)))[:_LONGEST_REASON]
        line = mark.line + 1 if mark is not None else None
        if json_error is not None:
            what, line = json_error.msg, json_error.lineno
        if "{{" in text:
            what += "; it looks like a template, which has to be rendered first"
        form = "YAML" if json_error is None else "JSON"
        problems.append(Problem(file, "", "", f"is not valid {form}: {what}", line))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problems.append(Problem(file, "", "", f"is not valid YAML: {error.reason}", line))
    except UnfoldsTooFarError as error:
        problems.append(Problem(file, "", "", str(error)))
    except (RecursionError, ValueError) as error:
        what = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        problems.append(Problem(file, "", "", f"cannot be parsed: {what}"))
    what = "is there twice in one mapping; the last one counts"
    slips += [Problem(file, "", one.key, what, one.line) for one in repeated]
    if _SURROGATE.search(text) and not _can_be_written(parsed):
        problems.append(Problem(file, "", "", "holds an escape for half a character"))
        parsed = []
    return _numbered(file, parsed)


def _numbered(file: str, bodies: Iterable[Any]) -> Iterator[_Found]:
    objects = flatten(body for body in bodies if body is not None)
    return ((file, index, body) for index, body in enumerate(objects))


def _json(text: str, repeated: list[Repeated]) -> list[Any]:
    """All JSON values of a text, arrays taken apart; keys that are there twice are added.

    Several values may follow each other, as when outputs are concatenated.
    """
    keys: list[str] = []
    decode = decoder(len(text), keys).raw_decode
    values: list[Any] = []
    position = _next_text(text, 0)
    while position < len(text):
        value, position = decode(text, position)
        values += value if isinstance(value, list) else [value]
        position = _next_text(text, position)
    if keys:
        repeated += _with_lines(text, keys)
    return values


def _with_lines(text: str, keys: list[str]) -> list[Repeated]:
    """The keys with their lines, which only the reader of YAML knows, and JSON mostly is YAML."""
    found: list[Repeated] = []
    with suppress(yaml.YAMLError, ValueError, RecursionError):
        for _ in documents(text, found):
            pass
    return found if len(found) == len(keys) else [Repeated(key, None) for key in keys]


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
