"""Columns for devices: nodes allocate them, pods ask for them and reservations hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from placement_service.entities.node import Node, Resources
from placement_service.entities.nodes import KindColumn, Nodes
from placement_service.entities.request import PodTemplate, Snapshot
from placement_service.entities.reservations import Reservation
from placement_service.formulation.devices.device_blocks import PLENTY
from placement_service.formulation.devices.homes import SetKey
from placement_service.formulation.devices.question import DeviceQuestion
from placement_service.formulation.devices.wants import Want, want_of
from placement_service.formulation.held_columns import with_templates
from placement_service.formulation.prepared import Prepared

#: The column that keeps shares of devices away from nodes that do not list their devices.
LISTED = "a list of GPUs"

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DeviceColumns:
    """What nodes offer, also with some devices taken in addition, and what pods of a set take."""

    offers: Callable[[Node, Iterable[int]], Amounts]
    takes: Callable[[SetKey, Want], Amounts]


def with_columns(
    opened: Prepared,
    question: DeviceQuestion,
    columns: DeviceColumns,
    looser: DeviceColumns | None = None,
) -> Prepared:
    """The snapshot with columns for its devices.

    Where these are stricter than the rules, `looser` ones allow all that the rules do.
    """
    strict = _expressed(opened.snapshot, question, columns)
    relaxed = opened.relaxed
    if looser is not None or relaxed is not None:
        # What is relaxed already stays so.
        relaxed = _expressed(relaxed or opened.snapshot, question, looser or columns).snapshot
    return replace(
        opened,
        snapshot=strict.snapshot,
        relaxed=relaxed,
        exact=opened.exact and not strict.guessed,
        few_devices=looser is not None and not opened.homes,
    )


class _Expressed(NamedTuple):
    """A snapshot with columns; `guessed` as in `_Held`."""

    snapshot: Snapshot
    guessed: bool


def _expressed(snapshot: Snapshot, question: DeviceQuestion, columns: DeviceColumns) -> _Expressed:
    known: dict[tuple[object, ...], PodTemplate] = {}

    def template(key: SetKey, old: PodTemplate) -> PodTemplate:
        want = want_of(old, question.policy)
        if want is None:
            return old
        takes = {r: n for r, n in columns.takes(key, want).items() if n}
        if not want.whole or want.nics or want.in_partition:
            takes[LISTED] = 1
        same = (old, tuple(sorted(takes.items())))
        if same not in known:
            known[same] = replace(old, requests={**old.requests, **takes})
        return known[same]

    gangs = with_templates(snapshot, lambda key, old: template(SetKey(*key), old))
    held = _Held(question.nodes, columns)
    reservations = tuple(held.more(r) for r in snapshot.reservations)
    nodes = _with_offers(snapshot.columns, question.nodes, columns)
    found = replace(snapshot, nodes=nodes, gangs=gangs, reservations=reservations)
    return _Expressed(found, held.guessed)


def _with_offers(nodes: Nodes, listed: Mapping[str, Node], columns: DeviceColumns) -> Nodes:
    """The nodes, which allocate what they offer of the columns as well."""
    unlisted = {LISTED: 0, **columns.offers(Node(""), ())}
    kinds: dict[object, int] = {}
    allocatable: list[Resources] = []
    number = np.zeros(len(nodes), dtype=np.int64)
    for i, (name, old) in enumerate(zip(nodes.names, nodes.allocatable.number, strict=True)):
        node = listed.get(name)
        offers = unlisted if node is None else {LISTED: PLENTY, **columns.offers(node, ())}
        same = int(old), tuple(offers.values())
        if same not in kinds:
            kinds[same] = len(kinds)
            allocatable.append({**nodes.allocatable.kinds[int(old)], **offers})
        number[i] = kinds[same]
    return replace(nodes, allocatable=KindColumn(tuple(allocatable), number))


class _Held:
    """What reservations hold of the columns: what their devices add to the offer of the node."""

    def __init__(self, nodes: Mapping[str, Node], columns: DeviceColumns) -> None:
        self._nodes = nodes
        self._columns = columns
        self._before: dict[str, frozenset[int]] = {}
        #: Whether several hold devices of one node, which together may be worth less.
        self.guessed = False

    def more(self, reservation: Reservation) -> Reservation:
        """The reservation with what it holds of the columns."""
        node = self._nodes.get(reservation.node)
        if node is None or not reservation.devices:
            return reservation
        before = self._before.get(node.name, frozenset())
        self.guessed = self.guessed or bool(before)
        after = self._before[node.name] = before | set(reservation.devices)
        worth = {
            r: amount - self._columns.offers(node, after)[r]
            for r, amount in self._columns.offers(node, before).items()
        }
        return replace(
            reservation, held={**reservation.held, **{r: n for r, n in worth.items() if n > 0}}
        )
