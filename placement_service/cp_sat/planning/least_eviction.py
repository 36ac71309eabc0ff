"""The fewest running pods that have to go so that one gang fits.

    z[v]      how often a leaver goes: once for a whole gang, more often for extras
    x[d, n]   units of a demand of the gang on a node, at most what fits once everybody is gone
    y[s, k]   the domain of a required scope
    sum_d request[d] x[d, n] <= free[n] + sum_v freed[v, n] z[v]    for each node and resource
    k x[d, n]                <= freed by v on n                     where one unit lacks k without v
    sum_{n in k} x[d, n]     <= units of d * y[s, k]                sum_k y[s, k] = 1
    x[d, n] > 0 only once all pods have left that keep d from n
    the devices of a node as in `device_rows`, where it matters which of them come free
    sum take[d, q] x[d, n]   <= left[q] + sum_v given[v, q] z[v]    for each resource of a queue
    minimise sum_v pods[v] z[v]

A gang that shares one domain is solved domain by domain, the cheapest by counting first: gangs that
leave elsewhere help only its queues, unless a choice was refused before. This ends when no other
domain can be cheaper than the best. Other rules between pods are left out: with them more may have
to go, never less.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from placement_service.cp_sat.linear_model import LinearModel
from placement_service.cp_sat.planning import device_rows
from placement_service.formulation.arrays import Ints, fit
from placement_service.formulation.planning_questions import (
    EvictionAnswer,
    EvictionQuestion,
    Leaver,
    QueueRoom,
)

#: A number of pods that nobody reaches.
_NEVER: Final = 1 << 40

#: Seconds below which no solve is worth starting.
_SHORTEST: Final = 0.01


def least_eviction(question: EvictionQuestion, *, deadline: float) -> EvictionAnswer:
    """The answer by `deadline`, in `time.monotonic` seconds."""
    cluster = _Cluster(question)
    best: tuple[int, ...] | None = None
    value, bound = _NEVER, _NEVER
    for part in sorted(cluster.parts(), key=lambda part: part.least):
        if part.least >= value:
            # Neither this one nor those behind it are cheaper.
            break
        found = None
        left = deadline - time.monotonic()
        if left > _SHORTEST:
            found = cluster.solved(part.nodes, seconds=left)
        least = part.least if found is None else max(part.least, found.bound)
        bound = min(bound, least)
        if found is not None and found.times is not None and found.pods < value:
            best, value = found.times, found.pods
        if left <= _SHORTEST:
            break
    return EvictionAnswer(best, min(bound, value))


class _Part(NamedTuple):
    """Nodes (sorted) that hold the gang whole, and at least how many pods leave for that."""

    nodes: Ints
    least: int


class _Found(NamedTuple):
    """How often each leaver leaves (None where it is not known), the pods in all, and the proven
    least number.
    """

    times: tuple[int, ...] | None
    pods: int
    bound: int


class _OnNode(NamedTuple):
    """What a leaver frees on a node each time: a row of `EvictionQuestion.amounts`, so often."""

    leaver: int
    row: int
    times: int


class _Cluster:
    def __init__(self, question: EvictionQuestion) -> None:
        self.question = question
        on_node: dict[int, dict[tuple[int, int], int]] = {}
        for v, leaver in enumerate(question.leavers):
            for node, row in leaver.frees:
                mine = on_node.setdefault(node, {})
                mine[v, row] = mine.get((v, row), 0) + 1
        self._on_node = {
            n: [_OnNode(v, row, times) for (v, row), times in mine.items()]
            for n, mine in on_node.items()
        }
        #: The most units of each demand that anybody needs [D].
        self._needed = [
            max((count for demands, count in question.needs if d in demands), default=0)
            for d in range(len(question.request))
        ]
        self._most = self._most_units()

    @cached_property
    def _empty(self) -> Ints:
        """What is free on each node once everybody is gone; extras go with their gang at most."""
        free = self.question.free.copy()
        for node, leaving in self._on_node.items():
            for v, row, times in leaving:
                leaver = self.question.leavers[v]
                # The whole gang also frees what its extras free.
                if leaver.part_of < 0:
                    free[node] += leaver.most * times * self.question.amounts[row]
        return free

    def _most_units(self) -> Ints:
        """Units of each demand that a node could hold with everybody gone [D, N]."""
        most = np.array([fit(self._empty, request) for request in self.question.request])
        most = np.minimum(most, np.array(self._needed)[:, None])
        return np.where(self.question.eligible, np.maximum(most, 0), 0)

    # --- where the gang may lie whole -------------------------------------------

    def parts(self) -> Iterator[_Part]:
        """The domains of the narrowest scope of the whole gang; all nodes where there is none."""
        everything = {d for demands, _ in self.question.needs for d in demands}
        whole = [domain for demands, domain in self.question.scopes if everything <= set(demands)]
        narrowest = max(whole, key=lambda domain: int(domain.max(initial=-1)), default=None)
        if narrowest is None:
            nodes = np.flatnonzero(self._most.any(axis=0))
            if self._holds(nodes):
                yield _Part(nodes, self._least(nodes))
            return
        order = np.argsort(narrowest, kind="stable")
        order = order[narrowest[order] >= 0]
        cuts = np.flatnonzero(np.diff(narrowest[order])) + 1
        for nodes in np.split(order, cuts):
            if len(nodes) and self._holds(nodes):
                yield _Part(nodes, self._least(nodes))

    def _holds(self, nodes: Ints) -> bool:
        """Whether the gang fits with everybody gone, as far as counting says."""
        return all(
            int(sum(self._most[d, nodes].sum() for d in of)) >= units
            for of, units in self.question.needs
        )

    def _least(self, nodes: Ints) -> int:
        """The least number of pods that leave so that there is enough of each resource."""
        return max(self._least_for_queues, self._least_on(nodes))

    def _least_on(self, nodes: Ints) -> int:
        question = self.question
        need = np.zeros(question.free.shape[1], dtype=np.int64)
        for of, units in question.needs:
            need += units * question.request[list(of)].min(axis=0)
        lack = need - question.free[nodes].sum(axis=0)
        if not (lack > 0).any():
            return 0
        freed: dict[int, Ints] = {}
        for n in nodes.tolist():
            for v, row, times in self._on_node.get(n, ()):
                freed[v] = freed.get(v, 0) + times * question.amounts[row]
        return max(
            self._cost(int(lack[r]), ((v, int(row[r])) for v, row in freed.items() if row[r] > 0))
            for r in np.flatnonzero(lack > 0).tolist()
        )

    @cached_property
    def _least_for_queues(self) -> int:
        """The same for what is missing in queues, wherever the gang lies."""
        return max(
            (self._cost(self._need(q) - q.left, q.given) for q in self.question.queues), default=0
        )

    def _need(self, queue: QueueRoom) -> int:
        """What the gang takes of it at least."""
        return sum(units * min(queue.take[d] for d in of) for of, units in self.question.needs)

    def _cost(self, lack: int, offers: Iterable[tuple[int, int]]) -> int:
        """The least number of pods that leave where so much is missing: `offers` are leavers, and
        what each of them frees each time.
        """
        leavers, cost = self.question.leavers, 0.0
        for price, amount in sorted(
            (leavers[v].pods / amount, leavers[v].most * amount) for v, amount in offers
        ):
            if lack <= 0:
                break
            cost += price * min(amount, lack)
            lack -= min(amount, lack)
        return int(np.ceil(cost - 1e-6)) if lack <= 0 else _NEVER

    # --- the model of some nodes --------------------------------------------------

    def solved(self, nodes: Ints, *, seconds: float) -> _Found:
        """The fewest pods when the gang uses no other nodes."""
        question, model = self.question, LinearModel()
        here = {v for n in nodes.tolist() for v, _, _ in self._on_node.get(n, ())}
        here.update(v for queue in question.queues for v, _ in queue.given)
        here.update(v for one in question.closed for v, _ in one.leavers)
        used = sorted(here)
        if question.forbidden:
            # Where others took the room of a refused choice, gangs that leave elsewhere do help.
            used = list(range(len(question.leavers)))
        leaving = {v: model.variable(question.leavers[v].most) for v in used}
        units = {
            (d, n): model.variable(int(self._most[d, n]))
            for n in nodes.tolist()
            for d in range(len(self._most))
            if self._most[d, n]
        }
        for of, count in question.needs:
            model.row([(x, 1) for (d, _), x in units.items() if d in of], least=count)
        for demands, domain in question.scopes:
            self._share_a_domain(model, units, demands, domain)
        on_node: dict[int, list[tuple[int, int]]] = {}
        for (d, n), x in units.items():
            on_node.setdefault(n, []).append((d, x))
        for n, mine in on_node.items():
            self._make_room(model, n, mine, leaving)
        self._make_room_in_queues(model, units, leaving)
        self._open_nodes(model, units, leaving)
        for devices in question.devices:
            there = {d: units[d, devices.node] for d, _ in on_node.get(devices.node, ())}
            if there:
                device_rows.post(model, devices, there, leaving)
        self._keep_together(model, leaving)
        goal = [(z, question.leavers[v].pods) for v, z in leaving.items()]
        found = model.whole(goal, maximize=False, seconds=seconds)
        bound = _NEVER if found.values is None and found.proven else found.bound or 0
        if found.values is None:
            return _Found(None, _NEVER, bound)
        times = [0] * len(question.leavers)
        for v, z in leaving.items():
            times[v] = round(float(found.values[z]))
        pods = sum(k * leaver.pods for k, leaver in zip(times, question.leavers, strict=True))
        return _Found(tuple(times), pods, min(bound, pods))

    def _make_room(
        self,
        model: LinearModel,
        node: int,
        mine: list[tuple[int, int]],
        leaving: dict[int, int],
    ) -> None:
        question = self.question
        free = question.free[node]
        families: dict[int, list[_OnNode]] = {}
        for one in self._on_node.get(node, ()):
            part_of = question.leavers[one.leaver].part_of
            families.setdefault(one.leaver if part_of < 0 else part_of, []).append(one)
        for r in range(len(free)):
            terms = [(x, int(question.request[d, r])) for d, x in mine]
            terms = [(x, k) for x, k in terms if k]
            if not terms:
                continue
            room = self._freed(leaving, self._on_node.get(node, ()), r)
            model.row([*terms, *((z, -k) for z, k in room)], most=int(free[r]))
            if len(terms) > 1 or model.most(terms[0][0]) > 1:
                continue
            # One unit at most: each gang without which it lacks something makes its room.
            x, request = terms[0]
            for first, family in families.items():
                whole = sum(
                    question.leavers[v].most * times * int(question.amounts[row, r])
                    for v, row, times in family
                    if v == first
                )
                others = int(self._empty[node, r]) - whole
                if request > others:
                    room = self._freed(leaving, family, r)
                    model.row([(x, request - others), *((z, -k) for z, k in room)], most=0)

    def _make_room_in_queues(
        self, model: LinearModel, units: dict[tuple[int, int], int], leaving: dict[int, int]
    ) -> None:
        for queue in self.question.queues:
            # Where more runs than a limit, this keeps nobody out who takes nothing.
            if self._need(queue):
                taken = [(x, queue.take[d]) for (d, _), x in units.items() if queue.take[d]]
                given = [(leaving[v], -amount) for v, amount in queue.given]
                model.row([*taken, *given], most=queue.left)

    def _open_nodes(
        self, model: LinearModel, units: dict[tuple[int, int], int], leaving: dict[int, int]
    ) -> None:
        for one in self.question.closed:
            d = one.demand
            there = [units[d, n] for n in one.nodes.tolist() if (d, n) in units]
            if there:
                is_open = model.variable(1)
                most = sum(map(model.most, there))
                model.row(
                    [*((x, 1) for x in there), (is_open, -min(most, self._needed[d]))], most=0
                )
                gone = [(leaving[v], -pods) for v, pods in one.leavers]
                model.row([(is_open, one.pods), *gone], most=0)

    def _freed(
        self, leaving: dict[int, int], some: Iterable[_OnNode], resource: int
    ) -> list[tuple[int, int]]:
        """What leavers free of a resource on a node each time."""
        freed: dict[int, int] = {}
        for v, row, times in some:
            amount = times * int(self.question.amounts[row, resource])
            if amount:
                freed[leaving[v]] = freed.get(leaving[v], 0) + amount
        return list(freed.items())

    def _share_a_domain(
        self,
        model: LinearModel,
        units: dict[tuple[int, int], int],
        demands: tuple[int, ...],
        domain: Ints,
    ) -> None:
        places: dict[int, dict[int, list[int]]] = {}
        for (d, n), x in units.items():
            if d in demands:
                places.setdefault(int(domain[n]), {}).setdefault(d, []).append(x)
        lone = len(places) == 1 and -1 not in places
        chosen = (
            {} if lone else {place: model.variable(1) for place in sorted(places) if place >= 0}
        )
        if chosen:
            model.row([(y, 1) for y in chosen.values()], most=1)
        for place, of in places.items() if not lone else ():
            for d, there in of.items():
                row: list[tuple[int, float]] = [(x, 1) for x in there]
                if place >= 0:
                    row.append((chosen[place], -self._needed[d]))
                model.row(row, most=0)

    def _keep_together(self, model: LinearModel, leaving: dict[int, int]) -> None:
        """A gang that leaves whole has no extras left; budgets hold; refused choices are not tried
        again.
        """
        question = self.question
        for v, z in leaving.items():
            leaver: Leaver = question.leavers[v]
            if leaver.part_of in leaving:
                row = [(z, 1), (leaving[leaver.part_of], leaver.most)]
                model.row(row, most=leaver.most)
        for limit in question.limits:
            row = [(leaving[v], pods) for v, pods in limit.leavers if v in leaving]
            if sum(k * model.most(z) for z, k in row) > limit.most:
                model.row(row, most=limit.most)
        for times in question.forbidden:
            more = []
            for v, z in leaving.items():
                if times[v] < question.leavers[v].most:
                    is_more = model.variable(1)
                    model.row([(is_more, times[v] + 1), (z, -1)], most=0)
                    more.append((is_more, 1))
            model.row(more, least=1)
