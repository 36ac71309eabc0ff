"""Requests that the service saved, and its answers beside them, as input."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, TypeVar

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from placement.cli.failures import wrong_input
from placement.kubernetes.files.bounded_files import read_file
from placement.kubernetes.files.json_text import decoder
from placement.kubernetes.files.loading import files_in
from placement.kubernetes.objects import is_request
from placement.pod_templates import put_templates_inside
from placement.v1 import ComputePlacementRequest, Placement

#: JSON whose first field is not one of a Kubernetes object, which may be large.
_MAY_BE_REQUEST: Final = re.compile(rb"\s*\{(?!\s*\"(apiVersion|kind|items|metadata)\")")

_T = TypeVar("_T")


def saved_alone(
    files: Sequence[str], stdin: IO[bytes] | None
) -> tuple[ComputePlacementRequest, str] | None:
    """The saved request that the input is, and where it is from; None for any other input.

    `stdin` is read where it is the input, and stands at its beginning again. Raises `Failure` for a
    request with mistakes, and for a file of bytes beside others.
    """
    paths = list(files)
    if paths == ["-"] and stdin is not None:
        content = stdin.read()
        stdin.seek(0)
        request = _read(content, "<stdin>", parse_saved)
        return None if request is None else (request, "standard input")
    if len(paths) == 1 and os.path.isdir(paths[0]):
        # The reader of the folder reports what cannot be listed.
        with suppress(OSError):
            paths = list(map(str, files_in(Path(paths[0]))))
    if len(paths) > 1 and (alone := [f for f in paths if f.endswith(".binpb")]):
        raise wrong_input(f"{alone[0]}: is a saved request, which is read without other files")
    if len(paths) != 1 or not Path(paths[0]).is_file():
        return None
    (path,) = paths
    if not path.endswith((".json", ".binpb")):
        return None
    request = _read(path, path, read_saved)
    return None if request is None else (request, path)


def _read(
    origin: _T, name: str, read: Callable[[_T], ComputePlacementRequest | None]
) -> ComputePlacementRequest | None:
    """What `read` finds; raises `Failure` with the name of the origin."""
    try:
        return read(origin)
    except (OSError, ValueError) as error:
        raise wrong_input(f"{name}: {error}") from error


def read_saved(path: str) -> ComputePlacementRequest | None:
    """The request in a file that the service saved; None when it holds something else.

    Raises ValueError when it is a request with mistakes, OSError when it cannot be read.
    """
    content = read_file(path)
    if not path.endswith(".binpb"):
        return parse_saved(content)
    try:
        return _whole(ComputePlacementRequest.FromString(content))
    except DecodeError as error:
        raise ValueError("is not a saved request") from error


def parse_saved(content: bytes) -> ComputePlacementRequest | None:
    """The request in JSON; None when it holds something else. Raises ValueError as above."""
    content = content.removeprefix(codecs.BOM_UTF8)
    if not _MAY_BE_REQUEST.match(content):
        return None
    repeated: list[str] = []
    try:
        text = content.decode()
        body = decoder(len(text), repeated).decode(text)
    except (ValueError, RecursionError):
        return None
    if not is_request(body):
        return None
    if repeated:
        raise ValueError(f"is not a saved request: {repeated[0]} is there twice in one mapping")
    try:
        return _whole(json_format.ParseDict(body, ComputePlacementRequest()))
    except json_format.ParseError as error:
        raise ValueError(f"is not a saved request: {' '.join(str(error).split())}") from error


def _whole(request: ComputePlacementRequest) -> ComputePlacementRequest:
    if request.HasField("base"):
        raise ValueError("base: the request holds changes to a snapshot that is not in the file")
    put_templates_inside(request)
    return request


def read_saved_answer(path: str) -> Placement | None:
    """The answer that the service saved beside a request; None when there is none.

    Raises ValueError when it is none, OSError when it cannot be read.
    """
    beside = Path(f"{path.removesuffix('.binpb')}.answer.binpb")
    if not (path.endswith(".binpb") and beside.exists()):
        return None
    try:
        return Placement.FromString(beside.read_bytes())
    except DecodeError as error:
        raise ValueError(f"{beside.name} beside it is no answer") from error
