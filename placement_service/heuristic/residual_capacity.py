"""What is left on the nodes while pods are placed, with exact undo.

For each pod class the number of units that fit each node, and its sums per domain,
are kept and brought up to date only for nodes that changed since they were
last asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import MANY, Bools, Ints, pods_that_fit
from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.levels import sums_by_domain
from placement_service.formulation.plan import Plan, Units
from placement_service.formulation.problem import Gang, Problem, UnitsOnNode
from placement_service.formulation.rules.protocol import Rule
from placement_service.heuristic.queue_ledger import QueueLedger
from placement_service.heuristic.slot_layout import Slot

#: One node of so many has changed: then all are looked at.
MANY_NODES = 16

#: Every node has as much of everything, and none has as much of anything.
LEAST, MORE_THAN_ANY = -(1 << 62), 1 << 62


class _Pods(NamedTuple):
    """Units of a pod class on nodes."""

    pod_class: ClassIdx
    nodes: Ints
    counts: Ints


class _Taken(NamedTuple):
    """What pods take of distinct nodes, amounts[n, R] and gpus[n], and those that rules count."""

    nodes: Ints
    amounts: Ints
    gpus: Ints
    counted: tuple[_Pods, ...]


class _Wanted(NamedTuple):
    """What units need of distinct nodes, least[n, R]: nothing is enough of what they do not ask
    for, and of nodes that are not open to them no amount is.
    """

    units: Units
    nodes: Ints
    least: Ints


class _Change(NamedTuple):
    """What was taken, or with the sign -1 given back."""

    taken: _Taken
    sign: int


class _Opened(NamedTuple):
    """After so many changes: units that fit on nodes that are open, and their sums by level."""

    seen: int
    row: Ints
    sums: dict[int, Ints]


class ResidualCapacity:
    """Mutable state of the nodes; `mark` and `undo` go back exactly."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        # Column by column in memory: it is read by columns.
        self.free = np.asfortranarray(problem.free).copy(order="F")
        self.gpus_free = problem.node_gpus_free.copy()
        #: Nodes that changed, one array for each change.
        self._changes: list[Ints] = []
        self._offers: dict[ClassIdx, _Offer] = {}
        self._journal: list[_Change | Slot] = []
        #: What open gangs take at home, and with the units that were asked for last.
        self._homes: dict[GangIdx, _Taken] = {}
        self._last: dict[GangIdx, tuple[Units, _Taken]] = {}
        #: What gangs need with the units that were last tried.
        self._wanted: dict[GangIdx, _Wanted] = {}
        #: Slots of a layout that are left.
        self.slots_left: dict[Slot, int] = {}
        #: Rules between pods, each with its pods by kind of member and domain.
        self._loads = [_Load(rule, problem.levels[rule.level].count) for rule in problem.rules]
        self._of_class: dict[ClassIdx, list[_Load]] = {}
        for load in self._loads:
            for pod_class in load.pod_classes:
                self._of_class.setdefault(pod_class, []).append(load)
        #: Those of them that close domains for good.
        self._closing: dict[ClassIdx, list[_Load]] = {}
        for pod_class, loads in self._of_class.items():
            closing = [load for load in loads if load.rule.closes_for_good]
            if closing:
                self._closing[pod_class] = closing
        #: Rules whose pods have changed since they last held.
        self._in_doubt: dict[int, _Load] = {}
        #: What is open to pod classes under rules that close nodes for good.
        self._open: dict[ClassIdx, _Opened] = {}
        #: What queues have left; `take` knows no gangs, so the code that places one charges it.
        self.queues = QueueLedger(problem)

    # --- what fits --------------------------------------------------------

    def row(self, pod_class: ClassIdx) -> Ints:
        """Units of the pod class that fit on each node [N], at most MANY; not to be changed."""
        return self._offer(pod_class).row

    def slots(self, pod_class: ClassIdx, level: int) -> Ints:
        """Units of the pod class that fit in each domain of a level [D]; not to be changed."""
        return self._offer(pod_class).slots(level)[:-1]

    def slots_and_none(self, pod_class: ClassIdx, level: int) -> Ints:
        """The same with a last place, always 0, for nodes in no domain [D + 1]."""
        return self._offer(pod_class).slots(level)

    def _offer(self, pod_class: ClassIdx) -> _Offer:
        """What nodes offer a pod class now."""
        offer = self._offers.get(pod_class)
        if offer is None:
            offer = self._offers[pod_class] = _Offer(self.problem, pod_class, self.free)
        elif offer.seen < len(self._changes):
            changed = self._changes[offer.seen :]
            nodes = changed[0] if len(changed) == 1 else self._distinct(changed)
            offer.look_again(nodes, self.free)
        offer.seen = len(self._changes)
        return offer

    def _distinct(self, changed: Sequence[Ints]) -> Ints:
        """The different nodes of some changes, sorted; none where nothing changed on any."""
        nodes = np.concatenate(changed)
        if MANY_NODES * len(nodes) > len(self.free):
            # To sort them would take longer than to look at all.
            seen = np.zeros(len(self.free), dtype=bool)
            seen[nodes] = True
            return np.flatnonzero(seen)
        nodes.sort()
        first = np.ones(len(nodes), dtype=bool)
        first[1:] = nodes[1:] != nodes[:-1]
        found: Ints = nodes[first]
        return found

    def allowed(self, pod_class: ClassIdx) -> Bools:
        """Nodes where rules between pods let one more pod of the pod class in [N]."""
        result = np.ones(self.problem.node_count, dtype=bool)
        for rule, load in self.loads_of(pod_class):
            domains = rule.open_domains(load, pod_class)
            if domains is not None:
                result &= domains[self.problem.levels[rule.level].domain]
        return result

    def open_row(self, pod_class: ClassIdx) -> Ints:
        """As `row`, without nodes that rules between pods close for good."""
        opened = self._opened(pod_class)
        return self.row(pod_class) if opened is None else opened.row

    def open_slots(self, pod_class: ClassIdx, level: int) -> Ints:
        """As `slots`, without nodes that rules between pods close for good."""
        opened = self._opened(pod_class)
        if opened is None:
            return self.slots(pod_class, level)
        if level not in opened.sums:
            opened.sums[level] = sums_by_domain(self.problem.levels[level], opened.row)
        return opened.sums[level]

    def _opened(self, pod_class: ClassIdx) -> _Opened | None:
        """What is open to a pod class now; None where no rule closes anything for good."""
        loads = self._closing.get(pod_class)
        if loads is None:
            return None
        known = self._open.get(pod_class)
        if known is None or known.seen < len(self._changes):
            row = self.row(pod_class)
            for load in loads:
                domains = load.rule.open_domains(load.pods, pod_class)
                if domains is not None:
                    row = np.where(domains[self.problem.levels[load.rule.level].domain], row, 0)
            known = self._open[pod_class] = _Opened(len(self._changes), row, {})
        return known

    def closed_by_others(self, pod_class: ClassIdx) -> bool:
        """Whether rules between pods close nodes to the class for good, and its own pods none."""
        return all(
            load.rule.closes_for_good and load.rule.is_about_others(pod_class)
            for load in self._of_class.get(pod_class, ())
        )

    def rules_hold(self) -> bool:
        """Whether the rules between pods hold that can only be checked on a whole plan. Nodes
        without new pods keep them, so only rules with new pods are checked.
        """
        for key, load in list(self._in_doubt.items()):
            if not load.holds():
                return False
            del self._in_doubt[key]
        return True

    def loads_of(self, pod_class: ClassIdx) -> list[tuple[Rule, Ints]]:
        """The rules that concern a pod class, with their pods."""
        return [(load.rule, load.pods) for load in self._of_class.get(pod_class, ())]

    # --- changes ----------------------------------------------------------

    def take(self, pod_class: ClassIdx, nodes: Ints, counts: Ints) -> None:
        """Place units of a pod class; `nodes` are distinct."""
        amounts = counts[:, None] * self.problem.request[pod_class]
        pods = _Pods(pod_class, nodes, counts)
        counted = (pods,) if pod_class in self._of_class else ()
        self._do(_Change(_Taken(nodes, amounts, counts * self.problem.gpus[pod_class], counted), 1))

    def take_units(self, gang: Gang, units: Units, sign: int = 1) -> None:
        """Place units of a gang all at once, or with the sign -1 give them back."""
        if units:
            self._do(_Change(self._taken_by(gang, units), sign))

    def give_back(self, gangs: Iterable[tuple[Gang, Units]]) -> None:
        """Give the units of some gangs back, as one change."""
        taken = [self._taken_by(gang, units) for gang, units in gangs if units]
        if not taken:
            return
        nodes, amounts, gpus, counted = zip(*taken, strict=True)
        parts = (np.concatenate(part) for part in (nodes, amounts, gpus))
        every = _Taken(*_on_distinct(*parts), tuple(chain.from_iterable(counted)))
        self._do(_Change(every, -1))

    def fits(self, gang: Gang, units: Units) -> bool:
        """Whether units of a gang fit all at once on nodes that are open to them; rules between
        pods are not asked.
        """
        wanted = self._wanted_by(gang, units)
        return bool((wanted.least <= self.free[wanted.nodes]).all())

    def which_fit(self, gangs: Sequence[tuple[Gang, Units]]) -> list[bool]:
        """Whether `fits` holds for each of some gangs, as if it were the only one."""
        wanted = [self._wanted_by(gang, units) for gang, units in gangs]
        if not wanted or not all(len(one.nodes) for one in wanted):
            return [self.fits(gang, units) for gang, units in gangs]
        nodes = np.concatenate([one.nodes for one in wanted])
        enough = (np.concatenate([one.least for one in wanted]) <= self.free[nodes]).all(axis=1)
        begins = np.cumsum([0, *(len(one.nodes) for one in wanted[:-1])])
        found: list[bool] = np.logical_and.reduceat(enough, begins).tolist()
        return found

    def _wanted_by(self, gang: Gang, units: Units) -> _Wanted:
        known = self._wanted.get(gang.index)
        if known is None or known.units is not units:
            taken = self._taken_by(gang, units)
            least = np.where(taken.amounts == 0, LEAST, taken.amounts)
            classes = np.array(_classes(gang, units), dtype=np.int64)
            if not self.problem.eligible[classes, [n for _, n, _ in units]].all():
                least = np.full_like(least, MORE_THAN_ANY)
            known = self._wanted[gang.index] = _Wanted(units, taken.nodes, least)
        return known

    def _taken_by(self, gang: Gang, units: Units) -> _Taken:
        if units is not gang.home:
            known = self._last.get(gang.index)
            if known is None or known[0] is not units:
                known = units, self._taken_by_all(_classes(gang, units), units)
                self._last[gang.index] = known
            return known[1]
        if gang.index not in self._homes:
            self._homes[gang.index] = self._taken_by_all(_classes(gang, units), units)
        return self._homes[gang.index]

    def _taken_by_all(self, classes: Sequence[ClassIdx], units: Sequence[UnitsOnNode]) -> _Taken:
        """What units take, each of its pod class."""
        of_class = np.array(classes, dtype=np.int64)
        on = [node for _, node, _ in units]
        nodes = np.array(on, dtype=np.int64)
        counts = np.array([count for *_, count in units], dtype=np.int64)
        counted = tuple(
            _Pods(s, nodes[of_class == s], counts[of_class == s])
            for s in sorted(self._of_class.keys() & set(classes))
        )
        amounts = counts[:, None] * self.problem.request[of_class]
        gpus = counts * self.problem.gpus[of_class]
        if len(set(on)) < len(on):
            # Pods of many classes at once.
            nodes, amounts, gpus = _on_distinct(nodes, amounts, gpus)
        return _Taken(nodes, amounts, gpus, counted)

    def give(self, nodes: Ints, amounts: Ints) -> None:
        """Change what is left on distinct nodes by amounts[n, R]; `undo` does not take it back."""
        self.free[nodes] += amounts
        self._changes.append(nodes)

    def use_slot(self, domain: int, size: int) -> None:
        """Fill one slot of the layout."""
        slot = Slot(domain, size)
        self._journal.append(slot)
        self.slots_left[slot] -= 1

    def mark(self) -> int:
        """Where `undo` goes back to."""
        return len(self._journal)

    def undo(self, mark: int) -> None:
        """Take back all that was placed since `mark`."""
        while len(self._journal) > mark:
            last = self._journal.pop()
            if isinstance(last, Slot):
                self.slots_left[last] += 1
            else:
                self._apply(last.taken, -last.sign)

    def take_plan(self, plan: Plan) -> None:
        """Place a whole plan."""
        self.queues.charge_plan(self.problem, plan)
        gangs = self.problem.gangs
        units = [one for some in plan.values() for one in some]
        classes = [s for index, some in plan.items() for s in _classes(gangs[index], some)]
        if units:
            self._do(_Change(self._taken_by_all(classes, units), 1))

    def _do(self, change: _Change) -> None:
        self._journal.append(change)
        self._apply(*change)

    def _apply(self, taken: _Taken, sign: int) -> None:
        nodes, amounts, gpus, counted = taken
        if sign > 0:
            self.free[nodes] -= amounts
            self.gpus_free[nodes] -= gpus
        else:
            self.free[nodes] += amounts
            self.gpus_free[nodes] += gpus
        self._changes.append(nodes)
        for pods in counted:
            self._count(pods.pod_class, pods.nodes, sign * pods.counts)

    def _count(self, pod_class: ClassIdx, nodes: Ints, counts: Ints) -> None:
        """Tell the rules about pods that come, or go where `counts` are negative."""
        for load in self._of_class.get(pod_class, ()):
            load.add(pod_class, self.problem.levels[load.rule.level].domain[nodes], counts)
            self._in_doubt[id(load)] = load


