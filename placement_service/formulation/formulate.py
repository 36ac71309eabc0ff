"""From a snapshot to a problem: names become indices.

A scope that requires one host for all its pods is a bundle: one demand whose
pod class is the sum of its pods, when all its pods are mandatory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from placement_service.entities.request import PODS, PodGang, Policy, Resources, Snapshot
from placement_service.formulation.gang_value import gang_value, largest_node
from placement_service.formulation.levels import Levels
from placement_service.formulation.pod_classes import PodClasses, Table
from placement_service.formulation.problem import (
    Demand,
    Gang,
    GroupRequirement,
    Ints,
    Problem,
    Scope,
    fit,
)

#: So many that it does not matter how many, though sums over all pods stay in 64 bits.
MANY_GPUS = 1 << 40


def formulate(snapshot: Snapshot, policy: Policy) -> Problem:
    """Arrays of a valid snapshot (see `validation`)."""
    levels = Levels(snapshot.nodes)
    pod_classes = PodClasses(snapshot, levels)
    index = {n.name: i for i, n in enumerate(snapshot.nodes)}
    value_of = largest_node(snapshot)
    by_name = {g.name: i for i, g in enumerate(snapshot.gangs)}
    gone = _gone_nodes(snapshot, index)
    drafts = [_Draft(i, g, levels, index, gone) for i, g in enumerate(snapshot.gangs)]
    _spread_refusal(drafts, by_name)
    for draft in drafts:
        draft.make_demands(pod_classes)
    table = pod_classes.table(levels)
    gangs = tuple(
        draft.finish(gang_value(draft.gang, policy, value_of), drafts, by_name, table.bundle_of)
        for draft in drafts
    )
    gpu_counts = _gpus(policy, [n.allocatable for n in snapshot.nodes])
    if gpu_counts.any():
        gpus_used = _gpus(policy, [n.requested for n in snapshot.nodes])
        gpus_free = gpu_counts - gpus_used
        class_gpus = _gpus(policy, table.requests)
        whole = (gpu_counts > 0) & (gpus_used == 0)
    else:
        # A cluster without GPUs: every node counts, and is free when empty.
        gpu_counts = np.ones(len(snapshot.nodes), dtype=np.int64)
        gpus_free = gpu_counts
        class_gpus = np.ones(len(table.requests), dtype=np.int64)
        whole = np.array([not n.requested.get(PODS, 0) for n in snapshot.nodes], dtype=bool)
    pods_without_gpus = (class_gpus == 0).astype(np.int64)
    for content, bundle in table.bundle_of.items():
        pods_without_gpus[bundle] = sum(
            pods for pod_class, pods in content if not class_gpus[pod_class]
        )
    problem = Problem(
        snapshot=snapshot,
        policy=policy,
        columns=table.columns,
        free=table.free,
        request=table.request,
        eligible=table.eligible,
        levels=levels.all(),
        gangs=gangs,
        rules=table.rules,
        special=table.special,
        gpus=class_gpus,
        pods_without_gpus=pods_without_gpus,
        node_gpus=gpu_counts,
        node_gpus_free=gpus_free,
        whole_free=whole,
        demand_rank=_demand_rank(table, gangs, class_gpus),
    )
    for array in (problem.free, problem.request, problem.eligible, problem.demand_rank):
        array.flags.writeable = False
    return problem


def _gpus(policy: Policy, resources: Iterable[Resources]) -> Ints:
    """The GPUs of each; what is beyond all reason counts as MANY_GPUS."""
    return np.array([min(policy.gpus(r), MANY_GPUS) for r in resources], dtype=np.int64)


def _gone_nodes(snapshot: Snapshot, index: dict[str, int]) -> dict[str, int]:
    """Nodes of running pods that are not in the snapshot, each a place of its own below -1."""
    gone: dict[str, int] = {}
    for gang in snapshot.gangs:
        for group in gang.groups:
            for pod in group.running_pods:
                if pod.node not in index:
                    gone.setdefault(pod.node, -2 - len(gone))
    return gone


def _demand_rank(table: Table, gangs: Sequence[Gang], gpus: Ints) -> Ints:
    """Rank of each node by the GPU demand that could use it as it is now."""
    demand = np.zeros(len(table.request), dtype=np.int64)
    for gang in gangs:
        if gang.placeable:
            for d in gang.demands:
                demand[d.pod_class] += d.count * gpus[d.pod_class]
    score = np.zeros(len(table.free), dtype=np.int64)
    for s in np.flatnonzero(demand):
        usable = table.eligible[s] & (fit(table.free, table.request[s]) > 0)
        score[usable] += demand[s]
    return np.unique(score, return_inverse=True)[1].astype(np.int64)


class _Draft:
    """A gang on its way from names to indices."""

    def __init__(
        self,
        index: int,
        gang: PodGang,
        levels: Levels,
        node: dict[str, int],
        gone: dict[str, int],
    ) -> None:
        self.index = index
        self._gone = gone
        self.gang = gang
        self._levels = levels
        self._node = node
        self._group = {g.name: i for i, g in enumerate(gang.groups)}
        self._scopes = [
            (
                frozenset(self._group[name] for name in scope.groups),
                levels.index(scope.required_level) if scope.required_level else -1,
                levels.index(scope.preferred_level) if scope.preferred_level else -1,
            )
            for scope in gang.packing_scopes
        ]
        self.refused = (
            gang.uninitialized
            or bool(gang.unsupported)
            or any(g.missing > g.pending_count for g in gang.groups)
            or any(self._pin(groups, level) is None for groups, level, _ in self._scopes)
        )

    def _running_places(self, groups: frozenset[int], places: Ints) -> tuple[int, ...]:
        """Places of the running pods of some groups, as in `Scope.running`."""
        found: list[int] = []
        for i in sorted(groups):
            for pod in self.gang.groups[i].running_pods:
                node = self._node.get(pod.node)
                found.append(self._gone[pod.node] if node is None else int(places[node]))
        return tuple(sorted(set(found)))

    def _pin(self, groups: frozenset[int], level: int) -> int | None:
        """The domain that running pods hold a scope to, -1 for none, None when broken."""
        if level < 0:
            return -1
        places = self._running_places(groups, self._levels[level].domain)
        if not places:
            return -1
        return places[0] if len(places) == 1 and places[0] >= 0 else None

    def make_demands(self, pod_classes: PodClasses) -> None:
        """One demand per pod set, and one per bundle."""
        namespace = self.gang.namespace
        bundles = self._bundles(pod_classes)
        in_bundle = {i for groups in bundles for i in groups}
        self._demands: list[
            tuple[int | tuple[tuple[int, int], ...], int, list[tuple[int, int, int]]]
        ] = []
        self._requirements: list[GroupRequirement] = []
        self._of_group: dict[int, list[int]] = {}
        for i, group in enumerate(self.gang.groups):
            if i in in_bundle:
                continue
            first = len(self._demands)
            for k, pod_set in enumerate(group.pod_sets):
                if not pod_set.pods:
                    continue
                pod_class = pod_classes.add(namespace, pod_set.template, len(pod_set.pods))
                self._demands.append((pod_class, len(pod_set.pods), [(i, k, 1)]))
            mine = tuple(range(first, len(self._demands)))
            self._of_group[i] = list(mine)
            if mine:
                self._requirements.append(
                    GroupRequirement(mine, group.missing, group.pending_count)
                )
        for groups in bundles:
            members = [
                (i, k, len(s.pods))
                for i in sorted(groups)
                for k, s in enumerate(self.gang.groups[i].pod_sets)
            ]
            content: dict[int, int] = {}
            for i, k, count in members:
                template = self.gang.groups[i].pod_sets[k].template
                pod_class = pod_classes.add(namespace, template, count)
                content[pod_class] = content.get(pod_class, 0) + count
            key = tuple(sorted(content.items()))
            pod_classes.bundle(key)
            number = len(self._demands)
            self._demands.append((key, 1, members))
            self._requirements.append(GroupRequirement((number,), 1, 1))
            for i in groups:
                self._of_group[i] = [number]

    def _bundles(self, pod_classes: PodClasses) -> list[frozenset[int]]:
        """Disjoint sets of groups, all mandatory and unbound, that share a host."""
        found: list[frozenset[int]] = []
        hosts = {g for g, level, _ in self._scopes if level >= 0 and self._levels[level].is_host}
        for groups in sorted(hosts, key=lambda g: (-len(g), sorted(g))):
            if any(groups <= other for other in found):
                continue
            fixed = all(
                not (g := self.gang.groups[i]).running_count
                and g.pod_sets
                and g.missing == g.pending_count
                and all(
                    pod_classes.plain(pod_classes.of(self.gang.namespace, s.template))
                    for s in g.pod_sets
                )
                for i in groups
            )
            # A scope that cuts across the bundle could not be said of it.
            whole = all(groups <= s or not groups & s or s < groups for s, _, _ in self._scopes)
            if fixed and whole and not any(groups & other for other in found):
                found.append(groups)
        return found

    def finish(
        self,
        value: int,
        drafts: Sequence[_Draft],
        by_name: dict[str, int],
        bundle_of: dict[tuple[tuple[int, int], ...], int],
    ) -> Gang:
        demands = tuple(
            Demand(
                pod_class if isinstance(pod_class, int) else bundle_of[pod_class],
                count,
                tuple(members),
            )
            for pod_class, count, members in self._demands
        )
        scopes = []
        for groups, required, preferred in self._scopes:
            mine = tuple(sorted({d for i in groups for d in self._of_group[i]}))
            pin = self._pin(groups, required)
            bound = (
                self._running_places(groups, self._levels[preferred].place_of)
                if preferred >= 0
                else ()
            )
            if required >= 0 or preferred >= 0:
                scopes.append(Scope(mine, required, preferred, -1 if pin is None else pin, bound))
        base = by_name[self.gang.base_gang] if self.gang.base_gang else -1
        set_level = (drafts[base] if base >= 0 else self).set_level()
        return Gang(
            index=self.index,
            priority=self.gang.priority,
            value=value,
            pending=self.gang.is_pending,
            placeable=not self.refused,
            demands=demands,
            requirements=tuple(self._requirements),
            scopes=tuple(scopes),
            base=base,
            set_level=set_level,
            set_running=self._own_running_places(set_level),
            previous=frozenset(self._node[n] for n in self.gang.previous_nodes if n in self._node),
        )

    def set_level(self) -> int:
        """Where gangs based on this one should be near, -1 for nowhere."""
        everything = frozenset(range(len(self.gang.groups)))
        whole = [(r, p) for groups, r, p in self._scopes if groups == everything]
        return next((r for r, _ in whole if r >= 0), next((p for _, p in whole if p >= 0), -1))

    def _own_running_places(self, level: int) -> tuple[int, ...]:
        if level < 0:
            return ()
        return self._running_places(
            frozenset(range(len(self.gang.groups))), self._levels[level].place_of
        )


def _spread_refusal(drafts: Sequence[_Draft], by_name: dict[str, int]) -> None:
    """A gang whose base cannot be placed cannot be placed either."""
    for draft in drafts:
        if draft.gang.base_gang:
            base = drafts[by_name[draft.gang.base_gang]]
            draft.refused = draft.refused or (base.refused and base.gang.is_pending)
