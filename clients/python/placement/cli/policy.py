"""The policy file: `placement.v1.Policy` as YAML or JSON, in the proto's JSON names."""

from __future__ import annotations

from pathlib import Path

import yaml
from google.protobuf import json_format

from placement.kubernetes import InputError, Problem
from placement.v1 import Policy


def read_policy(path: str) -> Policy:
    """The policy in a file. Raises `InputError`; fields that do not exist are errors."""
    try:
        content = yaml.safe_load(Path(path).read_bytes())
    except OSError as error:
        raise _error(path, f"cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise _error(path, f"is not valid YAML or JSON: {_one_line(error)}") from error
    if content is None:
        return Policy()
    if not isinstance(content, dict):
        raise _error(path, "must be a mapping of fields")
    known = {name for f in Policy.DESCRIPTOR.fields for name in (f.json_name, f.name)}
    if unknown := [key for key in content if key not in known]:
        there_are = ", ".join(f.json_name for f in Policy.DESCRIPTOR.fields)
        message = f"is not a field; there are {there_are}"
        raise InputError(Problem(path, "Policy", str(key), message) for key in unknown)
    try:
        return json_format.ParseDict(content, Policy())
    except json_format.ParseError as error:
        raise _error(path, _one_line(error)) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _error(path: str, message: str) -> InputError:
    return InputError([Problem(path, "Policy", "", message)])
