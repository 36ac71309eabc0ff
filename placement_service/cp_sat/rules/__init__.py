"""What the rules of `formulation.rules` post to the exact model, each under its own name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from placement_service.cp_sat.rules import (
    affinity,
    domain_capacity,
    exclusion,
    exclusive_groups,
    reserved_room,
    spread,
)
from placement_service.cp_sat.rules.counts import DomainCounts
from placement_service.formulation.rules.affinity import Affinity
from placement_service.formulation.rules.domain_capacity import DomainCapacity
from placement_service.formulation.rules.exclusion import Exclusion
from placement_service.formulation.rules.exclusive_groups import ExclusiveGroups
from placement_service.formulation.rules.protocol import Rule
from placement_service.formulation.rules.reserved_room import ReservedRoom
from placement_service.formulation.rules.spread import Spread

_POST: Mapping[type[Rule], Callable[[DomainCounts, Any], None]] = {
    DomainCapacity: domain_capacity.post,
    Exclusion: exclusion.post,
    ExclusiveGroups: exclusive_groups.post,
    Spread: spread.post,
    Affinity: affinity.post,
    ReservedRoom: reserved_room.post,
}


def post(model: DomainCounts, rule: Rule) -> None:
    """Constrain the model to plans under which the rule holds."""
    _POST[type(rule)](model, rule)
