"""Pods that may run on fewer nodes than they say, because of the queue that they are in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

#: The field of node affinity that has to hold.
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def narrowed(affinity: Any, labels: Iterable[set[tuple[str, str]]]) -> dict[str, Any] | None:
    """Affinity to nodes with any of these sets of labels, too; None where it is malformed."""
    try:
        near = affinity.get("nodeAffinity") or {}
        terms = (near.get(REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
        changed = [
            {
                **term,
                "matchExpressions": [
                    *(term.get("matchExpressions") or []),
                    *({"key": k, "operator": "In", "values": [v]} for k, v in sorted(of)),
                ],
            }
            for term in terms
            for of in labels
        ]
    except (AttributeError, TypeError):
        return None
    required = {REQUIRED: {"nodeSelectorTerms": changed}}
    return {**affinity, "nodeAffinity": {**near, **required}}
