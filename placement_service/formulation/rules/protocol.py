"""What a rule that joins pods across nodes tells each stage.

A rule counts pods by domain of one level. Every stage asks the rule and none asks what
sort of rule it is; what a rule posts to CP-SAT stands under its name in `cp_sat.rules`.

    formulation   `formulate` in the rule's module makes it from the request; `widen`
    heuristic     `tracked`, `open_domains`, `holds` over the pods counted so far, and how
                  to place pods under it: `closes_for_good`, `is_about_others`, `surely`,
                  `comes_late`, `spreads`, `crowding`, `shares_one_domain`
    bounds        `hardly_binds`
    explanation   `ceiling`: at most so many more pods in each domain
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import ClassIdx, LevelIdx

#: The pods behind one unit of a class: classes, and how many of each.
Bundle = Sequence[tuple[ClassIdx, int]]

#: As good as no ceiling, but small enough to be added up.
NO_CEILING = np.int64(1 << 40)


class Ceiling(NamedTuple):
    """At most so many more pods of a class in each domain, and on nodes in none [D + 1].

    `together` when all pods must share one of the domains.
    """

    by_domain: Ints
    together: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Rule(ABC):
    """A rule over the domains of a level.

    `pods[K, D]` below are the new pods in each domain, by the K weights of `tracked`.
    """

    #: Whether a domain that is closed to a class stays so, however many pods come.
    closes_for_good: ClassVar[bool] = False

    #: Whether it keeps hardly anything out, so that bounds are hardly weaker without it.
    hardly_binds: ClassVar[bool] = False

    level: LevelIdx

    @abstractmethod
    def tracked(self) -> tuple[Ints | Bools, ...]:
        """What has to be counted by domain, as weights over pod classes [C], K of them."""

    @abstractmethod
    def open_domains(self, pods: Ints, pod_class: ClassIdx) -> Bools | None:
        """Where one more pod of the class may go [D + 1], last nodes in no domain; None: all."""

    @abstractmethod
    def widen(self, bundles: Sequence[Bundle]) -> Self:
        """The same rule over more pod classes, a unit of which is several pods."""

    def holds(self, pods: Ints) -> bool:
        """Whether the rule holds, as far as `open_domains` has not seen to it."""
        return True

    def ceiling(
        self, pods: Ints, pod_class: ClassIdx, company: Iterable[ClassIdx]
    ) -> Ceiling | None:
        """A bound on further pods of the class; None where the rule says nothing.

        `company` are the classes of the gang, whose pods may help each other.
        """
        return None

    def is_about_others(self, pod_class: ClassIdx) -> bool:
        """Whether pods of the class close no domain to each other, nor open one."""
        return False

    def surely(self, pods: Ints, pod_class: ClassIdx) -> Ints | None:
        """So many more pods of the class go into each domain, and on nodes in none [D + 1], however
        many of them come elsewhere; None where that is not so simple, or they should not all go
        where there is room.
        """
        if not self.is_about_others(pod_class):
            return None
        opened = self.open_domains(pods, pod_class)
        every = np.full(pods.shape[1] + 1, NO_CEILING)
        return every if opened is None else np.where(opened, every, 0)

    def comes_late(self, pod_class: ClassIdx) -> bool:
        """Whether pods of the class should be placed after others of their gang."""
        return False

    def spreads(self, pod_class: ClassIdx) -> bool:
        """Whether each pod of the class crowds its domain for the next one."""
        return False

    def crowding(self, pods: Ints, pod_class: ClassIdx) -> Ints | None:
        """Domains to avoid, the fullest most [D + 1]; None when they are alike."""
        return None

    def shares_one_domain(self, pods: Ints, pod_class: ClassIdx) -> bool:
        """Whether pods of the class can only go where others of them go."""
        return False


def where_open(domains: Bools | None) -> Ceiling | None:
    """Any number in domains that are open, none elsewhere; None where all are open."""
    return None if domains is None else Ceiling(np.where(domains, NO_CEILING, 0))


def pad(weights: NDArray[Any], bundles: Sequence[Bundle]) -> NDArray[Any]:
    """Weights over more pod classes, zero for those that are new: rules with these weights concern
    no pod of a bundle.
    """
    return np.concatenate([weights, np.zeros(len(bundles), dtype=weights.dtype)])


def total(weights: Ints, bundles: Sequence[Bundle]) -> Ints:
    """Weights over more pod classes: a bundle weighs what its pods do."""
    more = [sum(int(weights[s]) * pods for s, pods in bundle) for bundle in bundles]
    return np.concatenate([weights, np.array(more, dtype=np.int64)])
