"""The scopes of a gang as a tree of parts, when they nest.

Scopes that overlap without nesting have no tree; the engine then keeps to
methods that read the flat list.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from placement_service.problem import Gang, Problem, Scope


@dataclass(frozen=True, eq=False)
class Part:
    """Demands and smaller parts under one scope.

    `scope` is None for the root. `loose` are the demands that belong to no
    child. A demand belongs to exactly one part.
    """

    scope: Scope | None
    loose: tuple[int, ...]
    children: tuple[Part, ...]

    @property
    def required(self) -> int:
        return -1 if self.scope is None else self.scope.required

    @property
    def preferred(self) -> int:
        return -1 if self.scope is None else self.scope.preferred

    @cached_property
    def demands(self) -> tuple[int, ...]:
        """All demands, those of children included."""
        return self.loose + tuple(d for c in self.children for d in c.demands)


def tree_of(problem: Problem, gang: Gang) -> Part | None:
    """The tree of a gang's scopes, or None when they do not nest."""
    scopes = sorted(
        (s for s in gang.scopes if s.demands),
        key=lambda s: (-len(s.demands), problem.levels[max(s.required, s.preferred)].count),
    )
    sets = [frozenset(s.demands) for s in scopes]
    for i, a in enumerate(sets):
        for b in sets[i + 1 :]:
            if a & b and not b <= a:
                return None

    def grow(scope: Scope | None, demands: frozenset[int], rest: list[int]) -> Part:
        children = []
        covered: frozenset[int] = frozenset()
        while rest:
            first = rest[0]
            below = [i for i in rest[1:] if sets[i] <= sets[first]]
            rest = [i for i in rest[1:] if i not in below]
            children.append(grow(scopes[first], sets[first], below))
            covered |= sets[first]
        return Part(scope, tuple(sorted(demands - covered)), tuple(children))

    everything = frozenset(range(len(gang.demands)))
    return grow(None, everything, list(range(len(scopes))))