class _Offer:
    """What nodes offer one pod class: `row[N]`, and its sums by domain where they were asked for.

    Each array of sums has one more place, 0, for nodes in no domain.
    """

    def __init__(self, problem: Problem, pod_class: ClassIdx, free: Ints) -> None:
        self._levels = problem.levels
        self._eligible = problem.eligible[pod_class]
        request = problem.request[pod_class]
        columns = np.flatnonzero(request)
        # Resources with equal requests are adjacent.
        self._columns = columns[np.argsort(request[columns], kind="stable")]
        amounts, self._begins = np.unique(request[self._columns], return_index=True)
        self._amounts = amounts[:, None]
        self._sums: dict[int, Ints] = {}
        #: How many changes of the nodes it knows.
        self.seen = 0
        nodes = np.flatnonzero(self._eligible)
        if 2 * len(nodes) > len(free):
            self.row = pods_that_fit(free, request)
            self.row[~self._eligible] = 0
        else:
            # A class of pods at home has a single node.
            self.row = np.zeros(len(free), dtype=np.int64)
            self.row[nodes] = pods_that_fit(free[nodes], request)

    def slots(self, level: int) -> Ints:
        sums = self._sums.get(level)
        if sums is None:
            of = self._levels[level]
            sums = np.append(sums_by_domain(of, self.row), 0)
            self._sums[level] = sums
        return sums

    def look_again(self, nodes: Ints, free: Ints) -> None:
        """Some distinct nodes may have changed."""
        if not len(self._columns):
            return  # A class that asks for nothing fits as before.
        amounts = free.T.take(nodes, axis=1)
        amounts = amounts[self._columns]
        if len(self._begins) < len(self._columns):
            amounts = np.minimum.reduceat(amounts, self._begins, axis=0)
        new = np.minimum.reduce(amounts // self._amounts, axis=0, initial=MANY)
        new *= self._eligible[nodes]
        change = new - self.row[nodes]
        self.row[nodes] = new
        for level, sums in self._sums.items():
            # The domain -1, for none, is the last place.
            np.add.at(sums, self._levels[level].domain[nodes], change)
            sums[-1] = 0


class _Load:
    """The pods under one rule: `pods[K, D]` by kind of member, see `Rule.tracked`, and domain."""

    def __init__(self, rule: Rule, domains: int) -> None:
        self.rule = rule
        self._weights = rule.tracked()
        self.pods = np.zeros((len(self._weights), domains), dtype=np.int64)
        self.pod_classes = [
            ClassIdx(s) for s in np.flatnonzero(np.any(self._weights, axis=0)).tolist()
        ]

    def add(self, pod_class: ClassIdx, domains: Ints, counts: Ints) -> None:
        inside = domains >= 0
        for row, weight in zip(self.pods, self._weights, strict=True):
            if weight[pod_class]:
                np.add.at(row, domains[inside], counts[inside] * int(weight[pod_class]))

    def holds(self) -> bool:
        """Whether the rule holds, as far as it can only be checked on a whole plan."""
        return self.rule.holds(self.pods)


def _classes(gang: Gang, units: Units) -> list[ClassIdx]:
    """The pod class of each of the units of a gang."""
    return [gang.demands[d].pod_class for d, _, _ in units]


def _on_distinct(nodes: Ints, amounts: Ints, gpus: Ints) -> tuple[Ints, Ints, Ints]:
    """The same with each node once, so that it changes once."""
    order = nodes.argsort(kind="stable")
    nodes = nodes[order]
    begins = np.flatnonzero(np.append(True, nodes[1:] != nodes[:-1]))
    return (
        nodes[begins],
        np.add.reduceat(amounts[order], begins),
        np.add.reduceat(gpus[order], begins),
    )
