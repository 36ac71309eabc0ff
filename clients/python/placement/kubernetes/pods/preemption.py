"""Whether pods and gangs may give way, by labels of KAI and Koordinator, and whether they preempt.

KAI's API server checks no label, so a word with a slip reaches us: what its writer wanted to keep
is not disturbed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from placement.kubernetes.values.reading import At

KAI_LABEL: Final = "kai.scheduler/preemptibility"
#: KAI's words, and whether a gang that says so may give way
#: (the minimum of a semi-preemptible one may not be disturbed; its extras stay as well).
KAI_WORDS: Final = {"preemptible": True, "non-preemptible": False, "semi-preemptible": False}
#: Koordinator's labels, and the value of each that keeps a pod where it is.
_FIXED: Final = (
    ("quota.scheduling.koordinator.sh/preemptible", "false"),
    ("scheduling.koordinator.sh/disable-preemptible", "true"),
)
#: All labels that say whether a pod may give way.
LABELS: Final = (KAI_LABEL, *(label for label, _ in _FIXED))
_POLICIES: Final = ("PreemptLowerPriority", "Never")


def says_never(policy: At) -> bool:
    """Whether a `preemptionPolicy` keeps its pods from preempting others."""
    return not policy.absent and policy.choice("", _POLICIES) == "Never"


def says_preemptible(labels: Iterable[Mapping[str, str]]) -> bool | None:
    """What labels say, in the order of their precedence; None when they say nothing."""
    several = tuple(labels)
    for own in several:
        if own.get(KAI_LABEL):
            return KAI_WORDS.get(own[KAI_LABEL], False)
    if any(own.get(key) == fixed for own in several for key, fixed in _FIXED):
        return False
    return None
