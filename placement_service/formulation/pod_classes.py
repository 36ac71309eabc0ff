"""Pod classes: pods that no rule can tell apart, and what nodes offer them.

A bundle is the pod class of several pods that must share one host: the sum of what
they ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placement_service.entities.nodes import Nodes
from placement_service.entities.request import PodTemplate, Resources, Snapshot
from placement_service.formulation.arrays import UNLIMITED, Bools, Ints
from placement_service.formulation.indices import ANY_NODE, ClassIdx, NodeIdx
from placement_service.formulation.levels import Levels
from placement_service.formulation.matching.node_eligibility import NodeMasks
from placement_service.formulation.matching.pod_selectors import PodSelectors
from placement_service.formulation.rules import FORMULATE
from placement_service.formulation.rules.draft import RuleDraft
from placement_service.formulation.rules.protocol import Rule


class ClassPods(NamedTuple):
    """So many pods of a class."""

    pod_class: ClassIdx
    pods: int


#: The pods of a bundle, sorted by class.
Bundle = tuple[ClassPods, ...]

#: The pods behind one unit of a class, as (template, how many).
ClassContent = tuple[tuple[PodTemplate, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What pods ask for and nodes have, as arrays over N nodes, S pod classes and R columns.

    `free[N, R]`, `request[S, R]`, `eligible[S, N]` and `special[S]` as in `Problem`; `requests` are
    what a unit of each class asks for by resource, `bundle_of` finds the class of a bundle.
    """

    columns: tuple[str, ...]
    requests: list[Resources]
    free: Ints
    request: Ints
    eligible: Bools
    rules: tuple[Rule, ...]
    special: Bools
    bundle_of: dict[Bundle, ClassIdx]
    contents: tuple[ClassContent, ...]
    is_exact: bool


class _Rows(NamedTuple):
    """Arrays by pod class, as in `Table`."""

    request: Ints
    eligible: Bools
    special: Bools


