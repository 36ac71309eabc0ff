"""Columns for devices where what fits is found by trying (see `patterns`).

Where pods are evicted, one that may go is a kind of its own while it stays. Where they move it may
also come to other nodes, where it takes what all take. So each node with such pods has columns of
its own, and these hold it to its devices as long as it is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from placement_service.entities.node import Node
from placement_service.entities.reservations import Reservation
from placement_service.formulation.devices.boards import Board, boards_of, left_of, state_of
from placement_service.formulation.devices.columns import Amounts, DeviceColumns
from placement_service.formulation.devices.device_blocks import PLENTY, could_come
from placement_service.formulation.devices.homes import HomePod, SetKey
from placement_service.formulation.devices.patterns import Home, Listings, Situation, columns_of
from placement_service.formulation.devices.question import DeviceQuestion
from placement_service.formulation.devices.wants import NONE, Load, Want


class Tried(NamedTuple):
    """Columns with what fits, and with what might at most. `comes` is what a pod takes that is not
    at home.
    """

    offered: DeviceColumns
    most: DeviceColumns
    comes: Callable[[Want], Amounts]
    names: Sequence[str]
    exact: bool


def tried(questions: Sequence[DeviceQuestion], listings: Listings) -> list[Tried]:
    """The same columns for a question and for others in which fewer pods may go. Raises
    TooManyError.
    """
    first, *_ = questions
    wants = first.wants
    switches = any(want.nics for want in wants)
    required = any(want.in_partition for want in wants)
    boards = boards_of(first.nodes, switches=switches, required=required)
    held = _busy_sets(first.snapshot.reservations, first.nodes)
    cases: dict[tuple[int, str, frozenset[int]], Situation] = {}
    for q, question in enumerate(questions):
        for name, node in question.nodes.items():
            may_go = set(question.homes.get(name, ()))
            homes = [pod if pod in may_go else None for pod in first.homes.get(name, ())]
            for busy in {frozenset[int](), *held.get(name, ())}:
                cases[q, name, busy] = _situation(boards[name], node, homes, busy)
    columns = columns_of(list(cases.values()), wants, listings)
    labels = [f"the fit of devices ({c + 1})" for c in range(len(columns.takes))]
    kind_of = {want: k for k, want in enumerate(wants)}
    home_of = {
        pod.key: len(wants) + h for pods in first.homes.values() for h, pod in enumerate(pods)
    }

    def comes(want: Want) -> Amounts:
        kind = kind_of.get(want)
        return {} if kind is None else taken(kind)

    def takes(key: SetKey, want: Want) -> Amounts:
        home = home_of.get(key)
        return comes(want) if home is None else taken(home)

    def taken(kind: int) -> Amounts:
        return {
            label: row[kind] for label, row in zip(labels, columns.takes, strict=True) if row[kind]
        }

    def words(q: int, numbers: Iterable[tuple[int, ...]]) -> DeviceColumns:
        table = dict(zip(cases, numbers, strict=True))
        plenty = dict.fromkeys(labels, PLENTY)

        def offers(node: Node, busy: Iterable[int]) -> Amounts:
            there = table.get((q, node.name, frozenset(busy)))
            return plenty if there is None else dict(zip(labels, there, strict=True))

        return DeviceColumns(offers, takes)

    return [
        Tried(words(q, columns.offers), words(q, columns.most), comes, labels, columns.exact)
        for q in range(len(questions))
    ]


def on_own_nodes(question: DeviceQuestion, columns: Tried) -> DeviceColumns:
    """The columns where pods move: those that may stay on a node count as at home there, and
    elsewhere like all others.
    """
    home_of = {pod.key: name for name, pods in question.homes.items() for pod in pods}
    own = {name: {c: f"{c} of {name}" for c in columns.names} for name in question.homes}
    nowhere = dict.fromkeys((here for names in own.values() for here in names.values()), PLENTY)

    def offers(node: Node, busy: Iterable[int]) -> Amounts:
        there = columns.offered.offers(node, busy)
        names = own.get(node.name)
        if names is None:
            return {**there, **nowhere}
        plenty = dict.fromkeys(columns.names, PLENTY)
        return {**plenty, **nowhere, **{names[c]: n for c, n in there.items()}}

    def takes(key: SetKey, want: Want) -> Amounts:
        comes, home = columns.comes(want), home_of.get(key)
        found = dict(comes)
        for name, names in own.items():
            here = columns.offered.takes(key, want) if name == home else comes
            found |= {names[c]: n for c, n in here.items()}
        return found

    return DeviceColumns(offers, takes)


def anywhere(question: DeviceQuestion, listings: Listings) -> DeviceColumns:
    """Looser columns where pods move: where a pod runs it takes what it takes on any other node. A
    node says nothing where some pod could not come to the devices that it has.
    """
    [columns] = tried([replace(question, homes={})], listings)
    odd = {
        name for name, pods in question.homes.items() if not _could_come(question.nodes[name], pods)
    }
    plenty = dict.fromkeys(columns.names, PLENTY)

    def offers(node: Node, busy: Iterable[int]) -> Amounts:
        return plenty if node.name in odd else columns.most.offers(node, busy)

    return DeviceColumns(offers, lambda key, want: columns.comes(want))


def _could_come(node: Node, pods: Sequence[HomePod]) -> bool:
    """Whether pods could come to the devices that they have, all of them together."""
    taken: defaultdict[int, Load] = defaultdict(lambda: NONE)
    for pod in pods:
        if not could_come(node, pod.want, pod.devices):
            return False
        for d, load in pod.loads(node).items():
            taken[d] = Load(taken[d].compute + load.compute, taken[d].memory + load.memory)
    return all(taken[d.index].fits(left_of(d)) for d in node.devices)


def _situation(
    board: Board, node: Node, pods: Iterable[HomePod | None], busy: frozenset[int]
) -> Situation:
    position = {index: i for i, index in enumerate(board.indices)}
    state = state_of(board, node.devices)
    left = [NONE if d.index in busy else left_of(d) for d in node.devices]
    homes = tuple(
        None
        if pod is None or busy.intersection(pod.devices)
        else Home(
            tuple((position[d], load) for d, load in pod.loads(node).items()),
            (0,) * len(state.nics),
        )
        for pod in pods
    )
    return Situation(board, state._replace(left=tuple(left)), homes)


def _busy_sets(
    reservations: Iterable[Reservation], nodes: Mapping[str, Node]
) -> Mapping[str, list[frozenset[int]]]:
    """By node the sets of devices that its reservations hold, the first, the first two, ..."""
    found: defaultdict[str, list[frozenset[int]]] = defaultdict(lambda: [frozenset()])
    for reservation in reservations:
        if reservation.node in nodes and reservation.devices:
            found[reservation.node].append(found[reservation.node][-1] | set(reservation.devices))
    return found
