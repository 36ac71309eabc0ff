"""The claims of volumes in reasons.

To the engine the place of a volume is node affinity, as if the pod had asked for it. Readers of a
reason look for the claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from placement_service.entities.placement import Reason, ReasonCode
from placement_service.explain import wording as words

#: Reasons that count nodes and what is free on them.
_COUNTED: Final = frozenset(
    {
        ReasonCode.NO_ELIGIBLE_NODE,
        ReasonCode.INSUFFICIENT_RESOURCES,
        ReasonCode.DEVICES,
        ReasonCode.RESERVED,
        ReasonCode.REQUIRED_DOMAIN_TOO_SMALL,
        ReasonCode.PINNED_DOMAIN_TOO_SMALL,
        ReasonCode.POD_RULES,
        ReasonCode.NO_COMBINATION,
    }
)


def with_claims(reasons: Sequence[Reason], claims: Sequence[str]) -> tuple[Reason, ...]:
    """The reasons of a gang, the first of which about room names the claims that tie its pods."""
    told = tuple(reasons)
    at = next((i for i, reason in enumerate(told) if reason.code in _COUNTED), None)
    if at is None or not claims:
        return told
    message = f"{told[at].message} {_sentence(claims)}"
    return (*told[:at], replace(told[at], message=message), *told[at + 1 :])


def _sentence(claims: Sequence[str]) -> str:
    if len(claims) == 1:
        return f"PersistentVolumeClaim {claims[0]} ties a pod to nodes."
    return f"PersistentVolumeClaims {words.listed(claims)} tie pods to nodes."
