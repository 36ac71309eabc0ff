"""Devices inside nodes as ordinary resources of the nodes (rule 16).

Nodes offer, and pods take, amounts of columns that say which pods fit the devices of a node
together. Where whole GPUs and shares of them are blocks that nest the columns have a closed
form (`device_blocks`), also beside running pods that may go and leave the devices that they
have (`device_homes`). Else what fits is tried out (`device_patterns`): network devices on the
switches of GPUs, partitions that overlap, shares that do not divide a GPU.

Where that is too much the blocks are used, which are stricter than the rules. Then, and where
no columns say exactly what fits, `relaxed` is a snapshot that allows more than the rules do:
what is proven of it is proven of the question.

Which devices a pod gets is settled at the end (see `device_names`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from placement_service.entities.devices import Device
from placement_service.entities.node import Node, Resources
from placement_service.entities.nodes import KindColumn, Nodes
from placement_service.entities.request import (
    BoundPod,
    PodGang,
    PodSet,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.entities.reservations import Reservation
from placement_service.formulation.device_blocks import PLENTY, Blocks, partitions_count
from placement_service.formulation.device_boards import (
    Board,
    board_of,
    left_of,
    state_of,
    without,
)
from placement_service.formulation.device_homes import (
    MOST_OWN,
    HomeColumns,
    HomePod,
    SetKey,
    ways_to_stay,
)
from placement_service.formulation.device_patterns import (
    MOST_HOMES,
    Columns,
    Home,
    Situation,
    TooManyError,
    columns_of,
)
from placement_service.formulation.device_wants import Load, Want, requires_partition, want_of
from placement_service.formulation.eviction_rights import EvictionRights, Sharing
from placement_service.formulation.prepared import Prepared

#: The column that keeps parts of devices off nodes that do not list theirs.
LISTED = "a list of GPUs"

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Words:
    """What nodes offer, also with some devices taken besides, and what pods of a set take."""

    offers: Callable[[Node, Iterable[int]], Amounts]
    takes: Callable[[SetKey, Want], Amounts]


class CannotStayError(Exception):
    """Of these gangs it cannot be said what is left on devices while some of their pods stay."""

    def __init__(self, gangs: Iterable[int]) -> None:
        super().__init__()
        self.gangs = frozenset(gangs)


@dataclass(frozen=True, slots=True)
class _Question:
    """`nodes` that list devices have all that running pods may leave."""

    snapshot: Snapshot
    policy: Policy
    nodes: dict[str, Node]
    homes: Mapping[str, tuple[HomePod, ...]]
    moves: bool

    @property
    def apart(self) -> Mapping[str, tuple[HomePod, ...]]:
        """Those to which it matters which devices they have.

        Where pods move one that has whole devices is like one that comes, unless partitions
        matter.
        """
        if not self.moves:
            return self.homes
        unlike = {
            name: tuple(p for p in pods if not p.want.whole or self.partitions_count(name))
            for name, pods in self.homes.items()
        }
        return {name: pods for name, pods in unlike.items() if pods}

    def partitions_count(self, name: str) -> bool:
        """Whether it matters which GPUs of a node a pod of whole ones has."""
        return partitions_count(self.nodes[name], required=requires_partition(self.snapshot))

    @property
    def gangs_at_home(self) -> frozenset[int]:
        return frozenset(pod.key[0] for pods in self.homes.values() for pod in pods)

    @property
    def wants(self) -> list[Want]:
        """What pods want that have no devices yet, the largest first."""
        at_home = {pod.key for pods in self.homes.values() for pod in pods}
        found = {
            want
            for key, s in _sets(self.snapshot)
            if s.pods and (self.moves or key not in at_home)
            if (want := want_of(s.template, self.policy)) is not None
        }
        return sorted(found, key=lambda w: (w.whole, *w), reverse=True)


def with_devices(opened: Prepared, request: Snapshot, policy: Policy) -> Prepared:
    """The snapshot with devices as resources; itself where no device matters.

    Raises CannotStayError when some gangs that may give way have to be left as they are.
    """
    snapshot = opened.snapshot
    asked = {want for _, s in _sets(snapshot) if (want := want_of(s.template, policy))}
    in_parts = any(not want.whole or want.nics or want.in_partition for want in asked)
    if not in_parts and not any(parts.devices for parts, _ in snapshot.columns.parts.counts()):
        return opened
    question = _question(opened, request, policy)
    if not question.wants:
        # Nobody comes, so it does not matter what those who go leave.
        return opened
    blocks = Blocks(list(question.nodes.values()), question.wants)
    apart = question.apart
    insists = any(map(question.partitions_count, apart))
    if blocks.exact and not (apart and (insists or in_parts)):
        return _said(opened, question, _counted(blocks))
    held = {r.node for r in snapshot.reservations if r.devices}
    if blocks.exact and held.isdisjoint(apart):
        _limit(
            question,
            apart,
            lambda node, pods: ways_to_stay(blocks, node, pods),
            MOST_OWN if question.moves else None,
        )
        return _beside_homes(opened, request, question, blocks)
    if question.homes and (question.moves or _sharings(opened, request, policy)):
        # A pod that stays has devices of its own, one that comes takes any, or not those that
        # some victims leave.
        raise CannotStayError(question.gangs_at_home)
    _limit(question, apart, lambda _, pods: len(pods) if len(pods) <= MOST_HOMES else None)
    try:
        columns, offers = _columns(question)
    except TooManyError:
        if question.homes:
            raise CannotStayError(question.gangs_at_home) from None
        return replace(
            _said(opened, question, _counted(blocks)),
            relaxed=_said(opened, question, _relaxed(question)).snapshot,
        )
    result = _said(opened, question, offers(columns.offers))
    if columns.exact:
        return result
    return replace(result, relaxed=_said(opened, question, offers(columns.most)).snapshot)


def _counted(blocks: Blocks) -> _Words:
    return _Words(
        lambda node, busy: blocks.offers(node, busy), lambda key, want: blocks.takes(want)
    )


def _beside_homes(
    opened: Prepared, request: Snapshot, question: _Question, blocks: Blocks
) -> Prepared:
    everything = HomeColumns(blocks, question.nodes, question.apart, moves=question.moves)
    loose = _Words(everything.offers, everything.takes)
    sharings = () if question.moves else _sharings(opened, request, question.policy)
    if not sharings:
        result = _said(opened, question, loose)
        if everything.exact:
            return result
        return replace(result, relaxed=_said(opened, question, _counted(blocks)).snapshot)
    shared = [_of_sharing(opened, request, question, blocks, s) for s in sharings]

    def offers(node: Node, busy: Iterable[int]) -> Amounts:
        found = dict(everything.offers(node, busy))
        for k, columns in enumerate(shared):
            found |= {_for_sharing(c, k): n for c, n in columns.offers(node, busy).items()}
        return found

    def takes(key: SetKey, want: Want) -> Amounts:
        found = dict(everything.takes(key, want))
        gang = request.gangs[key[0]]
        for k, (sharing, columns) in enumerate(zip(sharings, shared, strict=True)):
            if sharing.gives(gang) if key[0] in opened.opened else sharing.takes(gang):
                found |= {_for_sharing(c, k): n for c, n in columns.takes(key, want).items()}
        return found

    # A device that a victim leaves is room that not all may use, but counts decide about that.
    return replace(
        _said(opened, question, _Words(offers, takes)),
        relaxed=_said(opened, question, loose).snapshot,
    )


def _sharings(opened: Prepared, request: Snapshot, policy: Policy) -> Sequence[Sharing]:
    """Gangs that may not use the room of all who may go; see `staying_or_going`."""
    victims = [request.gangs[g] for g in sorted(opened.opened)]
    return EvictionRights(request, policy).sharings(victims)


def _of_sharing(
    opened: Prepared, request: Snapshot, question: _Question, blocks: Blocks, sharing: Sharing
) -> HomeColumns:
    """The columns where all stay whose room is not for the gangs of a sharing."""
    listed = opened.snapshot.columns
    homes = {
        name: tuple(pod for pod in pods if sharing.gives(request.gangs[pod.key[0]]))
        for name, pods in question.homes.items()
    }
    nodes = {
        name: without(listed[listed.row_of[name]], ((pod.devices, pod.want) for pod in pods))
        for name, pods in homes.items()
    }
    return HomeColumns(blocks, question.nodes | nodes, homes, moves=False)


def _for_sharing(column: str, sharing: int) -> str:
    return f"{column} for sharing {sharing}"


def _limit(
    question: _Question,
    homes: Mapping[str, Sequence[HomePod]],
    columns_for: Callable[[Node, Sequence[HomePod]], int | None],
    most: int | None = None,
) -> None:
    """Raises CannotStayError for gangs beside whose pods it cannot be told what is left.

    Nodes that need few columns come first; of each those of low priority may give way, and of
    these the small ones.
    """
    gangs = question.snapshot.gangs
    closed: set[int] = set()
    spent = 0

    def needed(name: str, pods: Sequence[HomePod]) -> float:
        found = columns_for(question.nodes[name], pods)
        return math.inf if found is None else found

    needs = {name: needed(name, pods) for name, pods in homes.items()}
    for name in sorted(needs, key=lambda name: (needs[name], name)):
        mine: defaultdict[int, list[HomePod]] = defaultdict(list)
        for pod in homes[name]:
            mine[pod.key[0]].append(pod)
        kept = list(homes[name])
        if not _affordable(needs[name], spent, most):
            kept = []
            for g in sorted(mine, key=lambda g: (gangs[g].priority, len(mine[g]), gangs[g].name)):
                if _affordable(needed(name, [*kept, *mine[g]]), spent, most):
                    kept += mine[g]
                else:
                    closed.add(g)
        spent += int(needed(name, kept)) if most is not None else 0
    if closed:
        raise CannotStayError(closed)


def _affordable(columns: float, spent: int, most: int | None) -> bool:
    return columns < math.inf and (most is None or spent + columns <= most)


def _question(opened: Prepared, request: Snapshot, policy: Policy) -> _Question:
    snapshot = opened.snapshot
    running: dict[str, tuple[BoundPod, Want | None]] = {}
    if opened.homes:
        running = {
            pod.name: (pod, want_of(s.template, policy))
            for gang in request.gangs
            for group in gang.groups
            for s in group.pod_sets
            for pod in s.bound_pods
        }
    homes: defaultdict[str, dict[str, HomePod]] = defaultdict(dict)
    columns = snapshot.columns
    lists = columns.parts.where(lambda parts: parts.devices)
    for home in opened.homes:
        if lists[home.node]:
            key = home.gang, home.group, home.pod_set
            name = columns.names[home.node]
            whole = _goes_whole(request.gangs[home.gang])
            for other in snapshot.gangs[home.gang].groups[home.group].pod_sets[home.pod_set].pods:
                pod, want = running[other.name]
                if pod.node == name and pod.devices and want is not None:
                    tie = home.gang if whole else pod.name
                    homes[name][pod.name] = HomePod(key, pod.devices, want, tie)
    frozen = {name: tuple(pods.values()) for name, pods in homes.items()}
    nodes = {
        columns.names[i]: without(
            columns[i], ((pod.devices, pod.want) for pod in frozen.get(columns.names[i], ()))
        )
        for i in np.flatnonzero(lists).tolist()
    }
    return _Question(snapshot, policy, nodes, frozen, moves=opened.moves)


def _goes_whole(gang: PodGang) -> bool:
    """Whether no pod of a running gang can go without all others."""
    return all(g.min_replicas >= g.running_count and not g.pending_count for g in gang.groups)


# --- columns by trying -------------------------------------------------------------


def _columns(
    question: _Question,
) -> tuple[Columns, Callable[[Iterable[tuple[int, ...]]], _Words]]:
    """Columns, and the words for what situations offer of them. Raises TooManyError."""
    wants = question.wants
    switches = any(want.nics for want in wants)
    required = any(want.in_partition for want in wants)
    boards = {
        name: board_of(node, switches=switches, required=required)
        for name, node in question.nodes.items()
    }
    held = _busy_sets(question.snapshot.reservations, question.nodes)
    cases: dict[tuple[str, frozenset[int]], Situation] = {}
    for name, node in question.nodes.items():
        for busy in {frozenset[int](), *held.get(name, ())}:
            cases[name, busy] = _situation(boards[name], node, question.homes.get(name, ()), busy)
    columns = columns_of(list(cases.values()), wants)
    labels = [f"the fit of devices ({c + 1})" for c in range(len(columns.takes))]
    kinds: dict[object, int] = {want: k for k, want in enumerate(wants)}
    for pods in question.homes.values():
        for h, pod in enumerate(pods):
            kinds[pod.key] = len(wants) + h

    def takes(key: SetKey, want: Want) -> Amounts:
        kind = kinds.get(key, kinds.get(want, -1))
        if kind < 0:
            return {}
        return {
            label: row[kind] for label, row in zip(labels, columns.takes, strict=True) if row[kind]
        }

    def words(numbers: Iterable[tuple[int, ...]]) -> _Words:
        table = dict(zip(cases, numbers, strict=True))
        plenty = dict.fromkeys(labels, PLENTY)

        def offers(node: Node, busy: Iterable[int]) -> Amounts:
            there = table.get((node.name, frozenset(busy)))
            return plenty if there is None else dict(zip(labels, there, strict=True))

        return _Words(offers, takes)

    return columns, words


def _situation(
    board: Board, node: Node, pods: Iterable[HomePod], busy: frozenset[int]
) -> Situation:
    position = {index: i for i, index in enumerate(board.indices)}
    state = state_of(board, node.devices)
    left = [Load(0, 0) if d.index in busy else left_of(d) for d in node.devices]
    homes = tuple(
        Home(
            tuple((position[d], load) for d, load in pod.loads(node).items()),
            (0,) * len(state.nics),
        )
        for pod in pods
        if not busy.intersection(pod.devices)
    )
    return Situation(board, state._replace(left=tuple(left)), homes)


# --- a relaxation ------------------------------------------------------------------


def _relaxed(question: _Question) -> _Words:
    """What fits each device by itself, and the partitions that pods of whole devices need."""
    nodes = list(question.nodes.values())
    wholes = Blocks(nodes, [_unpicky(want) for want in question.wants if want.whole])
    parts = list(dict.fromkeys(_of_one(want) for want in question.wants))
    alone = {d: _alone(d) for node in nodes for d in map(_anonymous, node.devices)}
    try:
        columns = columns_of(list(alone.values()), parts)
    except TooManyError:
        columns = Columns((), ((),) * len(alone), ((),) * len(alone))
    most = dict(zip(alone, columns.most, strict=True))
    labels = [f"the room on devices ({c + 1})" for c in range(len(columns.takes))]
    rows = {part: [row[k] for row in columns.takes] for k, part in enumerate(parts)}

    def offers(node: Node, busy: Iterable[int]) -> Amounts:
        if not node.devices:
            return dict.fromkeys(labels, PLENTY) | wholes.offers(node)
        taken = frozenset(busy)
        mine = [most[_anonymous(d)] for d in node.devices if d.index not in taken]
        sums = {label: sum(m[c] for m in mine) for c, label in enumerate(labels)}
        return sums | wholes.offers(node, taken) if wholes.exact else sums

    def takes(key: SetKey, want: Want) -> Amounts:
        mine = zip(labels, rows[_of_one(want)], strict=True)
        found = {label: want.number * amount for label, amount in mine if amount}
        return found | wholes.takes(_unpicky(want)) if want.whole and wholes.exact else found

    return _Words(offers, takes)


def _of_one(want: Want) -> Want:
    return _unpicky(want)._replace(number=1)


def _unpicky(want: Want) -> Want:
    """Without what it asks of devices together."""
    return want._replace(nics=0, in_partition=False, best_score=False, ring_bandwidth=0)


def _anonymous(device: Device) -> Device:
    return replace(device, index=0, numa_node=-1, pcie_switch="", nics=0)


def _alone(device: Device) -> Situation:
    board = board_of(Node("", devices=(device,)), switches=False, required=False)
    return Situation(board, state_of(board, (device,)))


# --- the snapshot in these words ---------------------------------------------------


def _said(opened: Prepared, question: _Question, words: _Words) -> Prepared:
    snapshot, policy = question.snapshot, question.policy
    known: dict[tuple[object, ...], PodTemplate] = {}

    def template(key: SetKey, old: PodTemplate) -> PodTemplate:
        want = want_of(old, policy)
        if want is None:
            return old
        takes = {r: n for r, n in words.takes(key, want).items() if n}
        if not want.whole or want.nics or want.in_partition:
            takes[LISTED] = 1
        same = (old, tuple(sorted(takes.items())))
        if same not in known:
            known[same] = replace(old, requests={**old.requests, **takes})
        return known[same]

    gangs = tuple(
        replace(
            gang,
            groups=tuple(
                replace(
                    group,
                    pod_sets=tuple(
                        replace(s, template=template((g, r, i), s.template))
                        for i, s in enumerate(group.pod_sets)
                    ),
                )
                for r, group in enumerate(gang.groups)
            ),
        )
        for g, gang in enumerate(snapshot.gangs)
    )
    held = _Held(question.nodes, words)
    reservations = tuple(held.more(r) for r in snapshot.reservations)
    return replace(
        opened,
        snapshot=replace(
            snapshot,
            nodes=_with_offers(question, words),
            gangs=gangs,
            reservations=reservations,
        ),
        exact=opened.exact and not held.guessed,
    )


def _with_offers(question: _Question, words: _Words) -> Nodes:
    """The nodes, which allocate what they offer of the columns as well."""
    columns = question.snapshot.columns
    unlisted = {LISTED: 0, **words.offers(Node(""), ())}
    kinds: dict[object, int] = {}
    allocatable: list[Resources] = []
    number = np.zeros(len(columns), dtype=np.int64)
    for i, (name, old) in enumerate(zip(columns.names, columns.allocatable.number, strict=True)):
        node = question.nodes.get(name)
        offers = unlisted if node is None else {LISTED: PLENTY, **words.offers(node, ())}
        same = int(old), tuple(offers.values())
        if same not in kinds:
            kinds[same] = len(kinds)
            allocatable.append({**columns.allocatable.kinds[int(old)], **offers})
        number[i] = kinds[same]
    return replace(columns, allocatable=KindColumn(tuple(allocatable), number))


class _Held:
    """What reservations hold of the columns: what their devices are worth to the node."""

    def __init__(self, nodes: Mapping[str, Node], words: _Words) -> None:
        self._nodes = nodes
        self._words = words
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
            r: amount - self._words.offers(node, after)[r]
            for r, amount in self._words.offers(node, before).items()
        }
        return replace(
            reservation, held={**reservation.held, **{r: n for r, n in worth.items() if n > 0}}
        )


def _busy_sets(
    reservations: Iterable[Reservation], nodes: Mapping[str, Node]
) -> Mapping[str, list[frozenset[int]]]:
    """By node the sets of devices that its reservations hold, the first, the first two, ..."""
    found: defaultdict[str, list[frozenset[int]]] = defaultdict(lambda: [frozenset()])
    for reservation in reservations:
        if reservation.node in nodes and reservation.devices:
            found[reservation.node].append(found[reservation.node][-1] | set(reservation.devices))
    return found


def _sets(snapshot: Snapshot) -> Iterable[tuple[SetKey, PodSet]]:
    return (
        ((g, r, i), s)
        for g, gang in enumerate(snapshot.gangs)
        for r, group in enumerate(gang.groups)
        for i, s in enumerate(group.pod_sets)
    )
