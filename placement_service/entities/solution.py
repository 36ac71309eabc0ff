"""The answer of the engine: counts on nodes, tiers with bounds, how the search ended. All are
indices into the snapshot, in its order; no object of the solver is part of it. Pods of one pod set
are interchangeable, so the engine only counts them, and `naming.pod_assignment` names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

#: Two values of a tier that are this close are equal: half of the least difference of values.
SAME = 5e-7


class TierName(Enum):
    """The tiers of the objective, in order of importance."""

    ADMITTED = "admitted"
    WAITING = "waiting"
    EXTRA = "extra"
    DISRUPTION = "disruption"
    TOPOLOGY = "topology"
    FRAGMENTATION = "fragmentation"

    @property
    def minimize(self) -> bool:
        """Whether less is better."""
        return self not in (TierName.ADMITTED, TierName.WAITING, TierName.EXTRA)

    @property
    def provable(self) -> bool:
        """Whether the answer claims a bound for it."""
        return self is not TierName.FRAGMENTATION


class Limit(Enum):
    """What ended the search before a proof."""

    NONE = "none"
    TIME = "time"
    EFFORT = "effort"
    SOLVER_LOST = "solver lost"


@dataclass(frozen=True, slots=True)
class Tier:
    """`bound` None: nothing is proven."""

    name: TierName
    value: float
    bound: float | None

    @property
    def proven(self) -> bool:
        return self.bound is not None and abs(self.bound - self.value) < SAME

    @property
    def gap(self) -> float | None:
        """Relative gap |bound - value| / max(1, |value|), or None."""
        if self.bound is None:
            return None
        if self.proven:
            return 0.0
        return abs(self.bound - self.value) / max(1.0, abs(self.value))


class Assignment(NamedTuple):
    """`pods` of one pod set on one node; all indices into the snapshot."""

    gang: int
    group: int
    pod_set: int
    node: int
    pods: int


class FewestDomains(NamedTuple):
    """The fewest domains of a gang, by its place in the snapshot."""

    gang: int
    domains: int


@dataclass(frozen=True, slots=True)
class Solution:
    """A complete answer.

    `assignments` are sorted and hold new pods only. `fewest_domains` maps a
    gang to the fewest domains that any placement of it alone on the snapshot
    uses at its preferred levels; a gang is absent when that is not known.
    `final` is true when no search would find anything better.
    """

    assignments: tuple[Assignment, ...]
    tiers: tuple[Tier, ...]
    fewest_domains: tuple[FewestDomains, ...] = ()
    limit: Limit = Limit.NONE
    phase: str = "greedy"
    final: bool = False

    @property
    def proven(self) -> bool:
        """Whether every tier that can be proven is proven."""
        return all(t.proven for t in self.tiers if t.name.provable)

    @property
    def gap(self) -> float | None:
        """The gap of the first tier that could be proven and is not, else 0."""
        return next((t.gap for t in self.tiers if t.name.provable and not t.proven), 0.0)
