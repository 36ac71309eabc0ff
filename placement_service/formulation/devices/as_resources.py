"""Devices inside nodes as ordinary resources of the nodes (rule 16).

Nodes offer, and pods take, amounts of columns that say which pods fit the devices of a node
together. Where whole GPUs and shares of them are blocks that nest the columns have a closed
form (`device_blocks`), also beside running pods that may go and leave the devices that they
have (`homes`). Else what fits is tried out (`patterns`): network devices on the
switches of GPUs, partitions that overlap, shares that do not divide a GPU.

Where that takes too long the blocks are used, which are stricter than the rules. Then, and where
no columns say exactly what fits, `relaxed` is a snapshot that allows more than the rules do:
what is proven for it is proven for the question. Which devices a pod gets is decided at the end
(see `names`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from placement_service.entities.devices import Device
from placement_service.entities.node import Node
from placement_service.entities.request import Policy, Snapshot
from placement_service.formulation.devices.boards import (
    board_of,
    left_of,
    state_of,
    without,
)
from placement_service.formulation.devices.columns import Amounts, DeviceColumns, with_columns
from placement_service.formulation.devices.device_blocks import PLENTY, DeviceBlocks
from placement_service.formulation.devices.homes import (
    MOST_OWN,
    HomeColumns,
    HomePod,
    SetKey,
    ways_to_stay,
)
from placement_service.formulation.devices.patterns import (
    MOST_HOMES,
    Columns,
    Listings,
    Situation,
    TooManyError,
    columns_of,
)
from placement_service.formulation.devices.question import DeviceQuestion, device_question, sets
from placement_service.formulation.devices.trials import anywhere, on_own_nodes, tried
from placement_service.formulation.devices.wants import WHOLE, Want, want_of
from placement_service.formulation.eviction_rights import EvictionRights, Sharing
from placement_service.formulation.prepared import Prepared
from placement_service.formulation.sharing_columns import for_sharing


class CannotStayError(Exception):
    """For these gangs it cannot be said what is left on devices while some of their pods stay."""

    def __init__(self, gangs: Iterable[int]) -> None:
        super().__init__()
        self.gangs = frozenset(gangs)


def with_devices(
    opened: Prepared, request: Snapshot, policy: Policy, listings: Listings
) -> Prepared:
    """The snapshot with devices as resources; itself where no device matters.

    `listings` know what was tried for others of the same nodes. Raises CannotStayError when some
    gangs that may give way have to be left as they are.
    """
    snapshot = opened.snapshot
    templates = {id(s.template): s.template for _, s in sets(snapshot)}.values()
    asked = {want for t in templates if (want := want_of(t, policy))}
    in_parts = any(not want.whole or want.nics or want.in_partition for want in asked)
    if not in_parts and not any(parts.devices for parts, _ in snapshot.columns.parts.counts()):
        return opened
    question = device_question(opened, request, policy)
    if not question.wants:
        # No pod comes, so it does not matter what those that go leave.
        return opened
    at_home = {pod.want for pods in question.homes.values() for pod in pods}
    blocks = DeviceBlocks(list(question.nodes.values()), question.wants, at_home)
    apart = question.apart
    insists = any(map(question.partitions_count, apart))
    if blocks.exact and not (apart and (insists or in_parts)):
        return _by_count(opened, request, question, blocks)
    held = {r.node for r in snapshot.reservations if r.devices}
    if blocks.exact and held.isdisjoint(apart):
        _limit(
            question,
            apart,
            lambda node, pods: ways_to_stay(blocks, node, pods),
            MOST_OWN if question.moves else None,
        )
        return _beside_homes(opened, request, question, blocks)
    _limit(question, apart, lambda _, pods: len(pods) if len(pods) <= MOST_HOMES else None)
    try:
        return _by_trying(opened, request, question, listings)
    except TooManyError:
        if question.homes:
            raise CannotStayError(question.gangs_at_home) from None
        return with_columns(opened, question, _counted(blocks), _relaxed(question, listings))


def _by_count(
    opened: Prepared, request: Snapshot, question: DeviceQuestion, blocks: DeviceBlocks
) -> Prepared:
    """Columns where it does not matter which devices running pods have."""
    everything = _counted(blocks)
    sharings = []
    if not question.moves and any(_lacks_devices(request, n, question) for n in question.homes):
        sharings = _sharings(opened, request, question)
    if not sharings:
        return with_columns(opened, question, everything)
    offered = [(sharing, _counted(blocks, of.nodes)) for sharing, of in sharings]
    strict = _shared(request, question, everything, offered)
    # Looser rights are not those of the sharings.
    return with_columns(opened, question, strict, everything if opened.relaxed else None)


def _lacks_devices(request: Snapshot, name: str, question: DeviceQuestion) -> bool:
    """Whether fewer devices of a node are wholly free than the number of its GPUs says, so that
    this number does not tell whose room there is.
    """
    node = request.columns[request.columns.row_of[name]]
    free = sum(min(left_of(device)) >= WHOLE for device in node.devices)
    return free < sum(max(0, node.free(r)) for r in question.policy.gpu_resources)


def _counted(blocks: DeviceBlocks, nodes: Mapping[str, Node] | None = None) -> DeviceColumns:
    """Counts; on some nodes they are of these."""
    known = nodes or {}
    return DeviceColumns(
        lambda node, busy: blocks.offers(known.get(node.name, node), busy),
        lambda key, want: blocks.takes(want),
    )


def _looser(blocks: DeviceBlocks, question: DeviceQuestion) -> DeviceColumns:
    """Counts in which a pod takes as much where it runs as anywhere: never more than is lost there.

    A pod may run where no block of its size is left, or on devices of several. So a column says
    nothing about a node where a pod that it counts has a device outside the blocks on offer.
    """
    unlimited: defaultdict[str, set[str]] = defaultdict(set)
    for name, pods in question.homes.items():
        node = question.nodes[name]
        left = {d.index: min(left_of(d)) for d in node.devices}
        for column, cells in blocks.cells(node):
            offered = {d for cell in cells if cell.blocks(left) for d in cell.devices}
            if any(
                blocks.takes(pod.want).get(column) and not offered.issuperset(pod.devices)
                for pod in pods
            ):
                unlimited[name].add(column)

    def offers(node: Node, busy: Iterable[int]) -> Amounts:
        return blocks.offers(node, busy) | dict.fromkeys(unlimited[node.name], PLENTY)

    return DeviceColumns(offers, lambda key, want: blocks.takes(want))


def _beside_homes(
    opened: Prepared, request: Snapshot, question: DeviceQuestion, blocks: DeviceBlocks
) -> Prepared:
    everything = HomeColumns(blocks, question.nodes, question.apart, moves=question.moves)
    loose = DeviceColumns(everything.offers, everything.takes)
    sharings = [] if question.moves else _sharings(opened, request, question)
    if not sharings:
        looser = None if everything.exact else _looser(blocks, question)
        return with_columns(opened, question, loose, looser)
    shared = [HomeColumns(blocks, of.nodes, of.homes, moves=False) for _, of in sharings]
    strict = _shared(
        request,
        question,
        loose,
        [
            (sharing, DeviceColumns(columns.offers, columns.takes))
            for (sharing, _), columns in zip(sharings, shared, strict=True)
        ],
    )
    # A device that a victim leaves is room that not all may use, but counts decide about that.
    return with_columns(opened, question, strict, loose)


def _by_trying(
    opened: Prepared, request: Snapshot, question: DeviceQuestion, listings: Listings
) -> Prepared:
    """Columns of what is tried out. Raises TooManyError."""
    if question.moves:
        # All others are like pods that come.
        question = replace(question, homes=question.apart)
    if question.moves and question.homes:
        return _moved_by_trying(opened, question, listings)
    sharings = [] if question.moves else _sharings(opened, request, question)
    everything, *shared = tried([question, *(of for _, of in sharings)], listings)
    if not sharings:
        looser = None if everything.exact else everything.most
        return with_columns(opened, question, everything.offered, looser)
    offered = [(s, columns.offered) for (s, _), columns in zip(sharings, shared, strict=True)]
    strict = _shared(request, question, everything.offered, offered)
    return with_columns(opened, question, strict, everything.most)


def _moved_by_trying(opened: Prepared, question: DeviceQuestion, listings: Listings) -> Prepared:
    [columns] = tried([question], listings)
    most = MOST_OWN // max(1, len(columns.names))
    if len(question.homes) > most:
        beyond = sorted(question.homes)[most:]
        raise CannotStayError(pod.key.gang for name in beyond for pod in question.homes[name])
    if not columns.exact:
        opened = replace(opened, all_again=False)
    # Those that move may come again to other devices of their own nodes.
    looser = anywhere(question, listings)
    return with_columns(opened, question, on_own_nodes(question, columns), looser)


def _sharings(
    opened: Prepared, request: Snapshot, question: DeviceQuestion
) -> list[tuple[Sharing, DeviceQuestion]]:
    """The gangs that may not use the room of all gangs that may go (see `staying_or_going`), with
    the question where all stay whose room is not for them.
    """
    victims = [request.gangs[g] for g in sorted(opened.opened)]
    found = EvictionRights(request, question.policy).sharings(victims)
    return [(sharing, _of_sharing(opened, request, question, sharing)) for sharing in found]


def _of_sharing(
    opened: Prepared, request: Snapshot, question: DeviceQuestion, sharing: Sharing
) -> DeviceQuestion:
    listed = opened.snapshot.columns
    homes = {
        name: tuple(pod for pod in pods if sharing.gives(request.gangs[pod.key[0]]))
        for name, pods in question.homes.items()
    }
    nodes = {
        name: without(listed[listed.row_of[name]], ((pod.devices, pod.want) for pod in pods))
        for name, pods in homes.items()
    }
    return replace(question, nodes=question.nodes | nodes, homes=homes)


def _shared(
    request: Snapshot,
    question: DeviceQuestion,
    everything: DeviceColumns,
    shared: Sequence[tuple[Sharing, DeviceColumns]],
) -> DeviceColumns:
    """The columns of all room, and beside them those of each sharing."""
    at_home = {pod.key for pods in question.homes.values() for pod in pods}

    def offers(node: Node, busy: Iterable[int]) -> Amounts:
        found = dict(everything.offers(node, busy))
        for k, (_, columns) in enumerate(shared):
            found |= {for_sharing(c, k): n for c, n in columns.offers(node, busy).items()}
        return found

    def takes(key: SetKey, want: Want) -> Amounts:
        found = dict(everything.takes(key, want))
        gang = request.gangs[key.gang]
        for k, (sharing, columns) in enumerate(shared):
            if sharing.gives(gang) if key in at_home else sharing.takes(gang):
                found |= {for_sharing(c, k): n for c, n in columns.takes(key, want).items()}
        return found

    return DeviceColumns(offers, takes)


def _limit(
    question: DeviceQuestion,
    homes: Mapping[str, Sequence[HomePod]],
    columns_for: Callable[[Node, Sequence[HomePod]], int | None],
    most: int | None = None,
) -> None:
    """Raises CannotStayError for gangs beside whose pods it cannot be said what is left. Nodes that
    need few columns come first; on each node gangs of low priority may give way first, small ones
    before large ones.
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


