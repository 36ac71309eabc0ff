"""What counting found: a reason, and what it was counted for."""

from __future__ import annotations

from dataclasses import dataclass

from placement_service.entities.placement import Reason, ReasonCode
from placement_service.explain.capacity_bounds import CLUSTER, Needs

#: By whether a level is required and whether running pods fix its domain.
CAPACITY = {
    (False, False): ReasonCode.INSUFFICIENT_RESOURCES,
    (True, False): ReasonCode.REQUIRED_DOMAIN_TOO_SMALL,
    (True, True): ReasonCode.PINNED_DOMAIN_TOO_SMALL,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A reason, and what was counted for it: needs in a domain of a level."""

    reason: Reason
    needs: Needs
    level: int = CLUSTER
    pin: int = -1
