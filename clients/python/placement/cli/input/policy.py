"""The policy file: `placement.v1.Policy` as YAML or JSON.

Fields have the API's JSON names; choices may leave out the prefix that they all share:
``eviction: PREEMPT``, ``extras: WITH_PRIORITY``.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

import yaml
from google.protobuf import json_format

from placement.cli.input import policy_fields
from placement.kubernetes import InputError, Problem
from placement.kubernetes.files.bounded_files import read_file
from placement.kubernetes.files.yaml_text import Repeated, documents
from placement.v1 import EvictionPolicy, Policy

#: How evictions are called on the command line, in capitals.
EVICTIONS: Final[Mapping[str, EvictionPolicy]] = {
    "NONE": EvictionPolicy.EVICTION_POLICY_NONE,
    "PREEMPT": EvictionPolicy.EVICTION_POLICY_PREEMPT,
    "RECLAIM": EvictionPolicy.EVICTION_POLICY_RECLAIM,
    "REPACK": EvictionPolicy.EVICTION_POLICY_REPACK,
}


def read_policy(path: str) -> Policy:
    """The policy in a file. Raises `InputError`; fields that do not exist are errors."""
    repeated: list[Repeated] = []
    try:
        text = read_file(path).decode("utf-8-sig")
        written_documents = list(documents(text, repeated))
    except OSError as error:
        raise _error(path, f"cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _error(path, f"is not valid YAML or JSON: {_one_line(error)}") from error
    if len(written_documents) > 1:
        raise _error(path, "holds more than one document")
    content = written_documents[0] if written_documents else None
    if content is None:
        return Policy()
    if not isinstance(content, dict):
        raise _error(path, "must be a mapping of fields")
    known = {name: f for f in Policy.DESCRIPTOR.fields for name in (f.json_name, f.name)}
    problems = [Problem(path, "Policy", r.key, "is there twice", r.line) for r in repeated]
    written = {}
    for key, value in content.items():
        if key not in known:
            problems.append(Problem(path, "Policy", str(key), _hint(str(key))))
            continue
        written[key] = _spelled_out(known[key], value)
        wrong = {} if value is None else policy_fields.mistakes(known[key], value)
        problems += [Problem(path, "Policy", f"{key}{at}", what) for at, what in wrong.items()]
    if problems:
        raise InputError(problems)
    try:
        return json_format.ParseDict(written, Policy())
    except json_format.ParseError as error:
        raise _error(path, _one_line(error)) from error


def _hint(key: str) -> str:
    names = [field.json_name for field in Policy.DESCRIPTOR.fields]
    near = get_close_matches(key, names, n=1)
    return "is not a field; " + (
        f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    )


def _spelled_out(field: Any, value: Any) -> Any:
    """A choice with the prefix that all values of its kind have."""
    if field.enum_type is None or not isinstance(value, str):
        return value
    prefix = policy_fields.prefix_of(field)
    return value if value.startswith(prefix) else prefix + value


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _error(path: str, message: str) -> InputError:
    return InputError([Problem(path, "Policy", "", message)])
