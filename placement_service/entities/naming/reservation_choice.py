"""Which reservation each pod of a node uses, found by trying: for the few nodes on which the
usual choice holds back room that other pods there have.

What a reservation still holds is held for others, and what the pods of the node ask for has to
fit beside it. An allocate-once one that is in use holds nothing more. So a pod that asks for no
GPU is best in the one that holds none, even where another fits it better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from placement_service.entities.request import PodTemplate
from placement_service.entities.reservations import Reservation

#: Choices that are tried on a node, some milliseconds of them, and on all nodes of an answer.
MOST_CHOICES = 2_000
MOST_IN_ALL = 50_000

#: On a node with more new pods nothing is tried: each choice takes as many steps as there are pods.
MOST_PODS = 100

#: Of each resource.
Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BoundHere:
    """A new pod on a node; `binding` is its place among the bindings."""

    binding: int
    name: str
    gang: str
    namespace: str
    template: PodTemplate

    def owns(self, reservation: Reservation) -> bool:
        """Whether it may use the reservation as far as its owners say."""
        wanted = self.template.required_reservation
        if self.template.ignores_reservations or reservation.closed:
            return False
        if wanted is not None and not wanted.matches(reservation):
            return False
        return any(
            owner.matches(
                gang=self.gang,
                pod=self.name,
                namespace=self.namespace,
                labels=self.template.labels,
            )
            for owner in reservation.owners
        )

    def asks(self, reservation: Reservation) -> tuple[int, ...]:
        """Of each resource that is held, in order of their names."""
        return tuple(self.template.requests.get(r, 0) for r in sorted(reservation.held))


class Choices:
    """All ways in which pods of a node may use its reservations.

    `room` is what the node has for new pods, of each resource that reservations hold; reservations
    that no new pod may use are subtracted. `of_some` is the room for some gangs alone. At most
    `most` choices are tried.
    """

    def __init__(
        self,
        pods: Sequence[BoundHere],
        reservations: Sequence[Reservation],
        room: Amounts,
        of_some: Sequence[tuple[Collection[str], Amounts]] = (),
        most: int = MOST_CHOICES,
    ) -> None:
        self._pods = sorted(pods, key=lambda p: (p.template.required_reservation is None, p.name))
        self._reservations = reservations
        everyone = (pods, _spare(room, pods))
        some = [([p for p in pods if p.gang in gangs], there) for gangs, there in of_some]
        #: Pods, and what may be held of each resource beside them.
        self._spare = [everyone, *((mine, _spare(there, mine)) for mine, there in some)]
        self._able = [self._options(pod) for pod in self._pods]
        self._most = min(most, MOST_CHOICES)
        #: So many choices were tried.
        self.tried = 0

    def fit(self, users: Mapping[int, str]) -> bool:
        """Whether there is room for all pods beside what is held back, and who requires a
        reservation has one; `users` by bindings.
        """
        insisting = (p for p in self._pods if p.template.required_reservation is not None)
        return all(p.binding in users for p in insisting) and all(
            self._fit(users, pods, spare) for pods, spare in self._spare
        )

    def _fit(self, users: Mapping[int, str], pods: Sequence[BoundHere], spare: Amounts) -> bool:
        held: Counter[str] = Counter()
        for reservation in self._reservations:
            mine = [p for p in pods if users.get(p.binding) == reservation.name]
            held.update(_left(reservation, mine))
        return all(held[r] <= amount for r, amount in spare.items())

    def first_that_fits(self) -> Mapping[int, str] | None:
        """By the bindings of pods; None when there is none or it would take too long.

        It leaves no pod without a reservation that has room for it: with the pod in it less is held
        back, so that choice fits as well, and it comes before.
        """
        if len(self._pods) > MOST_PODS:
            return None
        found = (users for users in self._from(0, {}) if self.fit(users))
        return next(found, None)

    def _options(self, pod: BoundHere) -> list[str]:
        """Names of reservations, and "" where the pod may do without."""
        if pod.template.required_reservation is not None:
            return [r.name for r in self._reservations if pod.owns(r)]
        mine = [r.name for r in self._reservations if pod.owns(r) and any(pod.asks(r))]
        return [*mine, ""]

    def _from(self, depth: int, users: Mapping[int, str]) -> Iterator[Mapping[int, str]]:
        """All choices of the pods from `depth` on, as long as there are not too many."""
        # Each reservation is looked at once all pods have chosen.
        self.tried += len(self._reservations) if depth == len(self._pods) else 1
        if self.tried > self._most:
            return
        if depth == len(self._pods):
            yield users
            return
        pod, options = self._pods[depth], self._able[depth]
        first = 0
        if depth and self._alike(depth - 1, depth):
            # Of pods that are alike it does not matter which uses which.
            before = users.get(self._pods[depth - 1].binding, "")
            first = options.index(before)
        for name in options[first:]:
            chosen = {**users, pod.binding: name} if name else users
            if not name or self._may(name, chosen):
                yield from self._from(depth + 1, chosen)

    def _alike(self, one: int, other: int) -> bool:
        a, b = self._pods[one], self._pods[other]
        return (
            a.gang == b.gang and a.template is b.template and self._able[one] == self._able[other]
        )

    def _may(self, name: str, users: Mapping[int, str]) -> bool:
        """Whether the reservation may serve all that use it."""
        reservation = next(r for r in self._reservations if r.name == name)
        mine = [pod for pod in self._pods if users.get(pod.binding) == name]
        if reservation.allocate_once and len(mine) > 1:
            return False
        asked = [sum(amounts) for amounts in zip(*(p.asks(reservation) for p in mine), strict=True)]
        held = [reservation.held[r] for r in sorted(reservation.held)]
        return not reservation.restricted or all(a <= h for a, h in zip(asked, held, strict=True))


def _spare(room: Amounts, pods: Sequence[BoundHere]) -> Amounts:
    """What may still be held of each resource that pods ask for."""
    asked: Counter[str] = Counter()
    for pod in pods:
        if not pod.template.ignores_reservations:
            asked.update(pod.template.requests)
    return {r: room[r] - asked[r] for r in room if asked[r]}


def _left(reservation: Reservation, users: Sequence[BoundHere]) -> Amounts:
    """What a reservation still holds back beside those that use it."""
    if users and reservation.allocate_once:
        return dict.fromkeys(reservation.held, 0)
    asked: Counter[str] = Counter()
    for pod in users:
        asked.update(pod.template.requests)
    return {r: max(0, amount - asked[r]) for r, amount in reservation.held.items()}
