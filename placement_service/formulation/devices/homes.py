"""Blocks of devices, on nodes whose running pods may leave their devices or stay on them.

When all of them are gone a node offers N blocks of a size (`device_blocks`). A pod that stays
is on devices of its own: a partition that it touches is lost, and of a GPU that it has a part
of some of the smaller blocks. What is lost of one place grows with the pods that stay, so it is
the greatest of some linear terms in them:

    lost(y) = max over terms  constant + sum of coefficient * (1 if the pod stays)

A column of the blocks becomes one for each way to choose a term for each of its places. All of
them together say exactly what fits beside those that stay.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from math import prod
from typing import NamedTuple

from placement_service.entities.node import Node
from placement_service.formulation.devices.boards import left_of
from placement_service.formulation.devices.device_blocks import PLENTY, Cell, DeviceBlocks
from placement_service.formulation.devices.wants import WHOLE, Load, Want

#: Ways to choose terms that one column of a node may have.
MOST_WAYS = 64
#: Columns that nodes may have of their own, all together.
MOST_OWN = 200
#: Running pods, of which each may go without the others, that may share a GPU.
MOST_SHARING = 8


class SetKey(NamedTuple):
    """A pod set by its place: indices of the gang, of the group in it, of the set in that."""

    gang: int
    group: int
    pod_set: int


class HomePod(NamedTuple):
    """A running pod that may go: its set, its devices, and what it has of each.

    Of pods with the same `tie` all go or none.
    """

    key: SetKey
    devices: tuple[int, ...]
    want: Want
    tie: Hashable

    def loads(self, node: Node) -> Mapping[int, Load]:
        """What it takes of the devices of its node."""
        memory = {d.index: d.memory_bytes for d in node.devices}
        found = ((d, self.want.load(memory[d])) for d in self.devices if d in memory)
        return {d: load for d, load in found if load is not None}


class _Term(NamedTuple):
    constant: int
    counts: Mapping[SetKey, int]


class _Ways(NamedTuple):
    """What a column offers when all are gone, and the terms of each place that may be lost."""

    offered: int
    places: tuple[tuple[_Term, ...], ...]

    @property
    def choices(self) -> int:
        return prod(map(len, self.places))


class TooManyWaysError(Exception):
    """Too many combinations of pods may stay on a node to say what is left."""


class HomeColumns:
    """The columns of `device_blocks` where pods may stay; `nodes` are without those that may go.

    A pod that `moves` may come to other nodes, where it takes what all take of blocks of that
    size. So a node has columns of its own for those that stay there.
    """

    def __init__(
        self,
        blocks: DeviceBlocks,
        nodes: Mapping[str, Node],
        homes: Mapping[str, Sequence[HomePod]],
        *,
        moves: bool,
    ) -> None:
        """Raises TooManyWaysError when a column has too many ways."""
        self._blocks = blocks
        #: Names of columns, with the columns of blocks that they stand for.
        self._names = {column: column for column in blocks.names}
        self._offers: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._stays: defaultdict[SetKey, dict[str, int]] = defaultdict(dict)
        for name, pods in homes.items():
            for column, ways in _ways(blocks, nodes[name], pods):
                of_its_own = moves and not _is_ordinary(blocks, column, ways, pods)
                if of_its_own:
                    self._offers[name][column] = PLENTY
                for k, terms in enumerate(product(*ways.places)):
                    here = _numbered(f"{column} of {name}" if of_its_own else column, k)
                    self._names.setdefault(here, column)
                    self._offers[name][here] = ways.offered - sum(t.constant for t in terms)
                    for term in terms:
                        for key, lost in term.counts.items():
                            self._stays[key][here] = self._stays[key].get(here, 0) + lost
        self._moves = moves
        self._at_home = {pod.key: name for name, pods in homes.items() for pod in pods}
        #: The nodes of columns of their own.
        self._only_of = {
            here: name
            for name, offers in self._offers.items()
            for here in offers
            if moves and self._names[here] != here
        }

    @property
    def exact(self) -> bool:
        """Whether a gang that moves may use as much of its nodes as one that comes to them."""
        return not self._only_of

    def offers(self, node: Node, busy: Iterable[int] = ()) -> Mapping[str, int]:
        """What a node offers; `busy` devices are none of a node with pods that may go."""
        plenty = dict.fromkeys(self._names, PLENTY)
        # Where no pod may go the columns of blocks say all.
        return plenty | (self._offers.get(node.name) or self._blocks.offers(node, busy))

    def takes(self, key: SetKey, want: Want) -> Mapping[str, int]:
        """What a pod takes: of its node when it stays there, else of any node."""
        blocks = self._blocks.takes(want)
        stays = self._stays.get(key, {})
        home = self._at_home.get(key, "")
        return {
            here: stays.get(here, 0)
            if home and (not self._moves or self._only_of.get(here) == home)
            else blocks.get(column, 0)
            for here, column in self._names.items()
        }


def _is_ordinary(blocks: DeviceBlocks, column: str, ways: _Ways, pods: Iterable[HomePod]) -> bool:
    """Whether pods that stay take what they would take on any node."""
    if ways.choices > 1:
        return False
    taken = Counter[SetKey]()
    for (term,) in ways.places:
        taken.update(term.counts)
    return all(taken[pod.key] == blocks.takes(pod.want).get(column, 0) for pod in pods)


def ways_to_stay(blocks: DeviceBlocks, node: Node, pods: Sequence[HomePod]) -> int | None:
    """The columns that tell what is left of a node as pods stay; None for too many to tell.

    Only the ways in which pods that stay take something else than elsewhere are counted.
    """
    try:
        found = dict(_ways(blocks, node, pods))
    except TooManyWaysError:
        return None
    return sum(w.choices for c, w in found.items() if not _is_ordinary(blocks, c, w, pods))


def _numbered(column: str, k: int) -> str:
    return f"{column}, as pods stay ({k + 1})" if k else column


def _ways(blocks: DeviceBlocks, node: Node, pods: Sequence[HomePod]) -> Iterator[tuple[str, _Ways]]:
    left = {d.index: left_of(d) for d in node.devices}
    free = {d: min(load) for d, load in left.items()}
    loads = [(pod, pod.loads(node)) for pod in pods]
    for column, cells in blocks.cells(node):
        places = (_terms(cell, left, loads) for cell in cells)
        ways = _Ways(sum(c.blocks(free) for c in cells), tuple(p for p in places if p))
        if ways.choices > MOST_WAYS:
            raise TooManyWaysError
        yield column, ways


def _terms(
    cell: Cell,
    left: Mapping[int, Load],
    pods: Iterable[tuple[HomePod, Mapping[int, Load]]],
) -> tuple[_Term, ...]:
    """Linear terms whose greatest is what the pods that stay take of a place."""
    most = cell.blocks({d: min(left[d]) for d in cell.devices})
    tied: dict[Hashable, list[tuple[SetKey, Mapping[int, Load]]]] = {}
    for pod, loads in pods if most else ():
        if any(max(loads[d]) for d in cell.devices if d in loads):
            tied.setdefault(pod.tie, []).append((pod.key, loads))
    if not tied:
        return ()
    leaders = [members[0][0] for members in tied.values()]
    if cell.size == WHOLE:
        return tuple(_Term(0, {key: most}) for key in leaders)
    if len(tied) > MOST_SHARING:
        raise TooManyWaysError
    (device,) = cell.devices
    taken = [
        Load(
            sum(loads[device].compute for _, loads in members if device in loads),
            sum(loads[device].memory for _, loads in members if device in loads),
        )
        for members in tied.values()
    ]

    def lost(staying: Iterable[int]) -> int:
        rest = left[device]
        for i in staying:
            rest = taken[i].off(rest)
        return most - max(0, min(rest)) // cell.size

    everyone = range(len(leaders))
    subsets = [y for size in everyone for y in combinations(everyone, size + 1)]
    alone = [lost((i,)) for i in everyone]
    if all(lost(y) == sum(alone[i] for i in y) for y in subsets):
        return (_Term(0, {key: n for key, n in zip(leaders, alone, strict=True) if n}),)
    terms = []
    for y in subsets:
        here = lost(y)
        # As much is lost only when all of these stay.
        if here and all(lost(j for j in y if j != i) < here for i in y):
            terms.append(_Term(here * (1 - len(y)), {leaders[i]: here for i in y}))
    return tuple(terms)
