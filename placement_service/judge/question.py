"""A request as the judge reads plans against it: pods, sets, groups and scopes in rows.

Read once for all plans of a request. It shares no code with the engine, and holds only what the
request says: the set of each pod, the group of each set, and what runs where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from placement_service.entities.node import Node
from placement_service.entities.nodes import Ints, Nodes
from placement_service.entities.request import (
    PackingScope,
    PodGang,
    PodGroup,
    PodSet,
    Policy,
    Snapshot,
)
from placement_service.entities.templates import numbered
from placement_service.judge.domains import Domains
from placement_service.judge.gang_value import gang_values


class GroupsOfScopes(NamedTuple):
    """Each scope with each of its groups, as rows."""

    scope: Ints
    group: Ints


class GangScope(NamedTuple):
    """A packing scope of a gang, by the gang's place in the snapshot."""

    gang: int
    scope: PackingScope


class NodesByName(Mapping[str, Node]):
    """The nodes of a snapshot by name, as values that are made when they are asked for."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._made: dict[str, Node] = {}

    def __getitem__(self, name: str) -> Node:
        node = self._made.get(name)
        if node is None:
            node = self._made[name] = self._nodes[self._nodes.row_of[name]]
        return node

    def __contains__(self, name: object) -> bool:
        return name in self._nodes.row_of

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes.names)

    def __len__(self) -> int:
        return len(self._nodes)


class Running(NamedTuple):
    """Pods of gangs that run: `group[Q]` and `node[Q]`, rows; nodes that are gone come after."""

    names: list[str]
    group: Ints
    node: Ints


class Question:
    """Rows of pending pods, of pod sets, groups and scopes, in the order of the snapshot."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.nodes = snapshot.columns
        self.node = NodesByName(self.nodes)
        self.domains = Domains(self.nodes)
        groups = [(g, group) for g, gang in enumerate(snapshot.gangs) for group in gang.groups]
        sets = [(r, s) for r, (_, group) in enumerate(groups) for s in group.pod_sets]
        self.groups: tuple[PodGroup, ...] = tuple(group for _, group in groups)
        self.gang_of_group = _ints(g for g, _ in groups)
        self.sets: tuple[PodSet, ...] = tuple(s for _, s in sets)
        self.group_of_set = _ints(r for r, _ in sets)
        self.templates, numbers = numbered(pod_set.template for pod_set in self.sets)
        self.template_of_set = _ints(iter(numbers))
        self.set_of_pod = np.repeat(np.arange(len(sets)), [len(s.pods) for s in self.sets])
        self.pods = [pod.name for s in self.sets for pod in s.pods]
        self.uids = [pod.uid for s in self.sets for pod in s.pods]
        self.row_of = {name: row for row, name in enumerate(self.pods)}

    @cached_property
    def running_counts(self) -> list[int]:
        """How many pods of each group run."""
        return [group.running_count for group in self.groups]

    def gang_of_set(self, number: int) -> PodGang:
        """The gang of a pod set, by the set's row."""
        return self.snapshot.gangs[int(self.gang_of_group[self.group_of_set[number]])]

    @cached_property
    def values(self) -> Mapping[str, int]:
        """What admitting each gang is worth, by its name."""
        return gang_values(self.snapshot, self.policy)

    @cached_property
    def scopes(self) -> tuple[GangScope, ...]:
        """All packing scopes, in the order of the snapshot."""
        return tuple(
            GangScope(g, scope)
            for g, gang in enumerate(self.snapshot.gangs)
            for scope in gang.packing_scopes
        )

    @cached_property
    def groups_of_scopes(self) -> GroupsOfScopes:
        first = np.cumsum([0, *(len(gang.groups) for gang in self.snapshot.gangs)]).tolist()
        # In the order of the groups, and each once.
        rows = [{group.name: r for r, group in enumerate(g.groups)} for g in self.snapshot.gangs]
        pairs = [
            (s, first[g] + r)
            for s, (g, scope) in enumerate(self.scopes)
            for r in sorted({rows[g][name] for name in scope.groups if name in rows[g]})
        ]
        return GroupsOfScopes(_ints(s for s, _ in pairs), _ints(r for _, r in pairs))

    @cached_property
    def running(self) -> Running:
        """Running pods of all groups."""
        running = [(r, pod) for r, group in enumerate(self.groups) for pod in group.running_pods]
        rows = dict(self.nodes.row_of) if running else {}
        return Running(
            [pod.name for _, pod in running],
            _ints(r for r, _ in running),
            _ints(rows.setdefault(pod.node, len(rows)) for _, pod in running),
        )

    @cached_property
    def gone_nodes(self) -> tuple[str, ...]:
        """Names of the nodes under running pods that the snapshot does not have."""
        known = self.nodes.row_of
        every = (pod.node for group in self.groups for pod in group.running_pods)
        return tuple(dict.fromkeys(name for name in every if name not in known))

    def node_names(self, rows: Ints) -> list[str]:
        """Names of nodes by their rows, also of those that are gone."""
        names = (*self.nodes.names, *self.gone_nodes) if len(rows) else ()
        return [names[row] for row in rows.tolist()]


def _ints(values: Iterator[int]) -> Ints:
    return np.fromiter(chain(values), dtype=np.int64)