class PodClasses:
    """Collects what pods ask for, then lays it out as arrays."""

    def __init__(self, snapshot: Snapshot, levels: Levels) -> None:
        self.snapshot = snapshot
        self._levels = levels
        self._count: dict[ClassIdx, int] = {}
        #: By template, what makes two of them equal to every rule, as a number.
        self._needs: dict[tuple[str, PodTemplate, tuple[int, ...]], int] = {}
        self._merged: dict[object, int] = {}
        #: The same by the identity of a template, which lives as long as the snapshot.
        self._known: dict[tuple[str, int, tuple[int, ...]], int] = {}
        self._numbers: dict[tuple[int, NodeIdx, frozenset[int]], ClassIdx] = {}
        self._owned: list[tuple[int, ...]] = []
        self._raw: list[tuple[str, PodTemplate]] = []
        self._at: list[NodeIdx] = []
        self._closed: list[frozenset[int]] = []
        self._selectors = PodSelectors(snapshot)
        self._bundles: dict[Bundle, None] = {}

    def add(
        self,
        namespace: str,
        template: PodTemplate,
        count: int,
        owned: tuple[int, ...] = (),
        at: NodeIdx = ANY_NODE,
        *,
        closed: frozenset[int] = frozenset(),
    ) -> ClassIdx:
        """The pod class of some pods that are to be placed; arguments as of `of`."""
        pod_class = self.of(namespace, template, owned, at, closed=closed)
        self._count[pod_class] = self._count.get(pod_class, 0) + count
        return pod_class

    def of(
        self,
        namespace: str,
        template: PodTemplate,
        owned: tuple[int, ...] = (),
        at: NodeIdx = ANY_NODE,
        *,
        closed: frozenset[int] = frozenset(),
    ) -> ClassIdx:
        """The number of the pod class of a pod, the same for equal needs.

        `owned` are the reservations that it may use, `at` is the one node where it may be, whatever
        that node asks of new pods. Nodes in the rows `closed` take none of them.
        """
        place = self._need(namespace, template, owned), at, closed
        if place not in self._numbers:
            self._numbers[place] = ClassIdx(len(self._raw))
            self._raw.append((namespace, template))
            self._owned.append(owned)
            self._at.append(at)
            self._closed.append(closed)
        return self._numbers[place]

    def _need(self, namespace: str, template: PodTemplate, owned: tuple[int, ...]) -> int:
        """The number of what a pod needs, wherever it may be."""
        known = self._known.get((namespace, id(template), owned))
        if known is None:
            key = (namespace, template, owned)
            if key not in self._needs:
                signature = (self._signature(namespace, template), owned)
                self._needs[key] = self._merged.setdefault(signature, len(self._merged))
            known = self._known[namespace, id(template), owned] = self._needs[key]
        return known

    def _signature(self, namespace: str, t: PodTemplate) -> object:
        """Equal for pods that no rule can tell apart: labels count only as seen by selectors."""
        terms = t.required_affinity + t.required_anti_affinity
        inner: object = (
            (namespace, t.required_affinity, t.required_anti_affinity, t.spread_constraints)
            if terms or t.spread_constraints
            else None
        )
        return (
            tuple(sorted((k, v) for k, v in t.requests.items() if v)),
            t.node_selector,
            t.required_node_affinity,
            t.tolerations,
            t.compute_domain,
            t.host_ports,
            t.device_share,
            t.required_reservation,
            t.ignores_reservations,
            inner,
            self._selectors.sight(namespace, t),
        )

    def plain(self, pod_class: ClassIdx) -> bool:
        """Whether no rule between pods names or sees the pod class."""
        namespace, t = self._raw[pod_class]
        return not (
            t.required_affinity
            or t.required_anti_affinity
            or t.spread_constraints
            or t.host_ports
            or t.required_reservation
            or self._owned[pod_class]
            or any(self._selectors.sight(namespace, t))
        )

    def bundle(self, content: Bundle) -> None:
        """Register a bundle."""
        self._bundles.setdefault(content)

    def table(self, levels: Levels, *, repeats: int = 1, loose: bool = False) -> Table:
        """The arrays of all classes and bundles added so far; rules are made on the way.

        Pods may be placed as often as `repeats` says, and reservations hold less than they might if
        it is `loose`.
        """
        nodes, raw = self.snapshot.columns, self._raw
        # None of a class that was only asked about.
        counts = [self._count.get(ClassIdx(s), 0) for s in range(len(raw))]
        # Many classes of pods that stay or go share a template.
        number = {key: i for i, key in enumerate(dict.fromkeys(id(t) for _, t in raw))}
        of_class = np.array([number[id(t)] for _, t in raw], dtype=np.int64)
        templates = list({id(t): t for _, t in raw}.values())
        masks = NodeMasks(nodes, templates)
        draft = RuleDraft(
            self.snapshot,
            raw,
            levels,
            self._eligible(masks),
            masks,
            self._selectors,
            self._owned,
            counts,
            np.array(self._at, dtype=np.int64),
            loose=loose,
        )
        for formulate in FORMULATE:
            formulate(draft)
        names = sorted({r for t in templates for r, v in t.requests.items() if v})
        free = free_amounts(nodes, names)
        for name, amounts in zip(names, free, strict=True):
            if name in draft.withheld:
                np.maximum(0, amounts - draft.withheld[name], out=amounts)
        need = [
            np.array([t.requests.get(r, 0) for t in templates], dtype=np.int64)[of_class]
            for r in names
        ]
        for label, room, take in draft.columns:
            names.append(label)
            free.append(room)
            need.append(take)
        _limit(free, need, counts, repeats)
        request = np.stack(need, axis=1) if need else np.zeros((len(raw), 0), dtype=np.int64)
        bundled = self._bundled(request, draft.eligible, draft.special)
        return Table(
            tuple(names),
            [*(t.requests for _, t in raw), *map(self._requests, self._bundles)],
            # Column by column in memory: it is read by columns.
            np.stack(free).T if free else np.zeros((len(nodes), 0), dtype=np.int64),
            bundled.request,
            bundled.eligible,
            tuple(rule.widen(tuple(self._bundles)) for rule in draft.rules),
            bundled.special,
            {content: ClassIdx(s) for s, content in enumerate(self._bundles, len(raw))},
            (
                *(((t, 1),) for _, t in raw),
                *(tuple((raw[s][1], k) for s, k in content) for content in self._bundles),
            ),
            draft.is_exact,
        )

    def _eligible(self, masks: NodeMasks) -> Bools:
        """Which nodes take which classes [S, N], before rules between pods."""
        nodes, place = self.snapshot.columns, np.array(self._at, dtype=np.int64)
        eligible = np.zeros((len(self._raw), len(nodes)), dtype=bool)
        is_open = nodes.open
        # Pods at home have a single node each, so most of a large table is never touched.
        for s in np.flatnonzero(place < 0).tolist():
            t = self._raw[s][1]
            eligible[s] = masks.selected(t) & masks.tolerated(t) & masks.may_serve(t) & is_open
            if self._closed[s]:
                eligible[s, list(self._closed[s])] = False
        eligible[place >= 0, place[place >= 0]] = True
        return eligible

    def _bundled(self, request: Ints, eligible: Bools, special: Bools) -> _Rows:
        """What classes ask for, with bundles behind them."""
        rows, open_to = [request], [eligible]
        for content in self._bundles:
            members = [s for s, _ in content]
            pods = np.array([k for _, k in content], dtype=np.int64)
            # In Python's integers: a bundle of huge pods must not wrap around to a small one.
            total = pods.astype(object) @ request[members].astype(object)
            rows.append(np.minimum(total, UNLIMITED + 1).astype(np.int64)[None, :])
            open_to.append(np.all(eligible[members], axis=0)[None, :])
            special = np.append(special, special[members].any())
        # A table without bundles is large, and is not copied.
        every = np.concatenate(open_to) if len(open_to) > 1 else eligible
        return _Rows(np.concatenate(rows), every, special)

    def _requests(self, content: Bundle) -> Resources:
        """What a bundle asks for."""
        total: dict[str, int] = {}
        for s, k in content:
            for r, v in self._raw[s][1].requests.items():
                total[r] = total.get(r, 0) + k * v
        return total


def _limit(free: Sequence[Ints], need: Sequence[Ints], counts: Sequence[int], repeats: int) -> None:
    """Give columns without a limit as much as all pods together ask for."""
    for room, take in zip(free, need, strict=True):
        unlimited = room >= UNLIMITED
        if unlimited.any():
            # In Python's integers, which do not wrap around.
            asked = sum(n * t for n, t in zip(counts, take.tolist(), strict=True))
            room[unlimited] = min(asked * repeats, UNLIMITED)


def free_amounts(nodes: Nodes, resources: Sequence[str]) -> list[Ints]:
    """What is left of each resource on each node [N], never negative; as `Node.free`."""
    return [np.maximum(0, nodes.free(resource)) for resource in resources]
