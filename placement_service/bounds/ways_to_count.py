"""Ways to count: what a unit of each pod class counts, and what each node offers.

A way is a reference request and a set of nodes, or a family of pod classes of which no node holds
two (see `counting` for why what they count is a bound).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import Bools, Ints, fit
from placement_service.formulation.problem import Problem

#: Ways of counting with larger sums are left out: below, sums are exact, as integers and
#: as floats.
MAX_SUM = 2.0**52


@dataclass(frozen=True, slots=True)
class CountingParameters:
    """How much is combined; more would cost time and rarely adds anything."""

    #: Sets of nodes that are counted over.
    node_sets: int = 48
    #: Requests that are counted by, about.
    references: int = 16
    #: Sizes that parts are rounded down to, at each level.
    roundings: int = 12


COUNTING_DEFAULTS = CountingParameters()


class WaysToCount(NamedTuple):
    """What a unit of each pod class counts [K, S], and what each node offers [K, N]."""

    units: Ints
    room: Ints


def ways_to_count(problem: Problem, parameters: CountingParameters) -> WaysToCount:
    """The ways: by reference and node set, then by Hall's condition."""
    demand = _demand(problem)
    fits = usable_nodes(problem)
    found: dict[tuple[bytes, bytes], WaysToCount] = {}

    def add(units: Ints, room: Ints) -> None:
        # Room beyond all that is asked for makes no difference.
        asked = float(demand.astype(float) @ units)
        if asked >= MAX_SUM:
            return
        room = np.minimum(room, int(asked) * problem.repeats)
        if units.any() and float(room.sum(dtype=float)) < MAX_SUM:
            found.setdefault((units.tobytes(), room.tobytes()), WaysToCount(units, room))

    # Running pods that may go fit only their own node: there are many such sets, of little use.
    masks = sorted(fits.values(), key=lambda mask: np.count_nonzero(mask) == 1)
    sets = _confined(problem, fits, _node_sets(masks, parameters.node_sets))
    for reference in _references(problem, demand, parameters.references):
        room, units = fit(problem.free, reference), fit(problem.request, reference)
        for nodes, inside in sets:
            add(units * inside, room * nodes)
    for alone in one_per_node(problem, fits):
        whole = {s: fits[s] for s in alone}
        unions = _node_sets(list(whole.values()), parameters.node_sets)
        for _, inside in _confined(problem, whole, unions):
            # Only nodes that fit one of the counted kinds can hold any.
            counted = [whole[int(s)] for s in np.flatnonzero(inside)]
            if counted:
                add(inside, np.any(counted, axis=0).astype(np.int64))
    if not found:
        pod_classes, count = problem.class_count, problem.node_count
        return WaysToCount(
            np.zeros((0, pod_classes), dtype=np.int64), np.zeros((0, count), dtype=np.int64)
        )
    return WaysToCount(
        np.array([way.units for way in found.values()]),
        np.array([way.room for way in found.values()]),
    )


def usable_nodes(problem: Problem) -> dict[int, Bools]:
    """Nodes [N] that can take a unit now, for each pod class that is asked for."""
    found: dict[int, Bools] = {}
    for s in np.flatnonzero(_demand(problem)).tolist():
        able = problem.eligible[s]
        if np.count_nonzero(able) == 1:
            (at,) = np.flatnonzero(able)
            found[s] = able & bool(fit(problem.free[at : at + 1], problem.request[s])[0] > 0)
        else:
            found[s] = able & (fit(problem.free, problem.request[s]) > 0)
    return found


def one_per_node(problem: Problem, fits: dict[int, Bools]) -> list[tuple[int, ...]]:
    """Families of pod classes of which no node holds two, whichever two.

    One for each resource: the pod classes that take more than half of what any node
    that fits them has left of it.
    """
    found: dict[tuple[int, ...], None] = {}
    for r in np.flatnonzero(~problem.partial_columns).tolist():
        family = tuple(
            s
            for s, usable in fits.items()
            if 2 * problem.request[s, r] > problem.free[usable, r].max(initial=0)
        )
        if family:
            found.setdefault(family)
    return list(found)


class _NodeSet(NamedTuple):
    """Nodes [N], and 1 for the pod classes that fit nowhere outside [S]."""

    nodes: Bools
    inside: Ints


def _confined(problem: Problem, fits: dict[int, Bools], sets: Iterable[Bools]) -> list[_NodeSet]:
    """The node sets with the pod classes that they confine."""
    places = {s: np.flatnonzero(usable) for s, usable in fits.items()}
    lone = {s: int(nodes[0]) for s, nodes in places.items() if len(nodes) == 1}
    classes, home = np.array(list(lone), dtype=np.int64), np.array(list(lone.values()), np.int64)
    found = []
    for nodes in sets:
        inside = np.zeros(problem.class_count, dtype=np.int64)
        inside[classes] = nodes[home]
        inside[[s for s, at in places.items() if s not in lone and nodes[at].all()]] = 1
        found.append(_NodeSet(nodes, inside))
    return found


def _demand(problem: Problem) -> Ints:
    """Units asked for of each pod class, extras included [S]."""
    demand = np.zeros(problem.class_count, dtype=np.int64)
    for gang in problem.gangs:
        if gang.placeable:
            for d in gang.demands:
                demand[d.pod_class] += d.count
    return demand


def _node_sets(masks: Sequence[Bools], most: int) -> list[Bools]:
    """At most so many distinct masks, closed under union as far as that goes, and all nodes."""
    found: dict[bytes, Bools] = {m.tobytes(): m for m in masks}
    if masks:
        everything = np.any(masks, axis=0)
        found.setdefault(everything.tobytes(), everything)
    grown = list(found.values())
    for a in grown:
        for b in list(found.values()):
            if len(found) >= most:
                break
            both = a | b
            found.setdefault(both.tobytes(), both)
    return list(found.values())[:most]


def _references(problem: Problem, demand: Ints, most: int) -> list[Ints]:
    """Requests to count by: each resource alone, and the pod classes most asked for."""
    found: dict[bytes, Ints] = {}

    def add(reference: Ints) -> None:
        if reference.any():
            found.setdefault(reference.tobytes(), reference)

    asked = problem.request[demand > 0]
    # Where a node has all that is asked for there is nothing to count.
    for r in np.flatnonzero(~problem.partial_columns).tolist():
        sizes = np.unique(asked[:, r][asked[:, r] > 0])
        for size in sizes[-2:] if len(problem.columns) > most else sizes[-4:]:
            unit = np.zeros(len(problem.columns), dtype=np.int64)
            unit[r] = size
            add(unit)
        if len(sizes):
            unit = np.zeros(len(problem.columns), dtype=np.int64)
            unit[r] = np.gcd.reduce(sizes)
            add(unit)
    weight = demand * np.maximum(problem.gpus, 1)
    for s in np.argsort(-weight, kind="stable")[: np.count_nonzero(demand)]:
        if len(found) >= 2 * most:
            break
        add(problem.request[s].copy())
    return list(found.values())
