"""Which pods may use which reservations, and which pods that run use one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from placement_service.entities.request import PodGang, PodSet, PodTemplate, Snapshot
from placement_service.entities.reservations import Reservation, ReservationOwner
from placement_service.entities.solution import Assignment
from placement_service.formulation.rules.draft import is_rule

#: The name of a gang or a pod, or a label.
_Name = str | tuple[str, str]


class Ownership:
    """Which reservations the pods of a set may use, as indices into the snapshot's."""

    def __init__(
        self,
        snapshot: Snapshot,
        homes: Iterable[Assignment] = (),
        users: Mapping[str, str] | None = None,
        *,
        loose: bool = False,
    ) -> None:
        """`users` are the reservations that pods at home use, by the names of the pods.

        With `loose` all pods of a set may use what one of them may.
        """
        self._reservations = snapshot.reservations
        # Pods that run use what they used before, and no reservation for where they may go.
        running = [
            snapshot.gangs[h.gang].groups[h.group].pod_sets[h.pod_set].pods[0].name
            for h in (homes if snapshot.reservations else ())
        ]
        at = {r.name: (i,) for i, r in enumerate(snapshot.reservations)} if users else {}
        self._running = {pod: at.get((users or {}).get(pod, ""), ()) for pod in running}
        #: By owner, and owners by what they name (see `_name_of`).
        self._by_owner: dict[ReservationOwner, list[int]] = {}
        self._naming: dict[_Name, list[ReservationOwner]] = {}
        #: Whether nothing was left out.
        self.is_exact = True
        taken = set(users_that_run(snapshot))
        named: set[str] = set()
        # Where a set is one pod, what it owns is said of that pod alone.
        alone = _alone(snapshot) if snapshot.reservations else {}
        for i, reservation in enumerate(snapshot.reservations):
            used_up = reservation.allocate_once and reservation.name in taken
            if reservation.closed or used_up:
                continue
            for owner in reservation.owners:
                if owner.pod and owner.pod not in alone:
                    continue  # Nobody waits by that name.
                shared = owner.pod in named or not names_pods(reservation)
                if owner.pod and shared and not (loose or alone[owner.pod]):
                    # A pod uses one reservation; one that serves others too is theirs.
                    self.is_exact = False
                    continue
                named.add(owner.pod)
                if owner not in self._by_owner:
                    self._by_owner[owner] = []
                    self._naming.setdefault(_name_of(owner), []).append(owner)
                self._by_owner[owner].append(i)

    def of(self, gang: PodGang, pod_set: PodSet) -> tuple[int, ...]:
        """The reservations, sorted; one that names pods must name one of the set."""
        template = pod_set.template
        if pod_set.pods and pod_set.pods[0].name in self._running:
            return self._running[pod_set.pods[0].name]
        if not self._by_owner or template.ignores_reservations:
            return ()
        found: set[int] = set()
        namespace, labels = gang.namespace, template.labels
        pods = {pod.name for pod in pod_set.pods}
        names: Iterable[_Name] = ("", gang.name, *pods, *labels.items())
        for name in names:
            for owner in self._naming.get(name, ()):
                if owner.pod and owner.pod not in pods:
                    continue
                if owner.matches(gang=gang.name, pod=owner.pod, namespace=namespace, labels=labels):
                    found.update(self._by_owner[owner])
        wanted = template.required_reservation
        if wanted is not None:
            found = {i for i in found if wanted.matches(self._reservations[i])}
        else:
            # Who asks for nothing that is held uses none, and so has none of its devices either.
            found = {i for i in found if _asks(template, self._reservations[i])}
        return tuple(sorted(found))


def _asks(template: PodTemplate, reservation: Reservation) -> bool:
    """Whether pods ask for a resource that is held; columns for devices are none."""
    return any(template.requests.get(r, 0) for r in reservation.held if not is_rule(r))


def _name_of(owner: ReservationOwner) -> _Name:
    """The gang that an owner names, or else the pod, or else one of its labels, "" for none of
    these: with hundreds of owners most need not be looked at.
    """
    labels = owner.selector.match_labels if owner.selector is not None else ()
    return owner.gang or owner.pod or (labels[0] if labels else "")


def _alone(snapshot: Snapshot) -> dict[str, bool]:
    """By the name of each pod that waits, whether its set is that pod alone."""
    return {
        pod.name: len(s.pods) == 1
        for gang in snapshot.gangs
        for group in gang.groups
        for s in group.pod_sets
        for pod in s.pods
    }


def names_pods(reservation: Reservation) -> bool:
    """Whether it serves pods by their names only; at most one of them is taken for granted."""
    return bool(reservation.owners) and all(owner.pod for owner in reservation.owners)


def users_that_run(snapshot: Snapshot) -> Iterable[str]:
    """The reservations that running pods of gangs use."""
    for gang in snapshot.gangs:
        for group in gang.groups:
            for pod in group.running_pods:
                if pod.reservation:
                    yield pod.reservation
