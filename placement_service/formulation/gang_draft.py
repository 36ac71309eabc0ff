"""A gang on its way from names to indices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from placement_service.entities.request import PodGang
from placement_service.entities.solution import Assignment
from placement_service.formulation.arrays import Ints
from placement_service.formulation.indices import (
    ANY_NODE,
    NO_DOMAIN,
    NO_LEVEL,
    ClassIdx,
    DemandIdx,
    DomainIdx,
    GangIdx,
    GroupIdx,
    LevelIdx,
    NodeIdx,
    PodSetIdx,
)
from placement_service.formulation.levels import Levels
from placement_service.formulation.pod_classes import Bundle, ClassPods, PodClasses
from placement_service.formulation.problem import (
    Demand,
    Gang,
    GroupRequirement,
    Member,
    Scope,
    UnitsOnNode,
)
from placement_service.formulation.rules.reservations import Ownership


class _ScopeDraft(NamedTuple):
    """A packing scope over groups of the gang."""

    groups: frozenset[int]
    required: LevelIdx
    preferred: LevelIdx


class _DemandDraft(NamedTuple):
    """As `Demand`, of a pod class or of a bundle that has no number yet."""

    content: ClassIdx | Bundle
    units: int
    members: tuple[Member, ...]


class GangDraft:
    """One gang; `finish` once all drafts have made their demands."""

    def __init__(
        self,
        index: int,
        gang: PodGang,
        levels: Levels,
        node: Mapping[str, int],
        gone: dict[str, int],
        as_of: int | None,
        queues: Collection[str],
        ownership: Ownership,
        homes: Sequence[Assignment],
        minimums: Mapping[tuple[int, int], int],
    ) -> None:
        """`homes` are those of the gang, `minimums` as in `Prepared`."""
        self.index = index
        self._homes = homes
        self._minimums = minimums
        #: Where pods are that stay at home or go, by their sets.
        self._at = {} if minimums else {(h.group, h.pod_set): NodeIdx(h.node) for h in homes}
        created = as_of if gang.created is None else gang.created
        self._waited = 0 if as_of is None or created is None else max(0, as_of - created)
        self._gone = gone
        self.gang = gang
        self._ownership = ownership
        self._levels = levels
        self._node = node
        self._group = {g.name: i for i, g in enumerate(gang.groups)}
        self._running = {i: pods for i, g in enumerate(gang.groups) if (pods := g.running_pods)}
        self._scopes = [
            _ScopeDraft(
                frozenset(self._group[name] for name in scope.groups),
                levels.index(scope.required_level) if scope.required_level else NO_LEVEL,
                levels.index(scope.preferred_level) if scope.preferred_level else NO_LEVEL,
            )
            for scope in gang.packing_scopes
        ]
        self.refused = (
            gang.uninitialized
            or bool(gang.unsupported)
            or bool(gang.queue and gang.queue not in queues)
            or any(g.missing > g.pending_count for g in gang.groups)
            or any(self._pin(s.groups, s.required) is None for s in self._scopes)
        )

    def _running_places(self, groups: frozenset[int], places: Ints) -> tuple[int, ...]:
        """Places of the running pods of some groups, as in `Scope.running`."""
        if not self._running:
            return ()
        found: list[int] = []
        for i in sorted(groups & self._running.keys()):
            for pod in self._running[i]:
                node = self._node.get(pod.node)
                found.append(self._gone[pod.node] if node is None else int(places[node]))
        return tuple(sorted(set(found)))

    def _pin(self, groups: frozenset[int], level: LevelIdx) -> DomainIdx | None:
        """The domain that running pods hold a scope to, NO_DOMAIN for none, None when broken."""
        if level < 0:
            return NO_DOMAIN
        places = self._running_places(groups, self._levels[level].domain)
        if not places:
            return NO_DOMAIN
        return DomainIdx(places[0]) if len(places) == 1 and places[0] >= 0 else None

    def make_demands(self, pod_classes: PodClasses) -> None:
        """One demand per pod set, and one per bundle."""
        namespace = self.gang.namespace
        bundles = self._bundles(pod_classes)
        in_bundle = {i for groups in bundles for i in groups}
        self._demands: list[_DemandDraft] = []
        self._requirements: list[GroupRequirement] = []
        self._of_group: dict[int, list[int]] = {}
        for i, group in enumerate(self.gang.groups):
            if i in in_bundle:
                continue
            first = len(self._demands)
            for k, pod_set in enumerate(group.pod_sets):
                if not pod_set.pods:
                    continue
                owned = self._ownership.of(self.gang, pod_set)
                at = self._at.get((i, k), ANY_NODE)
                count = len(pod_set.pods)
                pod_class = pod_classes.add(namespace, pod_set.template, count, owned, at)
                member = Member(GroupIdx(i), PodSetIdx(k), 1)
                self._demands.append(_DemandDraft(pod_class, len(pod_set.pods), (member,)))
            mine = tuple(range(first, len(self._demands)))
            self._of_group[i] = list(mine)
            if mine:
                self._requirements.append(
                    GroupRequirement(mine, group.missing, group.pending_count)
                )
        for groups in bundles:
            members = tuple(
                Member(GroupIdx(i), PodSetIdx(k), len(s.pods))
                for i in sorted(groups)
                for k, s in enumerate(self.gang.groups[i].pod_sets)
            )
            content: dict[ClassIdx, int] = {}
            for member in members:
                template = self.gang.groups[member.group].pod_sets[member.pod_set].template
                at = self._at.get((member.group, member.pod_set), ANY_NODE)
                pod_class = pod_classes.add(namespace, template, member.pods, at=at)
                content[pod_class] = content.get(pod_class, 0) + member.pods
            bundle = tuple(ClassPods(*item) for item in sorted(content.items()))
            pod_classes.bundle(bundle)
            number = len(self._demands)
            self._demands.append(_DemandDraft(bundle, 1, members))
            self._requirements.append(GroupRequirement((number,), 1, 1))
            for i in groups:
                self._of_group[i] = [number]

    def _bundles(self, pod_classes: PodClasses) -> list[frozenset[int]]:
        """Disjoint sets of groups, all mandatory and unbound, that share a host."""
        found: list[frozenset[int]] = []
        hosts = {
            s.groups for s in self._scopes if s.required >= 0 and self._levels[s.required].is_host
        }
        for groups in sorted(hosts, key=lambda g: (-len(g), sorted(g))):
            if any(groups <= other for other in found):
                continue
            fixed = all(
                not (g := self.gang.groups[i]).running_count
                and g.pod_sets
                and g.missing == g.pending_count
                and all(
                    pod_classes.plain(
                        pod_classes.of(
                            self.gang.namespace,
                            s.template,
                            self._ownership.of(self.gang, s),
                            self._at.get((i, k), ANY_NODE),
                        )
                    )
                    for k, s in enumerate(g.pod_sets)
                )
                for i in groups
            )
            # A scope that covers only a part of the bundle could not be kept.
            whole = all(
                groups <= s.groups or not groups & s.groups or s.groups < groups
                for s in self._scopes
            )
            if fixed and whole and not any(groups & other for other in found):
                found.append(groups)
        return found

    def finish(
        self,
        value: int,
        drafts: Sequence[GangDraft],
        by_name: dict[str, int],
        bundle_of: Mapping[Bundle, ClassIdx],
    ) -> Gang:
        demands = tuple(
            Demand(
                bundle_of[d.content] if isinstance(d.content, tuple) else d.content,
                d.units,
                d.members,
            )
            for d in self._demands
        )
        scopes = []
        for groups, required, preferred in self._scopes:
            mine = tuple(sorted({d for i in groups for d in self._of_group[i]}))
            pin = self._pin(groups, required)
            running = (
                self._running_places(groups, self._levels[preferred].place_of)
                if preferred >= 0
                else ()
            )
            if required >= 0 or preferred >= 0:
                held = NO_DOMAIN if pin is None else pin
                scopes.append(Scope(mine, required, preferred, held, running))
        base = by_name[self.gang.base_gang] if self.gang.base_gang else -1
        set_level = (drafts[base] if base >= 0 else self).set_level()
        return Gang(
            index=GangIdx(self.index),
            priority=self.gang.priority,
            value=value,
            pending=self.gang.is_pending,
            placeable=not self.refused,
            demands=demands,
            requirements=tuple(self._requirements),
            scopes=tuple(scopes),
            base=GangIdx(base),
            set_level=set_level,
            set_running=self._own_running_places(set_level),
            previous=frozenset(
                NodeIdx(self._node[n]) for n in self.gang.previous_nodes if n in self._node
            ),
            home=tuple(sorted(self._home(demands))),
            keeps=tuple(self._keeps(demands)),
            waited=self._waited,
            runs_in_part=self.gang.is_pending and any(g.running_count for g in self.gang.groups),
        )

    def _home(self, demands: Sequence[Demand]) -> Iterator[UnitsOnNode]:
        first = {(d.members[0].group, d.members[0].pod_set): i for i, d in enumerate(demands)}
        for home in self._homes:
            i = first.get((GroupIdx(home.group), PodSetIdx(home.pod_set)))
            # The other members of a bundle come with its first.
            if i is not None:
                count = home.count // demands[i].members[0].pods
                yield UnitsOnNode(DemandIdx(i), NodeIdx(home.node), count)

    def _keeps(self, demands: Sequence[Demand]) -> Iterator[int]:
        for requirement in self._requirements if self._minimums else ():
            group = demands[requirement.demands[0]].members[0].group
            # A bundle is one unit, whatever its pods.
            yield min(self._minimums.get((self.index, group), 0), requirement.missing)

    def set_level(self) -> LevelIdx:
        """Where gangs based on this one should be near, -1 for nowhere."""
        everything = frozenset(range(len(self.gang.groups)))
        whole = [s for s in self._scopes if s.groups == everything]
        levels = (*(s.required for s in whole), *(s.preferred for s in whole))
        return next((level for level in levels if level >= 0), NO_LEVEL)

    def _own_running_places(self, level: int) -> tuple[int, ...]:
        if level < 0:
            return ()
        return self._running_places(
            frozenset(range(len(self.gang.groups))), self._levels[level].place_of
        )
