"""Packing scopes of a gang: groups that share a domain, of a required or a preferred level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from placement_service.entities.request import PodGang
from placement_service.formulation.arrays import Ints
from placement_service.formulation.indices import NO_DOMAIN, NO_LEVEL, DomainIdx, LevelIdx
from placement_service.formulation.levels import Levels
from placement_service.formulation.problem import Scope


class ScopeDraft(NamedTuple):
    """A packing scope over groups of the gang, by their indices."""

    groups: frozenset[int]
    required: LevelIdx
    preferred: LevelIdx


def set_level(base: PodGang) -> str:
    """The level at which gangs based on this one should be near it, "" for none: that of a scope
    that covers it whole, required before preferred.
    """
    every = {group.name for group in base.groups}
    whole = [scope for scope in base.packing_scopes if every <= set(scope.groups)]
    levels = (*(s.required_level for s in whole), *(s.preferred_level for s in whole))
    return next(filter(None, levels), "")


class PackingScopes:
    """The scopes of one gang, and where its running pods hold them to.

    `node` finds the index of a node by its name, `gone` a place of its own for each node that is
    not in the snapshot.
    """

    def __init__(
        self, gang: PodGang, levels: Levels, node: Mapping[str, int], gone: Mapping[str, int]
    ) -> None:
        self._gang = gang
        self._levels = levels
        self._node = node
        self._gone = gone
        self._running = {i: pods for i, g in enumerate(gang.groups) if (pods := g.running_pods)}
        self._every_group = frozenset(range(len(gang.groups)))
        group = {g.name: i for i, g in enumerate(gang.groups)}
        self.drafts = [
            ScopeDraft(
                frozenset(group[name] for name in scope.groups),
                levels.index(scope.required_level) if scope.required_level else NO_LEVEL,
                levels.index(scope.preferred_level) if scope.preferred_level else NO_LEVEL,
            )
            for scope in gang.packing_scopes
        ]

    @property
    def are_broken(self) -> bool:
        """Whether running pods of some scope are not in one domain of its required level."""
        return any(self._pin(s.groups, s.required) is None for s in self.drafts)

    @property
    def on_one_host(self) -> set[frozenset[int]]:
        """The groups of each scope that requires one host."""
        return {
            s.groups for s in self.drafts if s.required >= 0 and self._levels[s.required].is_host
        }

    @property
    def set_level(self) -> LevelIdx:
        """As `set_level` of the gang, -1 for none."""
        level = set_level(self._gang)
        return self._levels.index(level) if level else NO_LEVEL

    def over(self, demands_of: Mapping[int, Sequence[int]]) -> Iterator[Scope]:
        """The scopes that name a level, over the demands of each group."""
        for groups, required, preferred in self.drafts:
            if required < 0 and preferred < 0:
                continue
            demands = tuple(sorted({d for i in groups for d in demands_of[i]}))
            pin = self._pin(groups, required)
            running = (
                self._places(groups, self._levels[preferred].place_of) if preferred >= 0 else ()
            )
            yield Scope(demands, required, preferred, NO_DOMAIN if pin is None else pin, running)

    def running_places(self, level: LevelIdx) -> tuple[int, ...]:
        """Places of all running pods of the gang at a level, sorted; none for NO_LEVEL."""
        return self._places(self._every_group, self._levels[level].place_of) if level >= 0 else ()

    def _places(self, groups: frozenset[int], places: Ints) -> tuple[int, ...]:
        """Places of the running pods of some groups, as in `Scope.running`."""
        found: set[int] = set()
        for i in groups & self._running.keys():
            for pod in self._running[i]:
                node = self._node.get(pod.node)
                found.add(self._gone[pod.node] if node is None else int(places[node]))
        return tuple(sorted(found))

    def _pin(self, groups: frozenset[int], level: LevelIdx) -> DomainIdx | None:
        """The domain that running pods hold a scope to, NO_DOMAIN for none, None when broken."""
        if level < 0:
            return NO_DOMAIN
        places = self._places(groups, self._levels[level].domain)
        if not places:
            return NO_DOMAIN
        return DomainIdx(places[0]) if len(places) == 1 and places[0] >= 0 else None
