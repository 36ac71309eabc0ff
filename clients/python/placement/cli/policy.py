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
        raise _error(path, f"is not valid YAML or JSON: {' '.join(str(error).split())}") from error
    if content is None:
        return Policy()
    if not isinstance(content, dict):
        raise _error(path, "must be a mapping of fields")
    try:
        return json_format.ParseDict(content, Policy())
    except json_format.ParseError as error:
        raise _error(path, str(error)) from error


def _error(path: str, message: str) -> InputError:
    return InputError([Problem(path, "Policy", "", message)])
