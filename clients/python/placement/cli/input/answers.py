"""Answers that were printed before, read again."""

from __future__ import annotations

import json
import sys
from typing import Any

from placement.cli.failures import Failure, wrong_input
from placement.kubernetes.files.bounded_files import read_file, read_stream
from placement.planning.diff import check


def read_answer(path: str) -> dict[str, Any]:
    """The JSON of `placementctl plan -o json` in a file, or on standard input for ``-``.

    Raises `Failure`.
    """
    if path == "-" and sys.stdin is None:
        raise wrong_input("-: there is no standard input")
    try:
        content = read_stream(sys.stdin.buffer) if path == "-" else read_file(path)
        answer = json.loads(content, parse_constant=_no_number)
    except OSError as error:
        raise wrong_input(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise wrong_input(f"{path}: is not an answer of `placementctl plan -o json`") from error
    except (ValueError, RecursionError) as error:
        raise wrong_input(f"{path}: is not valid JSON: {error}") from error
    if not isinstance(answer, dict):
        raise wrong_input(f"{path}: is not an answer of `placementctl plan -o json`")
    return answer


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def read_answers(*paths: str) -> list[dict[str, Any]]:
    """The answers in several files. Raises `Failure` with what is wrong with each."""
    answers, problems = list[dict[str, Any]](), list[str]()
    for path in paths:
        try:
            answers.append(read_answer(path))
            check(answers[-1])
        except Failure as failure:
            problems += failure.problems
        except ValueError as error:
            problems.append(f"{path}: {error}")
    if problems:
        # The same file may be given twice.
        raise wrong_input(*dict.fromkeys(problems))
    return answers
