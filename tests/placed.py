"""What the engine makes of a question, and what a test may expect of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from placement_service.entities.request import (
    Binding,
    Node,
    Policy,
    Snapshot,
)
from placement_service.entities.solution import Solution, TierName
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.score import Score
from placement_service.search.engine import search
from placement_service.search.parameters import DEFAULTS, SearchParameters
from tests.drawing import level_key
from tests.waiting import LONG


@dataclass(frozen=True, slots=True)
class Placed:
    """What became of the gangs of a scenario, by the short names of gangs, groups and nodes.

    `cluster` are the nodes of the scenario.
    """

    cluster: tuple[Node, ...]
    solution: Solution
    bindings: tuple[Binding, ...]
    score: Score

    @property
    def placed(self) -> set[str]:
        return {_short(gang.gang) for gang in self.score.gangs if gang.placed}

    def new(self, gang: str) -> int:
        """How many pods of a gang the plan binds."""
        return sum(_short(b.gang) == gang for b in self.bindings)

    def nodes(self, gang: str, group: str = "") -> dict[str, int]:
        """How many new pods of a gang, or one group of it, each node gets."""
        return dict(
            Counter(
                _short(b.node)
                for b in self.bindings
                if _short(b.gang) == gang and group in ("", b.group)
            )
        )

    def domains(self, level: str, *gangs: str) -> set[str | None]:
        """Domains of a level under the new pods of these gangs."""
        labels = {node.short_name: node.labels for node in self.cluster}
        return {labels[n].get(level_key(level)) for gang in gangs for n in self.nodes(gang)}

    def expect(
        self,
        *,
        placed: Iterable[str] | None = None,
        new: Mapping[str, int] | None = None,
        nodes: Mapping[str, Mapping[str, int]] | None = None,
        admitted: float | None = None,
        waiting: int | None = None,
        extra: int | None = None,
        topology: float | None = None,
        disruption: int | None = None,
        fragmentation: int | None = None,
        proven: bool = True,
    ) -> Placed:
        """Assert what is said and nothing else; that it is proven unless told otherwise.

        `placed` are all placed gangs. `admitted` is in GPUs, `topology` in domains.
        """
        if placed is not None:
            assert self.placed == set(placed)
        for gang, count in (new or {}).items():
            assert self.new(gang) == count, gang
        for gang, where in (nodes or {}).items():
            assert self.nodes(gang) == where, gang
        for tier, want in (
            (TierName.ADMITTED, admitted),
            (TierName.WAITING, waiting),
            (TierName.EXTRA, extra),
            (TierName.TOPOLOGY, topology),
            (TierName.DISRUPTION, disruption),
            (TierName.FRAGMENTATION, fragmentation),
        ):
            if want is not None:
                assert self.score.value(tier) == want, tier
        if proven:
            assert self.solution.proven, self.solution.tiers
        return self


def solve(
    snapshot: Snapshot,
    policy: Policy,
    *,
    seconds: float = LONG,
    parameters: SearchParameters = DEFAULTS,
) -> list[Solution]:
    """Every answer on the way, the first, greedy one in front and the final one last."""
    deadline = time.monotonic() + seconds
    problem = formulate(snapshot, policy)
    first = first_answer(problem, deadline=deadline)
    answers = [first]
    final = search(problem, first, deadline=deadline, report=answers.append, parameters=parameters)
    answers.append(final)
    return answers


def _short(name: str) -> str:
    return name.rpartition("/")[2]
