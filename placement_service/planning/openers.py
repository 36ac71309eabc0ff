"""Gangs that wait besides, and may open a way for others once they come: pods have to be near
theirs, or spread over domains that they fill, or they end a reservation of which something is left.
"""

from __future__ import annotations

from collections.abc import Collection

from placement_service.entities.request import Snapshot
from placement_service.formulation.rules.reservation_owners import Ownership


def others_may_help(snapshot: Snapshot, wanted: Collection[str]) -> bool:
    """Whether `wanted` gangs may fit together only with pods of others that wait."""
    waiting = [
        (gang, one)
        for gang in snapshot.gangs
        for group in gang.groups
        for one in group.pod_sets
        if one.pods
    ]
    others = [(gang, one) for gang, one in waiting if gang.name not in wanted]
    mine = {one.template for gang, one in waiting if gang.name in wanted}
    near = {term for template in mine for term in template.required_affinity}
    spread = {term for template in mine for term in template.spread_constraints}
    owned = Ownership(snapshot, loose=True)
    return any(
        any(term.matches(gang.namespace, one.template.labels) for term in near)
        or any(term.matches(gang.namespace, one.template.labels) for term in spread)
        or any(snapshot.reservations[i].allocate_once for i in owned.of(gang, one))
        for gang, one in others
    )
