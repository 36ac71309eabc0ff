"""Reservations: room that is held on a node, as columns of resources.

Let G be what new pods that may not use what a reservation holds ask for on its node, and
O what its owners ask for. Owners take from what is held first, then from the rest; what
they leave of it stays held. So

    G <= free - held      and      G + O <= free

The second is the resource itself; the first is a column that owners take nothing of. With
several reservations on a node the first holds for each set of them and the pods that own
none of these. Reservations that no pod may use are taken off what is free.

Where owners cannot take all of a reservation (a restricted one holds 5 GPUs for pods of 2) the
rest is subtracted as well. That is exact for the usual reservations. Where it would leave less room
than there is, because pods may choose or leave something over for others, the node gets a rule of
its own (`reserved_room`), and columns hold what nobody else can have in any case. With too many of
them room is left out and `is_exact` is false: a reservation is for those owners alone that take
most of it. If the draft is `loose`, all such nodes have those columns and no rule: that allows more
than there is room for, and so bounds of it hold.

    formulation   `reservation_owners` tells pod classes apart, `formulate` says who may use how
                  much, `reservation_columns` makes columns
    heuristic, bounds, cp_sat     know columns only
    naming        `entities.naming.reservation_users` says which pod uses which reservation
    explanation   `explain.reservation_reasons`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from placement_service.entities.node import HOSTNAME
from placement_service.entities.request import Node, Snapshot
from placement_service.entities.reservations import Reservation
from placement_service.formulation.arrays import UNLIMITED, Ints
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.rules.draft import Column, RuleDraft
from placement_service.formulation.rules.reservation_columns import (
    Classes,
    Held,
    ReservationColumns,
)
from placement_service.formulation.rules.reservation_owners import names_pods, users_that_run
from placement_service.formulation.rules.reserved_room import MOST_PODS, Kind, ReservedRoom, Row
from placement_service.formulation.sharing_columns import whole_column

#: Reservations of one node that are told apart; further ones are held for nobody.
MOST_ON_A_NODE = 4
#: Nodes on which pods choose, and reservations, and kinds of owners, that are told apart there.
MOST_RULED = 16
MOST_CHOSEN = 8
#: Reservations whose pods may go: there is a column for each of them, whatever it holds.
MOST_TAKING_BACK = 4

#: Reservations of a node by the pod classes that may use them.
_Groups = Mapping[Classes, Sequence[Reservation]]


def take_back(snapshot: Snapshot) -> frozenset[str]:
    """The reservations that hold what their pods used once these have gone, and all of them as one:
    those alone on their nodes that serve many pods, and may be topped up.

    A pod at home takes from its reservation like its owners, so each is a room of its own.
    """
    alone = Counter(reservation.node for reservation in snapshot.reservations)
    able = [
        r.name
        for r in snapshot.reservations
        if alone[r.node] == 1
        and not (r.restricted or r.allocate_once or r.closed or r.devices or names_pods(r))
    ]
    used = {name for name in users_that_run(snapshot) if name in set(able)}
    return frozenset(used if len(used) <= MOST_TAKING_BACK else ())


def formulate(draft: RuleDraft) -> None:
    """Makes columns, and subtracts what no pod may use from what is free."""
    snapshot = draft.snapshot
    if snapshot.reservations or any(t.required_reservation for _, t in draft.templates):
        _Formulation(draft).run()


class _Formulation:
    def __init__(self, draft: RuleDraft) -> None:
        self.draft = draft
        self.templates = [t for _, t in draft.templates]
        #: The nodes with reservations: each is asked for several times.
        self.nodes: dict[int, Node] = {}
        self.reservations = draft.snapshot.reservations
        self.ignoring = frozenset(c for c, t in enumerate(self.templates) if t.ignores_reservations)
        self.owners: dict[int, set[int]] = {}
        for c, owned in enumerate(draft.owned):
            for i in owned:
                self.owners.setdefault(i, set()).add(c)
        self.columns = ReservationColumns(draft, self.ignoring)
        #: Whether room is left out on the node that is looked at.
        self.loses = False
        #: The nodes with a rule of their own.
        self.ruled: list[int] = []
        self.insisting = frozenset(
            c for c, t in enumerate(self.templates) if t.required_reservation is not None
        )
        #: How many pods that require a reservation find one on the node that is looked at, by the
        #: classes that share these reservations; and on all nodes, and where each class does.
        self.slots_here: dict[Classes, int] = {}
        self.slots: dict[Classes, Ints] = {}
        self.homes: dict[int, list[int]] = {c: [] for c in self.insisting}

    def run(self) -> None:
        index = self.draft.snapshot.columns.row_of
        on_node: dict[int, list[int]] = {}
        for i, reservation in enumerate(self.reservations):
            if reservation.node in index:
                on_node.setdefault(index[reservation.node], []).append(i)
        self.nodes = {n: self.draft.snapshot.nodes[n] for n in on_node}
        for n, indices in on_node.items():
            self._on_node(n, indices)
        self.columns.add()
        self._required()

    def _required(self) -> None:
        """Pods that require a reservation: only where there is one, and not more than it takes."""
        for c, homes in self.homes.items():
            elsewhere = np.ones(len(self.draft.snapshot.nodes), dtype=bool)
            elsewhere[homes] = False
            self.draft.eligible[c, elsewhere] = False
        for classes, capacity in self.slots.items():
            take = np.zeros(len(self.templates), dtype=np.int64)
            take[sorted(classes)] = 1
            self.draft.columns.append(Column("reservation slots", capacity, take))

    # --- one node -----------------------------------------------------------------

    def _on_node(self, n: int, indices: Sequence[int]) -> None:
        self._hold(n, indices)
        for classes, pods in self.slots_here.items():
            for c in classes:
                self.homes[c].append(n)
            if pods < UNLIMITED:
                if classes not in self.slots:
                    count = len(self.draft.snapshot.nodes)
                    self.slots[classes] = np.full(count, UNLIMITED, dtype=np.int64)
                self.slots[classes][n] = pods

    def _hold(self, n: int, indices: Sequence[int]) -> None:
        self.slots_here = {}
        here = [self.reservations[i] for i in indices]
        beyond = self._beyond(n, here)
        if beyond:
            here = [
                replace(r, held={s: a for s, a in r.held.items() if s not in beyond}) for r in here
            ]
        groups: dict[Classes, list[Reservation]] = {}
        for i, reservation in zip(indices, here, strict=True):
            able = frozenset(
                c
                for c in self.owners.get(i, ())
                if self.draft.eligible[c, n] and self._may_use(c, reservation)
            )
            groups.setdefault(able, []).append(reservation)
        if not beyond and self._are_everybodys(n, here, groups):
            return
        held = self._held(n, groups)
        overfull = self._is_overfull(n, held)
        if (self.loses or overfull) and (self.draft.loose or self._choose(n, groups)):
            self.loses, held = False, self._loosely(n, groups)
        elif overfull:
            # More is held than there is: an owner that takes its own part leaves others no less.
            self.loses = True
            self.slots_here = {}
            held = [Held(frozenset(), h.amounts) for h in held]
        elif self.loses:
            # For those alone that take most of a reservation: so the least room is lost.
            some = {self._keenest(owners, mine): mine for owners, mine in groups.items()}
            if len(some) == len(groups):
                held = self._held(n, some)
            self.loses = True
        self.draft.is_exact = self.draft.is_exact and not self.loses
        held = [*held, Held(frozenset(), beyond)] if beyond else held
        self.columns.hold(n, self.nodes[n], held)

    def _are_everybodys(self, n: int, reservations: Sequence[Reservation], groups: _Groups) -> bool:
        """Whether all pods that take some of what is held may use all of it: none is kept out."""
        if len(groups) != 1 or any(r.restricted or names_pods(r) for r in reservations):
            return False
        (owners,) = groups
        if len(reservations) > 1 and not (
            all(r.allocate_once for r in reservations)
            and self._are_each_enough(owners, reservations)
        ):
            # A pod takes from one of them, and the others keep what they hold.
            return False
        held = [Held(owners, dict(r.held)) for r in reservations]
        if owners & self.insisting or self._is_overfull(n, held):
            return False
        resources = {r for h in held for r in h.amounts}
        # Those that require a reservation, and own none here, do not come.
        welcome = owners | self.ignoring | self.insisting
        return all(
            c in welcome or not any(t.requests.get(r) for r in resources)
            for c, t in enumerate(self.templates)
            if self.draft.eligible[c, n]
        )

    def _beyond(self, n: int, reservations: Sequence[Reservation]) -> dict[str, int]:
        """What is held in all of resources of which the node has less. Nobody gets any of these: an
        owner that takes its part leaves others no less.

        Where one of them ends with its pod, there may be enough then, and nothing is said.
        """
        total = Counter[str]()
        for reservation in reservations:
            total.update(reservation.held)
        once = any(reservation.allocate_once for reservation in reservations)
        node = self.nodes[n]
        return {s: a for s, a in total.items() if a > node.free(s)} if not once else {}

    def _held(self, n: int, groups: _Groups) -> list[Held]:
        """What reservations of a node hold and for whom; says whether that loses room."""
        self.slots_here, self.loses = {}, False
        # The largest first; classes that own several reservations here use the first.
        order = sorted(groups.items(), key=lambda g: (-len(g[0]), sorted(g[0])))
        held: list[Held] = []
        seen: set[int] = set()
        for owners, mine in order:
            if owners & seen or (owners and len(held) >= MOST_ON_A_NODE):
                self.loses = True
                owners = frozenset()
            seen |= owners
            held += self._together(n, owners, mine)
        return held

    def _keenest(self, owners: Classes, reservations: Sequence[Reservation]) -> Classes:
        """Those of the owners, all asking for the same, that take most of some reservations."""
        held = Counter[str]()
        for r in reservations:
            held.update(r.held)

        def asks(c: int) -> tuple[int, ...]:
            return tuple(self.templates[c].requests.get(r, 0) for r in sorted(held))

        def share(c: int) -> float:
            both = zip(asks(c), sorted(held), strict=True)
            return sum(min(1.0, ask / held[r]) for ask, r in both if held[r])

        most = max(owners, key=lambda c: (share(c), self.draft.counts[c], -c), default=None)
        return frozenset(c for c in owners if most is not None and asks(c) == asks(most))

    def _loosely(self, n: int, groups: _Groups) -> list[Held]:
        """What nobody else can have of the node in any case."""
        some = [(owners, mine) for owners, mine in groups.items() if owners]
        self.slots_here = {owners & self.insisting: UNLIMITED for owners, _ in some}
        held = [Held(owners, self._least(owners, mine)) for owners, mine in some]
        nobody = groups.get(frozenset(), ())
        return [*held[:MOST_ON_A_NODE], *(Held(frozenset(), dict(r.held)) for r in nobody)]

    def _choose(self, n: int, groups: _Groups) -> bool:
        """Makes a rule of the node, by which pods choose their reservations; false where that would
        be too much.
        """
        draft = self.draft
        some = [(owners, mine) for owners, mine in groups.items() if owners]
        nobody = [r.held for r in groups.get(frozenset(), ())]
        holders = [(owners, r) for owners, mine in some for r in mine]
        number, level = draft.level(HOSTNAME)
        at = int(level.domain[n])
        every = sorted(frozenset[int]().union(*(owners for owners, _ in some)))
        if (
            len(self.ruled) >= MOST_RULED
            or sum(draft.counts) > MOST_PODS
            or len(holders) > MOST_CHOSEN
            or len(every) > MOST_CHOSEN
            or at < 0
            or (level.domain == at).sum() > 1
        ):
            return False
        rows = []
        for resource in sorted({s for _, r in holders for s in r.held}):
            take = np.array([t.requests.get(resource, 0) for t in self.templates], dtype=np.int64)
            take[~draft.eligible[:, n]] = 0
            take[list(self.ignoring)] = 0
            limit = self.nodes[n].free(resource) - sum(h.get(resource, 0) for h in nobody)
            amounts = tuple(r.held.get(resource, 0) for _, r in holders)
            whole = whole_column(resource)
            asks = [0 if take[c] else self.templates[c].requests.get(whole, 0) for c in every]
            had = tuple(tuple(min(held, ask) for ask in asks) for held in amounts)
            capped = tuple(r.restricted and resource in r.held for _, r in holders)
            row = Row(take, amounts, limit, had, capped).measured()
            if row is None:
                return False
            rows.append(row)
        if not rows:
            return False
        kinds = tuple(
            Kind(
                tuple(every.index(c) for c in sorted(owners)),
                r.allocate_once or names_pods(r),
                r.restricted,
                r.allocate_once,
            )
            for owners, r in holders
        )
        insist = tuple(c in self.insisting for c in every)
        classes = tuple(map(ClassIdx, every))
        draft.rules.append(ReservedRoom(number, at, classes, insist, kinds, tuple(rows)))
        draft.special[every] = True
        for row in rows:
            draft.special |= row.take > 0
        self.ruled.append(n)
        return True

    def _least(self, owners: Classes, reservations: Sequence[Reservation]) -> dict[str, int]:
        """What all others can never have of some reservations."""
        least = Counter[str]()
        for r in reservations:
            for resource, amount in r.held.items():
                ask = min(self.templates[c].requests.get(resource, 0) for c in owners)
                least[resource] += min(amount, ask) if r.allocate_once else amount
        return dict(least)

    def _is_overfull(self, n: int, held: Sequence[Held]) -> bool:
        total: dict[str, int] = {}
        for h in held:
            for resource, amount in h.amounts.items():
                total[resource] = total.get(resource, 0) + amount
        return any(amount > self.nodes[n].free(r) for r, amount in total.items() if amount)

    def _may_use(self, pod_class: int, reservation: Reservation) -> bool:
        requests = self.templates[pod_class].requests
        if pod_class not in self.insisting and not any(
            requests.get(r, 0) for r in reservation.held
        ):
            # It takes nothing of it, so it does not use it.
            return False
        if not reservation.restricted:
            return True
        return all(requests.get(r, 0) <= amount for r, amount in reservation.held.items())

    def _together(self, n: int, owners: Classes, reservations: Sequence[Reservation]) -> list[Held]:
        """Some reservations with the same owners as one; what cannot be combined serves no pod."""
        if not owners:
            return [Held(frozenset(), dict(r.held)) for r in reservations]
        once = [r for r in reservations if r.allocate_once or names_pods(r)]
        # In the order in which they are used.
        once.sort(key=lambda r: r.name)
        single = sorted((r for r in reservations if r not in once), key=lambda r: r.name)
        if any(not r.allocate_once and len(r.owners) > 1 for r in once):
            # Which of the pods that it names comes is taken for granted.
            self.loses = self.loses or self.draft.loose
            self.draft.is_exact = self.draft.is_exact and self.draft.loose
        if single and (once or len(single) > 1):
            # Which pod uses which of them would have to be chosen.
            self.loses = True
            chosen, rest = single[:1], [*single[1:], *once]
        elif len(once) > 1 and not self._are_each_enough(owners, once):
            self.loses = True
            chosen, rest = once[:1], once[1:]
        else:
            chosen, rest = [*single, *once], []
        if any(r.restricted and r in single for r in chosen) and len(owners) > 1:
            # Which of unlike pods share it would have to be chosen: it serves the largest class.
            self.loses = True
            owners = frozenset({max(owners, key=lambda c: (self.draft.counts[c], -c))})
        found = Held(owners, {})
        if insisting := owners & self.insisting:
            usable = sum(self._slots(owners, r) for r in chosen)
            self.slots_here[insisting] = min(UNLIMITED, usable)
        for r in chosen:
            for resource, amount in r.held.items():
                found.amounts[resource] = found.amounts.get(resource, 0) + amount
                waste = self._waste(n, owners, r, resource, amount)
                if waste:
                    found.waste[resource] = found.waste.get(resource, 0) + waste
        return [found, *(Held(frozenset(), dict(r.held)) for r in rest)]

    def _are_each_enough(self, owners: Classes, reservations: Sequence[Reservation]) -> bool:
        """Whether a pod finds in one of them all that it would otherwise take of another."""
        held = {resource for r in reservations for resource in r.held}
        asked = [
            (s, max((self.templates[c].requests.get(s, 0) for c in owners), default=0))
            for s in sorted(held)
        ]
        return all(most <= r.held.get(s, 0) for r in reservations for s, most in asked)

    def _slots(self, owners: Collection[int], r: Reservation) -> int:
        """How many pods may use a reservation, as far as it says."""
        if r.allocate_once or names_pods(r):
            return 1
        return self._users(owners, r) if r.restricted else UNLIMITED

    def _users(self, owners: Collection[int], r: Reservation) -> int:
        """How many pods of the one class fit a restricted reservation."""
        (c,) = owners
        requests = self.templates[c].requests
        fits = [a // q for s, a in r.held.items() if (q := requests.get(s, 0))]
        return min(fits, default=UNLIMITED)

    def _waste(
        self, n: int, owners: Collection[int], r: Reservation, resource: str, amount: int
    ) -> int:
        """What owners cannot take of a resource of a reservation."""
        asks = [self.templates[c].requests.get(resource, 0) for c in owners]
        if r.allocate_once or names_pods(r):
            # What the user of an allocate-once one leaves over would be free once it is there.
            left = max(0, amount - min(asks))
            unlike = min(asks) < max(asks)
            if left and (unlike or (r.allocate_once and self._could_use(n, owners, r, resource))):
                # One that asks for more would leave less.
                self.loses = True
            return left
        if not r.restricted:
            return 0
        users = self._users(owners, r)
        return 0 if users >= UNLIMITED else amount - min(amount, users * asks[0])

    def _could_use(self, n: int, owners: Collection[int], mine: Reservation, resource: str) -> bool:
        """Whether another pod could take what the one user of a reservation leaves over."""
        return any(
            t.requests.get(resource, 0)
            and self.draft.eligible[c, n]
            and (c not in owners or len(owners) > 1 or self.draft.counts[c] > 1)
            and (c not in self.insisting or self._has_another(c, n, mine))
            for c, t in enumerate(self.templates)
        )

    def _has_another(self, pod_class: int, n: int, mine: Reservation) -> bool:
        """Whether a pod may use another reservation of the node."""
        name = self.nodes[n].name
        others = (self.reservations[i] for i in self.draft.owned[pod_class])
        return any(r.node == name and r.name != mine.name for r in others)
