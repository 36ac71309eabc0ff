"""Configurations: the sets of parts that fill a domain together, priced exactly.

Take units of which no node holds any two. Units that the same nodes accept are of
one shape; a part of t units of a shape that must share a domain is of one kind (shape, t). A
set of parts fits into a domain only if its units can be given nodes of their own, one each, of
nodes that accept them. Domains with the same number of nodes of each type, which is the set of
shapes that a node accepts, are of one signature and hold the same sets.

Given a price for each kind, `price` finds the most valuable set of each signature without a solver.
For each shape, what at most m units are worth is a knapsack over the kinds of the shape. Of a
domain's types one is open, the one with most nodes; for the nodes of all others every way to
give them to shapes is tried, and the open nodes go to the shapes by a max-plus convolution:
what m units are worth never falls with m, so no node need be left empty.

What is left out here (small pods, pins, and what parts of several shapes need in one domain) only
makes the sets larger, so their values are still bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product
from math import comb
from typing import NamedTuple

import numpy as np

from placement_service.bounds.counting import Counting
from placement_service.bounds.gang_classes import Content
from placement_service.bounds.node_matching import give_nodes
from placement_service.bounds.signatures import Signature, SignatureWays
from placement_service.bounds.ways_to_count import one_per_node, usable_nodes
from placement_service.formulation.arrays import Bools, Ints


class Priced(NamedTuple):
    """The most that a domain of each signature can be worth [G], and by what parts [G, K]."""

    worth: Ints
    parts: Ints


class PartKind(NamedTuple):
    """`size` units of a shape in one domain."""

    shape: int
    size: int


@dataclass(frozen=True, slots=True)
class ConfigurationParameters:
    """Beyond these limits fewer cases are distinguished, and bounds are weaker."""

    #: Nodes of one domain up to which configurations are priced.
    nodes: int = 128
    #: Ways to give the nodes of one domain to shapes.
    ways: int = 4_000
    #: The same of all signatures together, times the nodes of the largest.
    cells: int = 1_200_000


CONFIGURATION_DEFAULTS = ConfigurationParameters()


class Configurations:
    """Kinds of parts of a counted problem, and the domains that they must share.

    There are S shapes, K kinds, C classes of gangs, G signatures. `usable` are the nodes [N]
    that take a unit of a pod class, `accepts[S, N]` those that accept a shape, `shape_of` the
    shape of the pod classes that a requirement chooses from, `parts[C, K]` the parts of a gang
    of each class, `extra[C]` the kind of each of its extras or -1, `most[K]` all that could be
    placed. `open[T, S]` are the shapes that types accept.
    """

    def __init__(
        self,
        counting: Counting,
        level: int,
        family: frozenset[int],
        parameters: ConfigurationParameters = CONFIGURATION_DEFAULTS,
    ) -> None:
        self.counting = counting
        self.level = level
        self._family = family
        self.usable = usable_nodes(counting.problem)
        self.shape_of: dict[tuple[int, ...], int] = {}
        self._shapes: dict[bytes, int] = {}
        masks: list[Bools] = []
        at = counting.levels.index(level)
        contents = [content for c in counting.classes for content, _ in c.parts[at]]
        contents += [c.extras for c in counting.classes]
        for content in contents:
            for pod_classes, _ in content:
                self._learn_shape(pod_classes, masks)
        self.accepts: Bools = np.array(masks).reshape(len(masks), counting.problem.node_count)
        self.kinds: list[PartKind] = []
        self._index: dict[PartKind, int] = {}
        self._count_parts(at)
        self._types()
        self.signatures = self._signatures(parameters)
        self.most_nodes = max((sum(s.nodes) for s in self.signatures), default=0)
        self.rows = SignatureWays(self.signatures, self.open, len(masks))

    def inside(self, domains: Collection[int], most: Ints) -> Configurations:
        """The same in some of the domains, for so many parts of each kind [K]."""
        part = copy(self)
        mine = ((s, tuple(d for d in s.domains if d in domains)) for s in self.signatures)
        part.signatures = tuple(replace(s, domains=there) for s, there in mine if there)
        part.most = most
        part.most_nodes = max((sum(s.nodes) for s in part.signatures), default=0)
        part.rows = SignatureWays(part.signatures, part.open, len(part.accepts))
        return part

    @property
    def unlike(self) -> bool:
        """Whether nodes of one domain do not accept the same."""
        return any(sum(n > 0 for n in s.nodes) > 1 for s in self.signatures)

    @property
    def several(self) -> bool:
        """Whether there are units that not all nodes accept."""
        return len(self.accepts) > 1

    # --- shapes and kinds -----------------------------------------------------------

    def _learn_shape(self, pod_classes: tuple[int, ...], masks: list[Bools]) -> None:
        if pod_classes in self.shape_of or not self._family.issuperset(pod_classes):
            return
        mask = np.any([self.usable[s] for s in pod_classes], axis=0)
        key = mask.tobytes()
        if key not in self._shapes:
            self._shapes[key] = len(masks)
            masks.append(mask)
        self.shape_of[pod_classes] = self._shapes[key]

    def units_of(self, content: Content) -> dict[int, int]:
        """Counted units by shape."""
        found: dict[int, int] = {}
        for pod_classes, count in content:
            if pod_classes in self.shape_of:
                shape = self.shape_of[pod_classes]
                found[shape] = found.get(shape, 0) + count
        return found

    def kind_of(self, shape: int, size: int) -> int:
        """The number of a kind, which is made when parts are counted; -1 if there is none."""
        return self._index.get(PartKind(shape, size), -1)

    def _kind(self, shape: int, size: int) -> int:
        key = PartKind(shape, size)
        if key not in self._index:
            self._index[key] = len(self.kinds)
            self.kinds.append(key)
        return self._index[key]

    def _count_parts(self, at: int) -> None:
        classes = self.counting.classes
        counted: list[dict[int, int]] = []
        for c in classes:
            mine: dict[int, int] = {}
            for content, times in c.parts[at]:
                for shape, size in self.units_of(content).items():
                    k = self._kind(shape, size)
                    mine[k] = mine.get(k, 0) + times
            counted.append(mine)
        extra = []
        for c in classes:
            shapes = {self.shape_of.get(pod_classes, -1) for pod_classes, _ in c.extras}
            only = shapes.pop() if len(shapes) == 1 else -1
            extra.append(self._kind(only, 1) if only >= 0 else -1)
        self.extra = tuple(extra)
        self.parts = np.zeros((len(classes), len(self.kinds)), dtype=np.int64)
        self.most = np.zeros(len(self.kinds), dtype=np.int64)
        for i, (c, mine) in enumerate(zip(classes, counted, strict=True)):
            for k, times in mine.items():
                self.parts[i, k] = times
                self.most[k] += times * len(c.gangs)
            if extra[i] >= 0:
                self.most[extra[i]] += len(c.gangs) * sum(count for _, count in c.extras)

    # --- types and signatures -------------------------------------------------------

    def _types(self) -> None:
        """`type_of[N]`, -1 for nodes that accept nothing; `open[T, S]` what types accept."""
        columns = self.accepts.T
        kinds, inverse = np.unique(columns, axis=0, return_inverse=True)
        self.type_of = np.asarray(inverse).reshape(-1).astype(np.int64)
        self.open: Bools = kinds.astype(bool)
        nothing: Bools = np.logical_not(self.open.any(axis=1))
        self.type_of[nothing[self.type_of]] = -1

    def _signatures(self, parameters: ConfigurationParameters) -> tuple[Signature, ...]:
        usable = np.flatnonzero(self.type_of >= 0)
        place = self.counting.problem.levels[self.level].place_of
        counts = np.zeros((int(place.max(initial=-1)) + 1, len(self.open)), dtype=np.int64)
        np.add.at(counts, (place[usable], self.type_of[usable]), 1)
        domains: dict[tuple[int, ...], list[int]] = {}
        for domain in np.flatnonzero(counts.any(axis=1)).tolist():
            domains.setdefault(tuple(counts[domain].tolist()), []).append(domain)
        width = 1 + max((sum(nodes) for nodes in domains), default=0)
        most = parameters.ways
        while most > 1 and width * sum(self._told(n, most)[1] for n in domains) > parameters.cells:
            most //= 2
        return tuple(self._signature(n, tuple(mine), most) for n, mine in domains.items())

    def _told(self, nodes: Sequence[int], most: int) -> tuple[list[int], int]:
        """The types but the widest that can be distinguished in so many ways, and these ways."""
        there = [t for t, n in enumerate(nodes) if n]
        more = {t: comb(nodes[t] + int(self.open[t].sum()) - 1, nodes[t]) for t in there}
        del more[self._widest(nodes)]
        told, ways = [], 1
        for t in sorted(more, key=lambda t: more[t]):
            if ways * more[t] <= most:
                ways *= more[t]
                told.append(t)
        return told, ways

    def _widest(self, nodes: Sequence[int]) -> int:
        """The type that accepts most; of these the one with most nodes."""
        there = (t for t, n in enumerate(nodes) if n)
        return max(there, key=lambda t: (int(self.open[t].sum()), nodes[t]))

    def _signature(self, nodes: tuple[int, ...], domains: tuple[int, ...], most: int) -> Signature:
        told, _ = self._told(nodes, most)
        others = [t for t, n in enumerate(nodes) if n and t not in told]
        ways = tuple(self._ways(nodes, told))
        open_shapes: Bools = np.any(self.open[others], axis=0)
        open_nodes = sum(nodes[t] for t in others)
        return Signature(
            nodes, domains, self._type(open_shapes), open_nodes, ways, len(others) == 1
        )

    def _type(self, shapes: Bools) -> int:
        """The number of the type that accepts these shapes."""
        same = np.flatnonzero((self.open == shapes).all(axis=1))
        if not len(same):
            self.open = np.vstack([self.open, shapes])
            return len(self.open) - 1
        return int(same[0])

    def _ways(self, nodes: Sequence[int], types: Iterable[int]) -> Iterable[tuple[int, ...]]:
        shapes = len(self.accepts)
        each = [
            list(combinations_with_replacement(np.flatnonzero(self.open[t]).tolist(), nodes[t]))
            for t in types
        ]
        found: dict[tuple[int, ...], None] = {}
        for choice in product(*each):
            units = [0] * shapes
            for some in choice:
                for s in some:
                    units[s] += 1
            found.setdefault(tuple(units))
        return found

    # --- pricing --------------------------------------------------------------------

    def price(self, prices: Ints) -> Priced:
        """What the best sets of parts are worth; `prices[K]` are not negative."""
        worth, chosen = self._knapsacks(prices, self.most_nodes)
        best, units = self.rows.best(worth, self.signatures)
        columns = np.zeros((len(self.signatures), len(self.kinds)), dtype=np.int64)
        for shape in range(len(worth)):
            columns += chosen[shape][units[:, shape]]
        return Priced(best, columns)

    def _knapsacks(self, prices: Ints, most: int) -> tuple[Ints, list[Ints]]:
        """What at most m units of each shape are worth [S, m], and by what parts [m, K]."""
        worth = np.zeros((len(self.accepts), most + 1), dtype=np.int64)
        chosen = [np.zeros((most + 1, len(self.kinds)), dtype=np.int64) for _ in range(len(worth))]
        for k, (shape, size) in enumerate(self.kinds):
            if prices[k] <= 0:
                continue
            row, parts = worth[shape], chosen[shape]
            for _ in range(min(int(self.most[k]), most // size)):
                with_one = row[: most + 1 - size] + prices[k]
                better = np.flatnonzero(with_one > row[size:])
                if not len(better):
                    break
                row[better + size] = with_one[better]
                parts[better + size] = parts[better]
                parts[better + size, k] += 1
        return worth, chosen

    def trim(self, signature: Signature, column: Ints, prices: Ints) -> Ints:
        """The most valuable parts of a column, one after another, that fit a domain together."""
        kept = np.zeros_like(column)
        units = np.zeros(len(self.accepts), dtype=np.int64)
        order = sorted(
            np.flatnonzero(column).tolist(), key=lambda k: -prices[k] / self.kinds[k].size
        )
        for k in order:
            shape, size = self.kinds[k]
            for _ in range(int(column[k])):
                units[shape] += size
                if give_nodes(units, signature.nodes, self.open) is None:
                    units[shape] -= size
                    break
                kept[k] += 1
        return kept

    def nodes_of(self, domain: int, units: Ints) -> dict[int, list[int]] | None:
        """Nodes of a domain for units by shape [S]; None where they do not fit."""
        inside = self.counting.topology.inside(self.level, domain)
        by_type: dict[int, list[int]] = {}
        for node in inside[self.type_of[inside] >= 0].tolist():
            by_type.setdefault(int(self.type_of[node]), []).append(node)
        counts = [len(by_type.get(t, ())) for t in range(len(self.open))]
        given = give_nodes(units, counts, self.open)
        if given is None:
            return None
        found: dict[int, list[int]] = {}
        for (shape, t), n in given.items():
            found.setdefault(shape, []).extend(by_type[t].pop() for _ in range(n))
        return found


def configurations(
    counting: Counting, parameters: ConfigurationParameters = CONFIGURATION_DEFAULTS
) -> Configurations | None:
    """The configurations of the units that ask for most GPUs, at the level with most parts.

    None where there is none, or where domains are larger than can be priced.
    """
    problem = counting.problem
    families = one_per_node(problem, usable_nodes(problem))
    if not families or not counting.classes:
        return None
    family = max(families, key=lambda f: (sum(int(problem.gpus[s]) for s in f), len(f)))
    members = frozenset(family)

    def parts(i: int) -> int:
        return sum(
            times * len(c.gangs)
            for c in counting.classes
            for content, times in c.parts[i]
            if sum(n for classes, n in content if members.issuperset(classes)) > 1
        )

    at = max((i for i, level in enumerate(counting.levels) if level >= 0), key=parts, default=-1)
    if at < 0 or not parts(at):
        return None
    found = Configurations(counting, counting.levels[at], members, parameters)
    return found if 0 < found.most_nodes <= parameters.nodes else None
