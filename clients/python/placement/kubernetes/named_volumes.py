"""The claims of volumes in reasons.

To the service all node affinity is alike, whether the pod asks for it or one of its volumes does.
Readers of a reason want to know the claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from placement import v1
from placement.kubernetes.pods import Pod

#: The claims that tie waiting pods of a gang to nodes, by the gang's name in the request.
ClaimsOfGangs = Mapping[str, tuple[str, ...]]

#: Claims that are named; further ones are only counted.
_MOST: Final = 5

_Code = v1.ReasonCode
#: Reasons that count nodes and what is free on them.
_COUNTED: Final = frozenset(
    {
        _Code.REASON_CODE_NO_ELIGIBLE_NODE,
        _Code.REASON_CODE_INSUFFICIENT_RESOURCES,
        _Code.REASON_CODE_DEVICES,
        _Code.REASON_CODE_RESERVED,
        _Code.REASON_CODE_REQUIRED_DOMAIN_TOO_SMALL,
        _Code.REASON_CODE_PINNED_DOMAIN_TOO_SMALL,
        _Code.REASON_CODE_POD_RULES,
        _Code.REASON_CODE_NO_COMBINATION,
    }
)


def claims_of(gang: str, waiting: Iterable[Pod]) -> dict[str, tuple[str, ...]]:
    """The entry of a gang with these waiting pods; none where no volume ties them."""
    names = dict.fromkeys(name for pod in waiting for name in pod.needs.tied_by)
    return {gang: tuple(names)} if names else {}


def with_claims(placement: v1.Placement, claims: ClaimsOfGangs) -> v1.Placement:
    """The placement, whose first reason about room names the claims of the gang."""
    if not any(gang.reasons and gang.name in claims for gang in placement.gangs):
        return placement
    result = v1.Placement()
    result.CopyFrom(placement)
    for gang in result.gangs:
        counted = (reason for reason in gang.reasons if reason.code in _COUNTED)
        first = next(counted, None) if gang.name in claims else None
        if first is not None:
            first.message += f" {_sentence(claims[gang.name])}"
    return result


def _sentence(names: tuple[str, ...]) -> str:
    if len(names) == 1:
        return f"PersistentVolumeClaim {names[0]} ties a pod to nodes."
    shown = [*names[:_MOST], *([f"{len(names) - _MOST} more"] if len(names) > _MOST else [])]
    return f"PersistentVolumeClaims {', '.join(shown[:-1])} and {shown[-1]} tie pods to nodes."