# --- a relaxation ------------------------------------------------------------------


def _relaxed(question: DeviceQuestion, listings: Listings) -> DeviceColumns:
    """What fits each device by itself, and the partitions that pods of whole devices need."""
    nodes = list(question.nodes.values())
    wholes = DeviceBlocks(nodes, [_unpicky(want) for want in question.wants if want.whole])
    parts = list(dict.fromkeys(_of_one(want) for want in question.wants))
    like = {_like(d): d for node in nodes for d in node.devices}
    alone = {kind: _alone(device) for kind, device in like.items()}
    try:
        columns = columns_of(list(alone.values()), parts, listings)
    except TooManyError:
        columns = Columns((), ((),) * len(alone), ((),) * len(alone))
    most = dict(zip(alone, columns.most, strict=True))
    labels = [f"the room on devices ({c + 1})" for c in range(len(columns.takes))]
    rows = {part: [row[k] for row in columns.takes] for k, part in enumerate(parts)}
    nothing = [0] * len(labels)

    def offers(node: Node, busy: Iterable[int]) -> Amounts:
        if not node.devices:
            return dict.fromkeys(labels, PLENTY) | wholes.offers(node)
        taken = frozenset(busy)
        mine = [most[_like(d)] for d in node.devices if d.index not in taken]
        sums = {label: sum(m[c] for m in mine) for c, label in enumerate(labels)}
        return sums | wholes.offers(node, taken) if wholes.exact else sums

    def takes(key: SetKey, want: Want) -> Amounts:
        # Of other kinds pods run, and none comes.
        mine = zip(labels, rows.get(_of_one(want), nothing), strict=True)
        found = {label: want.number * amount for label, amount in mine if amount}
        return found | wholes.takes(_unpicky(want)) if want.whole and wholes.exact else found

    return DeviceColumns(offers, takes)


def _of_one(want: Want) -> Want:
    return _unpicky(want)._replace(number=1)


def _unpicky(want: Want) -> Want:
    """The want without what it asks of several devices together."""
    return want._replace(nics=0, in_partition=False, best_score=False, ring_bandwidth=0)


def _like(device: Device) -> object:
    """Equal for devices that serve the same pods, looked at one by one."""
    return device.memory_bytes, left_of(device)


def _alone(device: Device) -> Situation:
    board = board_of(Node("", devices=(device,)), switches=False, required=False)
    return Situation(board, state_of(board, (device,)))
