"""Which variables of the victim model belong to one domain."""

from __future__ import annotations

from dataclasses import replace

from placement_service.cp_sat.victims.model import VictimModel
from placement_service.cp_sat.victims.regions import Regions
from placement_service.entities.request import PackingScope, Snapshot
from placement_service.formulation.formulate import formulate
from tests.service.evictions import PREEMPT, running, urgent
from tests.service.questions import node


def test_what_lies_in_one_rack_belongs_to_it() -> None:
    """What comes, what stays, and whether a gang stays or a part is there; a gang with pods in both
    racks belongs to none.
    """
    racks = {"a0": "a", "a1": "a", "b0": "b", "b1": "b"}
    nodes = tuple(node(name, used=8, rack=rack) for name, rack in racks.items())
    inside = running("inside", "a0", "a0", gpus=4, minimum=1)
    across = running("across", "a1", "b1", gpus=8, minimum=1)
    new = replace(urgent(), packing_scopes=(PackingScope("s", ("worker",), "rack"),))
    model = VictimModel(formulate(Snapshot(nodes, (inside, across, new)), PREEMPT))
    of = Regions(model).of_variables(model.size)
    first, second, third = (model.placed[g.index] for g in model.problem.gangs)
    assert (of[first], of[second], of[third]) == (0, -1, -1)
    rack_of = model.problem.levels[0].domain
    for (_, j), v in model.load.items():
        assert of[v] == rack_of[model.classes[j].nodes[0]]
    for (g, j, _), (v, _) in model.kept.items():
        if v != second:
            assert of[v] == rack_of[model.classes[j].nodes[0]], g
    assert [of[v] for (_, d), v in model.here.items()] == [d for _, d in model.here]


def test_without_parts_nothing_belongs_anywhere() -> None:
    nodes = (node("n0", used=8), node("n1", used=8))
    model = VictimModel(formulate(Snapshot(nodes, (running("x", "n0", gpus=8), urgent())), PREEMPT))
    assert set(Regions(model).of_variables(model.size).tolist()) == {-1}
