"""Whether pods and gangs may give way, by labels of KAI and Koordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

_KAI: Final = "kai.scheduler/preemptibility"
_KAI_FIXED: Final = ("non-preemptible", "semi-preemptible")
#: Koordinator's labels, and the value of each that keeps a pod where it is.
_FIXED: Final = (
    ("quota.scheduling.koordinator.sh/preemptible", "false"),
    ("scheduling.koordinator.sh/disable-preemptible", "true"),
)


def says_preemptible(labels: Iterable[Mapping[str, str]]) -> bool | None:
    """What labels say, in the order of their precedence; None when they say nothing."""
    several = tuple(labels)
    for own in several:
        if own.get(_KAI):
            return own[_KAI] not in _KAI_FIXED
    if any(own.get(key) == fixed for own in several for key, fixed in _FIXED):
        return False
    return None
