"""Parts that are alike are placed together as they would be one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from bench.instances import Instance
from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from placement_service.formulation.gangs.scope_tree import Part
from placement_service.heuristic.one_gang.alike_parts import Run
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.heuristic.one_gang.placer import GangPlacer
from placement_service.heuristic.residual_capacity import ResidualCapacity


class OneByOne(GangPlacer):
    """Sees no two parts alike."""

    def _runs(self, parts: Sequence[Part]) -> Iterator[Run]:
        return iter([Run(None, self.hardest_first(parts))])


@pytest.mark.parametrize(
    "instance",
    [
        Instance("mix", {"blocks": 3, "racks": 6, "gangs": 30, "load": 1.3}),
        Instance("rack_parts", {"blocks": 2, "gangs": 20}),
        Instance("pools", {"blocks": 3, "gangs": 30}),
        Instance("sets", {"load": 0.1, "gangs": 30}),
    ],
    ids=str,
)
def test_parts_together_lie_as_they_do_one_by_one(instance: Instance) -> None:
    problem = formulate(instance.snapshot(), Policy())
    topology = Topology(problem)
    together, apart = ResidualCapacity(problem), ResidualCapacity(problem)
    placed = 0
    for gang in problem.pending:
        marks = together.mark(), apart.mark()
        mine, other = GangPlacer(topology, together, gang), OneByOne(topology, apart, gang)
        fits = mine.run()
        assert fits == other.run()
        if fits:
            assert mine.units() == other.units()
            placed += len(gang.scopes) > 1
        else:
            together.undo(marks[0])
            apart.undo(marks[1])
    assert placed
