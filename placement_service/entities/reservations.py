"""Reservations: room on a node that is held for owners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from placement_service.entities.selectors import Labels, LabelSelector, NodeSelectorTerm


@dataclass(frozen=True, slots=True)
class ReservationOwner:
    """Names pods; all its parts must match, and an empty part always does."""

    gang: str = ""
    pod: str = ""
    namespace: str = ""
    selector: LabelSelector | None = None

    def matches(self, *, gang: str, pod: str, namespace: str, labels: Labels) -> bool:
        return (
            (not self.gang or self.gang == gang)
            and (not self.pod or self.pod == pod)
            and (not self.namespace or self.namespace == namespace)
            and (self.selector is None or self.selector.matches(labels))
        )


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room that is held on a node; `held` is what no pod uses of it yet.

    `restricted`: a pod gets no more than `held` of what `held` lists, which may be nothing.
    `allocate_once`: one pod uses it up, and what that leaves over is free.
    `closed`: it takes no new pods but still holds its room.
    """

    name: str
    node: str
    held: Mapping[str, int] = field(default_factory=dict)
    owners: tuple[ReservationOwner, ...] = ()
    restricted: bool = False
    allocate_once: bool = False
    labels: Labels = field(default_factory=dict)
    closed: bool = False
    devices: tuple[int, ...] = ()

    @property
    def short_name(self) -> str:
        """The name without the ``reservations/`` in front."""
        return self.name.removeprefix("reservations/")


@dataclass(frozen=True, slots=True)
class ReservationSelector:
    """Matches a reservation by its name, else by any of the terms, and without either each one."""

    name: str = ""
    terms: tuple[NodeSelectorTerm, ...] = ()

    def matches(self, reservation: Reservation) -> bool:
        if self.name:
            return self.name == reservation.name
        return not self.terms or any(
            term.matches(reservation.short_name, reservation.labels) for term in self.terms
        )
