"""Room that is held for owners."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from placement_service.entities.request import CPU, PodTemplate, Snapshot
from placement_service.entities.reservations import (
    Reservation,
    ReservationOwner,
    ReservationSelector,
)
from placement_service.entities.selectors import LabelSelector
from tests.strategies.words import APPS, GPU, NAMESPACE, rarely

_owners = st.one_of(
    st.builds(
        ReservationOwner,
        selector=st.builds(lambda app: LabelSelector((("app", app),)), st.sampled_from(APPS)),
    ),
    st.builds(
        ReservationOwner,
        gang=st.sampled_from([f"namespaces/{NAMESPACE}/podgangs/{g}" for g in ("g0", "new0")]),
    ),
    st.builds(
        ReservationOwner,
        pod=st.sampled_from([f"namespaces/{NAMESPACE}/pods/{p}" for p in ("g0-0-0", "new0-0")]),
    ),
    st.just(ReservationOwner(namespace=NAMESPACE)),
    st.just(ReservationOwner(namespace="other")),
)


@st.composite
def with_reservations(draw: st.DrawFn, questions: st.SearchStrategy[Snapshot]) -> Snapshot:
    """Questions in which up to two nodes hold room, mostly room that is free."""
    snapshot = draw(questions)
    reservations = []
    for k in range(draw(st.integers(1, 2))):
        node = draw(st.sampled_from(snapshot.nodes))
        held = {GPU: draw(st.integers(1, 4))}
        if draw(rarely):
            held[CPU] = 1
        free = {r: max(0, node.free(r)) for r in held}
        reservations.append(
            Reservation(
                f"reservations/r{k}",
                node.name,
                held if draw(rarely) else {r: min(held[r], free[r]) for r in held},
                tuple(draw(st.lists(_owners, min_size=1, max_size=2, unique=True))),
                restricted=draw(st.booleans()),
                allocate_once=draw(st.booleans()),
                labels={"team": draw(st.sampled_from(APPS))},
                closed=draw(rarely),
            )
        )

    def template(old: PodTemplate) -> PodTemplate:
        if draw(rarely):
            return replace(old, ignores_reservations=True)
        if draw(rarely):
            name = draw(st.sampled_from(("", "reservations/r0")))
            return replace(old, required_reservation=ReservationSelector(name))
        return old

    gangs = [
        replace(
            gang,
            groups=tuple(
                replace(
                    group,
                    pod_sets=tuple(
                        replace(s, template=template(s.template)) if s.pods else s
                        for s in group.pod_sets
                    ),
                )
                for group in gang.groups
            ),
        )
        for gang in snapshot.gangs
    ]
    return replace(snapshot, gangs=tuple(gangs), reservations=tuple(reservations))
