"""How many of some pods fit in each domain at most, by counting.

The counts are those of `ResidualCapacity`. They are exact for pods that ask for the same and have
no rule between pods, else an upper bound: a domain that counts too few certainly cannot hold them.
Nothing is searched and nothing is placed.

Pods of several kinds are also counted together. With fit(r, x) for how often a
request r fits into x, the fits of pods on a node add up to at most fit(r, free);
likewise their amounts of each resource alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_service.entities.request import PodTemplate, Snapshot
from placement_service.explain.node_reasons import NodeRules
from placement_service.explain.wording import group_word, pod_rules
from placement_service.formulation.arrays import Bools, Ints, fit, pods_that_fit
from placement_service.formulation.indices import NO_CLASS, ClassIdx
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.rules.protocol import NO_CEILING, Rule
from placement_service.heuristic.residual_capacity import ResidualCapacity

Floats = NDArray[np.float64]

#: The whole cluster, as a level of one domain.
CLUSTER = -1

#: Pairs of domains that are counted apart; beyond, a coarser bound is taken.
MAX_PAIRS = 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Pods that no rule tells apart.

    `pod_class` is NO_CLASS for pods that the engine only knows inside a bundle.
    """

    number: int
    pod_class: ClassIdx
    request: Ints
    eligible: Bools
    template: PodTemplate


@dataclass(frozen=True, slots=True)
class Need:
    """`missing` pods of one group, to be taken from these kinds (kind, pods there are)."""

    group: str
    kinds: tuple[tuple[Kind, int], ...]
    missing: int

    @property
    def key(self) -> object:
        """Equal for needs that count alike."""
        return (tuple((k.number, n) for k, n in self.kinds), self.missing)


Needs = tuple[Need, ...]


class Kinds:
    """What gangs need, in pods."""

    def __init__(self, snapshot: Snapshot, problem: Problem, rules: NodeRules) -> None:
        self.snapshot = snapshot
        self.problem = problem
        self.rules = rules
        names = {
            r
            for gang in snapshot.gangs
            for group in gang.groups
            for s in group.pod_sets
            for r in s.template.requests
        }
        #: Columns that are resources; the others say which pods may share a node.
        self.resources = np.array([c in names for c in problem.columns], dtype=bool)
        self._found: dict[object, Kind] = {}
        self._open: dict[int, Bools] = {}

    def open(self, kind: Kind) -> Bools:
        """Nodes that the rules about single nodes leave to a kind [N]."""
        if kind.number not in self._open:
            self._open[kind.number] = self.rules.open(kind.template)
        return self._open[kind.number]

    def has_rules(self, kind: Kind) -> bool:
        """Whether other pods may keep a kind away from a node."""
        if kind.pod_class >= 0 and self.problem.special[kind.pod_class]:
            return True
        return bool((kind.request[~self.resources] > 0).any()) or bool(
            (self.open(kind) & ~kind.eligible).any()
        )

    def rules_of(self, kinds: Iterable[Kind]) -> list[str]:
        """The rules that keep away pods of the kinds that `has_rules` is true for, in words."""
        found: dict[str, None] = {}
        for kind in kinds:
            if self.has_rules(kind):
                taken = np.flatnonzero(~self.resources & (kind.request > 0)).tolist()
                columns = (self.problem.columns[r] for r in taken)
                found |= dict.fromkeys(pod_rules(kind.template, columns))
        return list(found)

    def needs(self, gang: Gang, demands: Iterable[int]) -> Needs:
        """What is missing of the groups behind some demands."""
        inside = set(demands)
        found: list[Need] = []
        for requirement in gang.requirements:
            if requirement.missing and inside.issuperset(requirement.demands):
                found += self._of_requirement(gang, requirement.demands, requirement.missing)
        return tuple(found)

    def _of_requirement(self, gang: Gang, demands: Sequence[int], missing: int) -> list[Need]:
        groups = self.snapshot.gangs[gang.index].groups
        names = [group_word(group.name) for group in groups]
        first = gang.demands[demands[0]]
        if self.is_bundle(gang, demands[0]):
            # A bundle is all pods of its groups, so each of its pod sets is a need.
            return [
                Need(names[i], ((self._member(groups[i].pod_sets[k].template), pods),), pods)
                for i, k, pods in first.members
            ]
        kinds = tuple((self.kind(gang, d), gang.demands[d].count) for d in demands)
        return [Need(names[first.members[0][0]], kinds, missing)]

    @staticmethod
    def is_bundle(gang: Gang, demand: int) -> bool:
        """Whether a unit of the demand is more than one pod."""
        return sum(pods for _, _, pods in gang.demands[demand].members) > 1

    def kind(self, gang: Gang, demand: int) -> Kind:
        """The kind of the pods of a demand that is no bundle of several."""
        d = gang.demands[demand]
        if d.pod_class not in self._found:
            group, pod_set, _ = d.members[0]
            source = self.snapshot.gangs[gang.index].groups[group].pod_sets[pod_set]
            self._found[d.pod_class] = Kind(
                len(self._found),
                d.pod_class,
                self.problem.request[d.pod_class],
                self.problem.eligible[d.pod_class],
                source.template,
            )
        return self._found[d.pod_class]

    def _member(self, template: PodTemplate) -> Kind:
        """A kind of a bundle: under no rule between pods, so its requests say all."""
        request = np.array(
            [template.requests.get(c, 0) for c in self.problem.columns], dtype=np.int64
        )
        eligible = self.rules.open(template)
        key = (request.tobytes(), eligible.tobytes())
        if key not in self._found:
            self._found[key] = Kind(len(self._found), NO_CLASS, request, eligible, template)
        return self._found[key]


