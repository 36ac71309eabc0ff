"""Plain values as YAML, for people and for `kubectl apply`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

# The writer in C when PyYAML was built with it: ten times faster.
_BASE: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BASE):  # type: ignore[misc]
    """Writes shared values out each time: readers need not know anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def yaml_documents(documents: Iterable[Any], *, explicit_start: bool = True) -> str:
    """The documents in order, each started by ``---`` unless told otherwise."""
    text: str = yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        explicit_start=explicit_start,
        width=100,
    )
    return text
