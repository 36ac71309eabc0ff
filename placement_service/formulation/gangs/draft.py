"""A gang on its way from names to indices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from placement_service.entities.request import Snapshot
from placement_service.entities.solution import Assignment
from placement_service.formulation.gangs.packing_scopes import PackingScopes
from placement_service.formulation.indices import (
    ANY_NODE,
    NO_LEVEL,
    ClassIdx,
    DemandIdx,
    GangIdx,
    GroupIdx,
    NodeIdx,
    PodSetIdx,
)
from placement_service.formulation.levels import Levels
from placement_service.formulation.open_gangs import (
    MUST_RUN,
    anew_name,
    is_anew,
    is_otherwise,
    is_part,
    otherwise_name,
    part_name,
    whole_name,
)
from placement_service.formulation.pod_classes import Bundle, ClassPods, PodClasses
from placement_service.formulation.prepared import GroupOf, Prepared, SetOf
from placement_service.formulation.problem import (
    Demand,
    Gang,
    GroupRequirement,
    Member,
    UnitsOnNode,
)
from placement_service.formulation.rules.reservation_owners import Ownership


class _DemandDraft(NamedTuple):
    """As `Demand`, of a pod class or of a bundle that has no number yet."""

    content: ClassIdx | Bundle
    units: int
    members: tuple[Member, ...]


class Drafting:
    """What the drafts of all gangs of a snapshot look at."""

    def __init__(self, prepared: Prepared, levels: Levels, ownership: Ownership) -> None:
        snapshot = prepared.snapshot
        self.prepared = prepared
        self.levels = levels
        self.ownership = ownership
        self.row_of = snapshot.columns.row_of
        self.gone = _gone_nodes(snapshot)
        self.queues = {queue.name for queue in snapshot.queues}
        #: The homes of each gang.
        self.homes: defaultdict[int, list[Assignment]] = defaultdict(list)
        for home in prepared.homes:
            self.homes[home.gang].append(home)

    def drafts(self) -> list[GangDraft]:
        """A draft of each gang, without demands."""
        return [GangDraft(i, self) for i in range(len(self.prepared.snapshot.gangs))]


def _gone_nodes(snapshot: Snapshot) -> dict[str, int]:
    """Nodes of running pods that are not in the snapshot, each a place of its own below -1."""
    gone: dict[str, int] = {}
    row_of = snapshot.columns.row_of
    for gang in snapshot.gangs:
        for group in gang.groups:
            for pod in group.running_pods:
                if pod.node not in row_of:
                    gone.setdefault(pod.node, -2 - len(gone))
    return gone


class GangDraft:
    """One gang; `finish` once all drafts have made their demands."""

    def __init__(self, index: int, drafting: Drafting) -> None:
        prepared = drafting.prepared
        self.index = index
        self.gang = gang = prepared.snapshot.gangs[index]
        self._homes = homes = drafting.homes[index]
        self._minimums = minimums = prepared.minimums
        self._only_extras = index in prepared.only_extras
        self._only_stays = prepared.only_stays
        self.comes_again = index in prepared.again
        self._closed = prepared.closed
        #: Where pods are that stay at home or go, by their sets.
        self._at = {
            (h.group, h.pod_set): NodeIdx(h.node)
            for h in homes
            if not minimums or GroupOf(index, h.group) in prepared.comes
        }
        self._comes = prepared.comes
        self._is_scattered = index in prepared.scattered
        as_of = prepared.snapshot.as_of
        created = as_of if gang.created is None else gang.created
        self._waited = 0 if as_of is None or created is None else max(0, as_of - created)
        self._ownership = drafting.ownership
        self._row_of = drafting.row_of
        self.packing = PackingScopes(gang, drafting.levels, self._row_of, drafting.gone)
        self.refused = (
            gang.uninitialized
            or bool(gang.refusals)
            or bool(gang.queue and gang.queue not in drafting.queues)
            or any(g.missing > g.pending_count for g in gang.groups)
            or self.packing.are_broken
        )

    @property
    def is_open(self) -> bool:
        """Whether pods of it run that may give way."""
        return bool(self._homes)

    @property
    def may_go(self) -> bool:
        """Whether it runs, and all of it may give way."""
        return self.is_open and self.gang.priority < MUST_RUN

    @property
    def runs_whole(self) -> bool:
        """Whether its minimum is met before the plan."""
        return self.is_open or not self.gang.is_pending

    @property
    def _has_no_minimum(self) -> bool:
        """Whether it is open, and all its pods are extras."""
        return self.is_open and not any(q.missing for q in self._requirements)

    def make_demands(self, pod_classes: PodClasses) -> None:
        """One demand per pod set, and one per bundle."""
        bundles = self._bundles(pod_classes)
        in_bundle = {i for groups in bundles for i in groups}
        self._demands: list[_DemandDraft] = []
        self._requirements: list[GroupRequirement] = []
        self._of_group: dict[int, list[int]] = {}
        for i in range(len(self.gang.groups)):
            if i not in in_bundle:
                self._demand_sets(i, pod_classes)
        for groups in bundles:
            self._demand_bundle(groups, pod_classes)

    def _demand_sets(self, i: int, pod_classes: PodClasses) -> None:
        """Demands of a group, one for each of its pod sets."""
        group = self.gang.groups[i]
        first = len(self._demands)
        for k, pod_set in enumerate(group.pod_sets):
            if not pod_set.pods:
                continue
            owned = self._ownership.of(self.gang, pod_set)
            at = self._at.get((i, k), ANY_NODE)
            count = len(pod_set.pods)
            closed = self._closed_to(i, k)
            pod_class = pod_classes.add(
                self.gang.namespace, pod_set.template, count, owned, at, closed=closed
            )
            member = Member(GroupIdx(i), PodSetIdx(k), 1)
            self._demands.append(_DemandDraft(pod_class, count, (member,)))
        mine = tuple(range(first, len(self._demands)))
        # Those that come stand first.
        self._of_group[i] = list(mine[:1] if self._is_scattered else mine)
        if mine:
            # Of pods that stay or come each runs once.
            once = GroupOf(self.index, i) in self._comes
            most = group.missing if once else group.pending_count
            self._requirements.append(GroupRequirement(mine, group.missing, most))

    def _demand_bundle(self, groups: frozenset[int], pod_classes: PodClasses) -> None:
        """The demand of groups that share a host: one unit."""
        members = tuple(
            Member(GroupIdx(i), PodSetIdx(k), len(s.pods))
            for i in sorted(groups)
            for k, s in enumerate(self.gang.groups[i].pod_sets)
        )
        content: dict[ClassIdx, int] = {}
        for member in members:
            template = self.gang.groups[member.group].pod_sets[member.pod_set].template
            at = self._at.get((member.group, member.pod_set), ANY_NODE)
            closed = self._closed_to(member.group, member.pod_set)
            pod_class = pod_classes.add(
                self.gang.namespace, template, member.pods, at=at, closed=closed
            )
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
        for groups in sorted(self.packing.on_one_host, key=lambda g: (-len(g), sorted(g))):
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
                            closed=self._closed_to(i, k),
                        )
                    )
                    for k, s in enumerate(g.pod_sets)
                )
                for i in groups
            )
            # A scope that covers only a part of the bundle could not be kept.
            whole = all(
                groups <= s.groups or not groups & s.groups or s.groups < groups
                for s in self.packing.drafts
            )
            if fixed and whole and not any(groups & other for other in found):
                found.append(groups)
        return found

    def _closed_to(self, group: int, pod_set: int) -> frozenset[int]:
        return self._closed.get(SetOf(self.index, group, pod_set), frozenset())

    def finish(
        self,
        value: int,
        drafts: Sequence[GangDraft],
        by_name: dict[str, int],
        set_bases: Sequence[GangIdx],
        bundle_of: Mapping[Bundle, ClassIdx],
    ) -> Gang:
        """The gang; of all gangs the drafts, the indices `by_name`, and the bases of their sets."""
        demands = tuple(
            Demand(
                bundle_of[d.content] if isinstance(d.content, tuple) else d.content,
                d.units,
                d.members,
            )
            for d in self._demands
        )
        whole, anew = whole_name(self.gang.name), is_anew(self.gang.name)
        other_way = is_otherwise(self.gang.name)
        not_with = self._not_with(drafts, by_name)
        base = by_name[self.gang.base_gang] if self.gang.base_gang else -1
        set_base = set_bases[self.index]
        set_level = NO_LEVEL
        if set_base >= 0:
            set_level = drafts[set_base].packing.set_level
        elif base < 0 or self.index in set_bases:
            set_level = self.packing.set_level
        return Gang(
            index=GangIdx(self.index),
            priority=self.gang.priority,
            value=0 if self._has_no_minimum else value,
            pending=self.gang.is_pending or self.is_open,
            placeable=not self.refused
            and (self.comes_again or not (other_way or (anew and not drafts[not_with].may_go))),
            demands=demands,
            requirements=tuple(self._requirements),
            scopes=tuple(self.packing.over(self._of_group)),
            base=GangIdx(base),
            part=GangIdx(by_name.get(part_name(self.gang.name), -1)),
            anew_of=GangIdx(by_name[whole] if anew or other_way else -1),
            not_with=GangIdx(not_with),
            waits=not self.is_open and not (anew and drafts[by_name[whole]].runs_whole),
            set_base=set_base,
            set_level=set_level,
            set_running=self.packing.running_places(set_level),
            previous=frozenset(
                NodeIdx(self._row_of[n]) for n in self.gang.previous_nodes if n in self._row_of
            ),
            home=tuple(sorted(self._home(demands))),
            keeps=tuple(self._keeps(demands)),
            only_extras=self._only_extras,
            surplus=self._surplus(drafts, by_name),
            instead=frozenset(
                DemandIdx(i)
                for i, d in enumerate(demands)
                if self._comes.get(GroupOf(self.index, d.members[0].group)) == d.members[0].pod_set
            ),
            only_stays=frozenset(
                DemandIdx(i)
                for i, d in enumerate(demands)
                if SetOf(self.index, d.members[0].group, d.members[0].pod_set) in self._only_stays
            ),
            waited=self._waited,
            runs_in_part=anew
            or (self.gang.is_pending and any(g.running_count for g in self.gang.groups)),
        )

    def _not_with(self, drafts: Sequence[GangDraft], by_name: Mapping[str, int]) -> int:
        """The other way to run the same gang, of which only one may be placed; -1 for none."""
        name = self.gang.name
        whole = whole_name(name)
        if is_anew(name) or is_otherwise(name):
            return by_name.get(part_name(whole), by_name[whole])
        if self.is_open:
            return by_name.get(anew_name(whole), -1)
        other = by_name.get(otherwise_name(name), -1)
        return other if other >= 0 and drafts[other].comes_again else -1

    def _surplus(self, drafts: Sequence[GangDraft], by_name: Mapping[str, int]) -> int:
        """The extras in a part that go with it: what runs beyond the minimums of its gang, of which
        some is not met.
        """
        whole = drafts[by_name[whole_name(self.gang.name)]].gang
        if not (is_part(self.gang.name) and whole.is_pending):
            return 0
        return sum(max(0, g.running_count - g.min_replicas) for g in whole.groups)

    def _home(self, demands: Sequence[Demand]) -> Iterator[UnitsOnNode]:
        first = {(d.members[0].group, d.members[0].pod_set): i for i, d in enumerate(demands)}
        for home in self._homes:
            i = first.get((GroupIdx(home.group), PodSetIdx(home.pod_set)))
            # The other members of a bundle come with its first.
            if i is not None:
                count = home.pods // demands[i].members[0].pods
                yield UnitsOnNode(DemandIdx(i), NodeIdx(home.node), count)

    def _keeps(self, demands: Sequence[Demand]) -> Iterator[int]:
        for requirement in self._requirements if self._minimums and not self.comes_again else ():
            group = demands[requirement.demands[0]].members[0].group
            # A bundle is one unit, whatever its pods.
            yield min(self._minimums.get(GroupOf(self.index, group), 0), requirement.missing)