class Regions(NamedTuple):
    """The domain of each node [N], -1 for none, and how many domains there are."""

    of: Ints
    number: int


class Headroom:
    """Counts on one state of the nodes, which must be as it was at each call. With `many_devices`
    more pods count than fit the devices of nodes.
    """

    def __init__(
        self, kinds: Kinds, residual: ResidualCapacity, *, many_devices: bool = False
    ) -> None:
        self._many_devices = many_devices
        self.kinds = kinds
        self.problem = kinds.problem
        self.residual = residual
        self._rows: dict[tuple[int, bool], Ints] = {}
        self._most: dict[object, Ints] = {}
        self._cluster = np.zeros(self.problem.node_count, dtype=np.int64)

    def regions(self, level: int) -> Regions:
        """The domains of a level, `CLUSTER` for the whole cluster."""
        if level == CLUSTER:
            return Regions(self._cluster, 1)
        return Regions(self.problem.levels[level].domain, self.problem.levels[level].count)

    def exact(self, needs: Needs) -> bool:
        """Whether `most` is not only an upper bound but what fits."""
        kinds = {k.number: k for need in needs for k, _ in need.kinds}
        alone = all(len(need.kinds) == 1 for need in needs)
        return (
            alone
            and len(kinds) == 1
            and not any(self._special(k) for k in kinds.values())
            and not (self._many_devices and any(map(self._wants_devices, kinds.values())))
        )

    def _wants_devices(self, kind: Kind) -> bool:
        """Whether its pods take of columns that are no resources, as all do that want devices."""
        return bool((self.problem.rule_columns & (kind.request > 0)).any())

    def most(
        self, needs: Needs, level: int, company: frozenset[ClassIdx], *, bare: bool = False
    ) -> Ints:
        """Upper bounds of how many missing pods fit in each domain of a level [D].

        `company` are all pod classes of the gang, which may help each other. `bare`
        looks at resources and rules about single nodes only.
        """
        special = frozenset(s for s in company if self.problem.special[s])
        key = (tuple(n.key for n in needs), level, special, bare)
        if key not in self._most:
            of, count = self.regions(level)
            self._most[key] = self.most_within(needs, of, count, company, bare=bare)
        return self._most[key]

    def most_within(
        self,
        needs: Needs,
        of: Ints,
        count: int,
        company: frozenset[ClassIdx],
        *,
        bare: bool = False,
    ) -> Ints:
        """As `most`, for any division of the nodes: `of[N]` is below `count`, -1 for none."""
        kinds = {k.number: k for need in needs for k, _ in need.kinds}
        sums = {i: self._sums(k, of, count, company, bare) for i, k in kinds.items()}
        total = np.zeros(count, dtype=np.int64)
        alone = dict.fromkeys(kinds, 0)
        for need in needs:
            if len(need.kinds) == 1:
                alone[need.kinds[0][0].number] += need.missing
            else:
                parts = sum(np.minimum(n, sums[k.number]) for k, n in need.kinds)
                total += np.minimum(need.missing, parts)
        for number, missing in alone.items():
            if missing:
                total += np.minimum(missing, sums[number])
        if len(kinds) > 1:
            columns = self.kinds.resources if bare else np.ones(len(self.kinds.resources), bool)
            self._count_together(total, needs, tuple(kinds.values()), of, columns, bare)
        return total

    def row(self, kind: Kind, *, bare: bool = False) -> Ints:
        """Pods of a kind that fit on each node, without rules across nodes [N]."""
        if kind.pod_class >= 0 and not bare:
            return self.residual.row(kind.pod_class)
        key = (kind.number, bare)
        if key not in self._rows:
            request = np.where(self.kinds.resources, kind.request, 0) if bare else kind.request
            row = pods_that_fit(self.residual.free, request)
            row[~(self.kinds.open(kind) if bare else kind.eligible)] = 0
            self._rows[key] = row
        return self._rows[key]

    def packed(self, needs: Needs, nodes: Ints) -> int:
        """How many of the missing pods a simple trial places on some nodes, largest first. It
        ignores inner scopes and rules across nodes.
        """
        free = self.residual.free[nodes].copy()
        most = np.maximum(free.max(axis=0, initial=0), 1)
        total = 0
        for need in sorted(needs, key=lambda n: -float((n.kinds[0][0].request / most).max())):
            left = need.missing
            for kind, there in need.kinds:
                row = pods_that_fit(free, kind.request)
                row[~kind.eligible[nodes]] = 0
                # The tightest nodes first.
                order = np.argsort(row, kind="stable")
                row = row[order]
                counts = np.clip(min(left, there) - (np.cumsum(row) - row), 0, row)
                free[order] -= counts[:, None] * kind.request
                left -= int(counts.sum())
            total += need.missing - left
        return total

    def _special(self, kind: Kind) -> bool:
        return kind.pod_class >= 0 and bool(self.problem.special[kind.pod_class])

    def _sums(
        self, kind: Kind, of: Ints, count: int, company: frozenset[ClassIdx], bare: bool
    ) -> Ints:
        row = self.row(kind, bare=bare)
        inside = of >= 0
        sums = np.bincount(of[inside], row[inside], count).astype(np.int64)
        if bare or not self._special(kind):
            return sums
        for rule, load in self.residual.loads_of(kind.pod_class):
            np.minimum(sums, self._under(rule, load, kind, row, of, count, company), out=sums)
        return sums

    def _under(
        self,
        rule: Rule,
        load: Ints,
        kind: Kind,
        row: Ints,
        of: Ints,
        count: int,
        company: frozenset[ClassIdx],
    ) -> Ints:
        """An upper bound by one rule between pods, without what further pods could change."""
        ceiling = rule.ceiling(load, kind.pod_class, company)
        if ceiling is None:
            return np.full(count, NO_CEILING)
        level, most = self.problem.levels[rule.level], ceiling.by_domain
        if (level.count + 1) * count > MAX_PAIRS:
            row = np.minimum(row, most[level.domain])
            inside = of >= 0
            return np.bincount(of[inside], row[inside], count).astype(np.int64)
        inside = of >= 0
        pair = of[inside] * (level.count + 1) + level.domain[inside] % (level.count + 1)
        sums = np.bincount(pair, row[inside], count * (level.count + 1)).astype(np.int64)
        sums = np.minimum(sums.reshape(count, level.count + 1), most)
        found: Ints = sums.max(axis=1) if ceiling.together else sums.sum(axis=1)
        return found

    def _count_together(
        self,
        total: Ints,
        needs: Needs,
        kinds: Sequence[Kind],
        of: Ints,
        columns: Bools,
        bare: bool,
    ) -> None:
        """Lower `total` to what the kinds allow when they share the nodes."""
        usable = np.zeros(self.problem.node_count, dtype=bool)
        for kind in kinds:
            usable |= self.row(kind, bare=bare) > 0
        inside = usable & (of >= 0)
        free = self.residual.free[inside] * columns
        where = of[inside]
        requests = np.stack([k.request * columns for k in kinds])
        at = {k.number: i for i, k in enumerate(kinds)}

        def lower(room: Floats, units: Floats) -> None:
            weights: list[float] = []
            for need in needs:
                least = min(units[at[k.number]] for k, _ in need.kinds)
                weights += [float(least)] * need.missing
            capacity = np.bincount(where, room, len(total)).astype(np.float64)
            np.minimum(total, _count_by_weight(capacity, weights), out=total)

        for i in range(len(kinds)):
            lower(
                fit(free, requests[i]).astype(np.float64),
                fit(requests, requests[i]).astype(np.float64),
            )
        for r in np.flatnonzero(requests.any(axis=0)):
            asked = sum(need.missing for need in needs) * int(requests[:, r].max())
            # Room beyond all that is asked for makes no difference.
            lower(np.minimum(free[:, r], asked).astype(np.float64), requests[:, r].astype(float))


def _count_by_weight(capacity: Floats, weights: Sequence[float]) -> Ints:
    """How many of the weights, lightest first, each capacity holds."""
    used = np.cumsum(np.sort(np.array(weights)))
    # Sums of large amounts are not exact; the bound may be too high, never too low.
    return np.searchsorted(used, capacity * (1 + 1e-12), side="right").astype(np.int64)
