"""The scopes of a gang as a tree of parts, when they nest.

Scopes that overlap without nesting, or nest absurdly deep, have no tree; the
engine then keeps to methods that read the flat list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from placement_service.formulation.problem import Gang, Problem, Scope

#: Scopes within scopes that a tree may hold; a walk through it recurses as often.
MAX_DEPTH = 32


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
        """The required level of the scope, -1 for none."""
        return -1 if self.scope is None else self.scope.required

    @property
    def preferred(self) -> int:
        """The preferred level of the scope, -1 for none."""
        return -1 if self.scope is None else self.scope.preferred

    @cached_property
    def demands(self) -> tuple[int, ...]:
        """All demands, those of children included."""
        return self.loose + tuple(d for c in self.children for d in c.demands)

    def bound_by(self, holds: Callable[[int], bool]) -> Iterator[Part]:
        """The outermost parts whose required level satisfies a predicate."""
        if self.required >= 0 and holds(self.required):
            yield self
            return
        for child in self.children:
            yield from child.bound_by(holds)


def tree_of(problem: Problem, gang: Gang) -> Part | None:
    """The tree of a gang's scopes, or None when they make none."""
    scopes = sorted(
        (s for s in gang.scopes if s.demands),
        key=lambda s: (-len(s.demands), problem.levels[max(s.required, s.preferred)].count),
    )
    # The innermost scope so far around each demand, and each scope's own; -1 is the root.
    around = [-1] * len(gang.demands)
    parents: list[int] = []
    depths: list[int] = []
    for i, scope in enumerate(scopes):
        parent = around[scope.demands[0]]
        depth = depths[parent] + 1 if parent >= 0 else 1
        # Larger scopes come first: one that reaches beyond the scopes around it cuts them.
        if depth > MAX_DEPTH or any(around[d] != parent for d in scope.demands):
            return None
        parents.append(parent)
        depths.append(depth)
        for d in scope.demands:
            around[d] = i
    loose: list[list[int]] = [[] for _ in range(len(scopes) + 1)]
    for d, i in enumerate(around):
        loose[i].append(d)
    children: list[list[Part]] = [[] for _ in range(len(scopes) + 1)]
    for i in range(len(scopes) - 1, -1, -1):
        part = Part(scopes[i], tuple(loose[i]), tuple(reversed(children[i])))
        children[parents[i]].append(part)
    return Part(None, tuple(loose[-1]), tuple(reversed(children[-1])))
