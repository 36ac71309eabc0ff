"""What counting rules out: which pods lack room, where, and why.

Every finding is certain: each domain that it names holds fewer pods than are asked for (see
`capacity_bounds`), so no placement exists on that state of the nodes. Where nothing is found, a
placement may or may not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from placement_service.entities.placement import Reason, ReasonCode
from placement_service.explain import wording as words
from placement_service.explain.capacity_bounds import CLUSTER, Headroom, Kinds, Need, Needs
from placement_service.explain.capacity_words import CapacityWords
from placement_service.explain.device_reasons import devices_in_the_way
from placement_service.explain.findings import CAPACITY, Finding
from placement_service.explain.part_reasons import PartShortfalls
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.gangs.scope_tree import tree_of
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.problem import Gang, Problem, Scope

#: Domains in which a trial looks for the one where most pods fit.
MAX_TRIALS = 50


@dataclass(frozen=True, slots=True)
class Nearest:
    """A domain of a level and how many of the pods asked for a trial placed there."""

    level: int
    domain: int
    asked: int
    found: int


@dataclass(frozen=True, slots=True)
class _Giant:
    """A pod too large for any node: the node with most of what it lacks, and the words."""

    node: int
    words: str


class _Shortage(NamedTuple):
    """Needs for which no domain of a level has room, of which there are so many `domains`: the
    `best` one, or that of `pin`, has it for the pods `found`. `company` are the pod classes of the
    gang.
    """

    headroom: Headroom
    needs: Needs
    company: frozenset[ClassIdx]
    level: int
    pin: int
    domains: int
    best: int
    found: int
    giant: _Giant | None

    @property
    def asked(self) -> int:
        """How many pods need room."""
        return sum(need.missing for need in self.needs)

    @property
    def exact(self) -> bool:
        """Whether no fewer fit than are `found`."""
        return self.headroom.exact(self.needs)

    @property
    def inside(self) -> Bools:
        """The nodes of the best domain [N]."""
        of, _ = self.headroom.regions(self.level)
        inside: Bools = of == self.best
        return inside


class Shortfalls:
    """Findings about gangs, on any state of the nodes."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.problem: Problem = kinds.problem
        self.snapshot = kinds.snapshot
        self.rules = kinds.rules
        self.say = CapacityWords(kinds)
        self.parts = PartShortfalls(kinds, self.say)

    def needs(self, gang: Gang) -> Needs:
        """What all groups of a gang are missing."""
        return self.kinds.needs(gang, range(len(gang.demands)))

    def failures(self, gang: Gang, headroom: Headroom) -> list[Finding]:
        """What counting rules out, the outermost scopes first; the first kind found."""
        for stage in (self._closed_nodes, self._small_domains, self._small_cluster, self._parts):
            found = list(stage(gang, headroom))
            if found:
                return found
        return []

    def _closed_nodes(self, gang: Gang, headroom: Headroom) -> Iterator[Finding]:
        """Groups whose pods no node accepts, whatever room it has."""
        total = self.problem.node_count
        for need in self.needs(gang):
            if any(kind.eligible.any() for kind, _ in need.kinds):
                continue
            kind = need.kinds[0][0]
            text = f"no node takes the {words.pods(need.missing)} of group {need.group}"
            if self.kinds.open(kind).any():
                rules = self.kinds.rules_of([kind])
                code = words.code_of(rules)
                rest = int(self.kinds.open(kind).sum())
                closed = (
                    *self.rules.counts(kind.template, np.ones(total, dtype=bool)),
                    (words.listed(rules), rest),
                )
            else:
                code = ReasonCode.NO_ELIGIBLE_NODE
                closed = self.rules.counts(kind.template, np.ones(total, dtype=bool))
            text += f": {words.closed(closed, total)}." if closed else ": there are none."
            yield Finding(Reason(code, text, asked=need.missing), (need,))

    def required(self, gang: Gang) -> list[Scope]:
        """Scopes with a required level, the outermost first."""
        return sorted(
            (s for s in gang.scopes if s.required >= 0),
            key=lambda s: (-len(s.demands), self.problem.levels[s.required].count),
        )

    def _small_domains(self, gang: Gang, headroom: Headroom) -> Iterator[Finding]:
        """Required scopes that no domain holds even by themselves."""
        alike: dict[object, list[tuple[Scope, Needs]]] = {}
        for scope in self.required(gang):
            needs = self.kinds.needs(gang, scope.demands)
            if needs:
                key = (tuple(n.key for n in needs), scope.required, scope.pin)
                alike.setdefault(key, []).append((scope, needs))
        failing: list[tuple[Scope, Finding]] = []
        for scopes in alike.values():
            scope, needs = scopes[0]
            about = [self.say.subject(gang, n) for _, n in scopes]
            finding = self._too_small(gang, headroom, needs, about, scope.required, scope.pin)
            if finding is not None:
                failing.append((scope, finding))
        failed = {finding.level for _, finding in failing}
        for scope, finding in failing:
            inner = [
                (s, needs)
                for scopes in alike.values()
                for s, needs in scopes
                if set(s.demands) < set(scope.demands)
            ]
            if inner and all(
                s.required not in failed and headroom.exact(needs) for s, needs in inner
            ):
                which = "The scope" if len(inner) == 1 else f"Each of the {len(inner)} scopes"
                text = f"{finding.reason.message} {which} within fits by itself."
                finding = replace(finding, reason=replace(finding.reason, message=text))
            yield finding

    def _small_cluster(self, gang: Gang, headroom: Headroom) -> Iterator[Finding]:
        """Groups, else the whole gang, for which the cluster has too little."""
        alike: dict[object, list[Need]] = {}
        for need in self.needs(gang):
            alike.setdefault(need.key, []).append(need)
        found = [
            self._too_small(gang, headroom, needs[:1], [self.say.subject(gang, [n]) for n in needs])
            for needs in alike.values()
        ]
        yield from (f for f in found if f is not None)
        if alike and not any(found):
            needs = self.needs(gang)
            whole = self._too_small(gang, headroom, needs, [self.say.subject(gang, needs)])
            if whole is not None:
                yield whole

    def _too_small(
        self,
        gang: Gang,
        headroom: Headroom,
        given: Sequence[Need],
        about: Sequence[str],
        level: int = CLUSTER,
        pin: int = -1,
    ) -> Finding | None:
        """The finding when no domain (or not the one of `pin`) counts enough.

        `about` are the subjects, all with such needs.
        """
        short = self._shortage(gang, headroom, tuple(given), level, pin)
        if short is None:
            return None
        bare = headroom.most(short.needs, level, short.company, bare=True)
        if int(bare[pin] if pin >= 0 else bare.max(initial=0)) >= short.asked:
            code, parts = self._under_rules(short, bare)
        else:
            code, parts = self._without_room(short)
        if level != CLUSTER and pin < 0 and short.domains > 1:
            parts.append(f"no other {self.say.level(level)} has more")
        text = "; ".join(parts) + self.say.about(about, level)
        closed = self.say.closed(short.needs, short.inside)
        if closed:
            where = "" if level == CLUSTER else f" in {self.say.place(level, short.best)}"
            text += f" Closed{where}: {closed}."
        reason = Reason(
            code,
            text,
            level=self.problem.levels[level].key if level != CLUSTER else "",
            domain=self.problem.levels[level].values[short.best] if level != CLUSTER else "",
            asked=short.asked,
            found=short.found,
        )
        return Finding(reason, short.needs, level, pin)

    def _shortage(
        self, gang: Gang, headroom: Headroom, needs: Needs, level: int, pin: int
    ) -> _Shortage | None:
        company = frozenset(d.pod_class for d in gang.demands)
        most = headroom.most(needs, level, company)
        best = pin if pin >= 0 else self.best(headroom, needs, most, level)
        found = int(most[best]) if best >= 0 else 0
        if best >= 0 and found >= sum(need.missing for need in needs):
            return None
        giant = self._giant(headroom, needs, level, pin)
        if giant is not None and not found and pin < 0:
            best = int(headroom.regions(level)[0][giant.node])
        return _Shortage(headroom, needs, company, level, pin, len(most), best, found, giant)

    def _room_there(self, short: _Shortage) -> str:
        """How much room the best domain has."""
        place = self.say.place(short.level, short.best, pinned=short.pin >= 0)
        most = "" if short.exact or not short.found else "at most "
        return (
            f"{place} has room for {most}{short.found} of {words.pods(short.asked)}"
            f"{self.say.of_what(short.needs)}"
        )

    def _under_rules(self, short: _Shortage, bare: Ints) -> tuple[ReasonCode, list[str]]:
        """What to say where resources alone would do, so many of them in each domain."""
        rules = self.kinds.rules_of(k for n in short.needs for k, _ in n.kinds)
        there = short.pin if short.pin >= 0 else int(bare.argmax())
        where = "" if short.level == CLUSTER else f" in {self.say.place(short.level, there)}"
        return words.code_of(rules), [
            f"{self._room_there(short)} under {words.listed(rules)}",
            f"resources alone would do{where}",
        ]

    def _without_room(self, short: _Shortage) -> tuple[ReasonCode, list[str]]:
        """What to say where resources are short: which, or of which devices."""
        headroom, needs, inside = short.headroom, short.needs, short.inside
        code, parts = CAPACITY[short.level != CLUSTER, short.pin >= 0], [self._room_there(short)]
        devices = "" if short.found else self._devices(headroom, needs, inside)
        if devices:
            code = ReasonCode.DEVICES if short.level == CLUSTER else code
            parts.append(devices)
        elif binding := self.say.binding(
            headroom, needs, inside, short.found, short.asked, short.exact
        ):
            parts.append(binding)
        elif short.best >= 0 and not short.exact and short.giant is None:
            each = [headroom.most((n,), short.level, short.company) for n in needs]
            counts = [int(most[short.best]) for most in each]
            parts += self.say.binding_of_group(headroom, needs, counts, inside)
        if short.giant is not None:
            parts.append(short.giant.words)
        return code, parts

    def _giant(self, headroom: Headroom, needs: Needs, level: int, pin: int) -> _Giant | None:
        """A pod that asks for more of one resource than any node of the level has left."""
        of, _ = headroom.regions(level)
        inside = of == pin if pin >= 0 else of >= 0
        for kind in {k.number: k for n in needs for k, _ in n.kinds}.values():
            nodes = np.flatnonzero(inside & self.kinds.open(kind))
            asked = np.flatnonzero(self.kinds.resources & (kind.request > 0))
            if not len(nodes) or headroom.row(kind, bare=True)[nodes].any():
                continue
            free = headroom.residual.free[nodes][:, asked]
            short = asked[free.max(axis=0) < kind.request[asked]].tolist()
            # Columns that express rules are not resources that people ask for.
            names = {r: n for r in short if " " not in (n := self.problem.columns[r])}
            short = list(names)
            # GPUs if they are short, because they matter most to gangs.
            short.sort(key=lambda r: names[r] not in self.problem.policy.gpu_resources)
            for r in short[:1]:
                there = headroom.residual.free[nodes, r]
                if not there.max():
                    break
                alike = nodes[there == there.max()].tolist()
                names_of = self.snapshot.columns.names
                node = min(alike, key=lambda n: names_of[n])
                name = self.snapshot.nodes[node].short_name
                most = words.amount(names[r], int(there.max()))
                text = f"the most free on one node is {most}, on {name}"
                shown = words.asks(kind.template, self.problem.policy)
                own = words.amount(names[r], int(kind.request[r]))
                if own not in shown.split(" and "):
                    text = f"a pod asks for {own} and {text}"
                return _Giant(node, text)
        return None

    def _devices(self, headroom: Headroom, needs: Needs, inside: Bools) -> str:
        """The devices that keep a pod away from the node that has most of all else."""
        rules = self.problem.rule_columns
        for kind in {k.number: k for n in needs for k, _ in n.kinds}.values():
            nodes = np.flatnonzero(inside & self.kinds.open(kind))
            free = headroom.residual.free[nodes]
            able = nodes[(free[:, ~rules] >= kind.request[~rules]).all(axis=1)]
            if not len(able) or headroom.row(kind, bare=True)[nodes].any():
                continue
            gpus = self.problem.node_gpus_free[able]
            best = able[gpus == gpus.max()].tolist()
            node = min((self.snapshot.nodes[n] for n in best), key=lambda n: n.name)
            text = devices_in_the_way(node, kind.template, self.problem.policy)
            if text:
                return text
        return ""

    def nearest(self, gang: Gang, headroom: Headroom) -> Nearest:
        """Where a gang nearly fits, though counting rules nothing out."""
        whole = Nearest(CLUSTER, 0, 0, 0)
        for scope in self.required(gang):
            needs = self.kinds.needs(gang, scope.demands)
            if needs:
                found = self._nearest(gang, headroom, needs, scope.required, scope.pin)
                if found.found < found.asked:
                    return found
                whole = found if whole.level == CLUSTER else whole
        found = self._nearest(gang, headroom, self.needs(gang), CLUSTER, -1)
        return found if found.found < found.asked else whole

    def _nearest(
        self, gang: Gang, headroom: Headroom, needs: Needs, level: int, pin: int
    ) -> Nearest:
        of, _ = headroom.regions(level)
        most = headroom.most(needs, level, frozenset(d.pod_class for d in gang.demands))
        able = np.flatnonzero(most == most.max(initial=0)) if pin < 0 else np.array([pin])
        tried = {int(d): headroom.packed(needs, np.flatnonzero(of == d)) for d in able[:MAX_TRIALS]}
        best = max(tried, key=lambda d: (tried[d], -d))
        return Nearest(level, best, sum(n.missing for n in needs), tried[best])

    @staticmethod
    def best(headroom: Headroom, needs: Needs, most: Ints, level: int) -> int:
        """The domain that counts most; of several the one with most usable nodes."""
        if not len(most):
            return -1
        best = np.flatnonzero(most == most.max())
        if len(best) == 1:
            return int(best[0])
        of, count = headroom.regions(level)
        usable = np.zeros(len(of), dtype=bool)
        for need in needs:
            for kind, _ in need.kinds:
                usable |= kind.eligible
        inside = usable & (of >= 0)
        sizes = np.bincount(of[inside], minlength=count)
        return int(best[np.argmax(sizes[best])])

    def _parts(self, gang: Gang, headroom: Headroom) -> Iterator[Finding]:
        """Scopes within scopes: each fits a domain, but there are not enough such domains."""
        tree = tree_of(self.problem, gang)
        if tree is not None:
            yield from self.parts.findings(gang, headroom, tree)
