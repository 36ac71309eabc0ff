"""Other gangs that wait, and may let a gang in once they come: its pods have to be near theirs, or
are spread over domains that they fill, or they end a reservation of which something is left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from placement_service.entities.request import PodTemplate, Snapshot
from placement_service.formulation.matching.pod_selectors import PodSelectors, Term
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
    selectors = PodSelectors(snapshot)
    there = [selectors.position(gang.namespace, one.template) for gang, one in others]
    mine = {one.template for gang, one in waiting if gang.name in wanted}
    terms = {term for template in mine for term in _terms(template)}
    owned = Ownership(snapshot, loose=True)
    return any(selectors.matched(term)[there].any() for term in terms) or any(
        snapshot.reservations[i].allocate_once for gang, one in others for i in owned.of(gang, one)
    )


def _terms(template: PodTemplate) -> Iterator[Term]:
    """The pods of others that its pods need."""
    yield from template.required_affinity
    yield from template.spread_constraints
