"""Plans are named in time that grows with what they say, however many gangs may move."""

from __future__ import annotations

import time

from placement_service.entities.request import Snapshot
from placement_service.formulation.named_plan import PlanNames
from placement_service.formulation.prepare import prepare
from tests.service.evictions import REPACK, running, urgent
from tests.service.questions import node

#: Gangs that run, each on a node of its own beside an empty one.
MANY = 4_000
#: CPU seconds for naming them: asking each gang about all others takes ten times as long.
ENOUGH = 2.0


def test_the_moves_of_many_gangs_are_named_in_little_time() -> None:
    nodes = [node(f"n{i}", used=0 if i % 2 else 4) for i in range(2 * MANY)]
    gangs = [running(f"old{i}", f"n{2 * i}") for i in range(MANY)]
    snapshot = Snapshot(tuple(nodes), (*gangs, urgent()))
    prepared = prepare(snapshot, REPACK)
    names = PlanNames(snapshot, REPACK, prepared)
    moved = prepared.homes[7]
    plan = [h if h is not moved else h._replace(node=h.node + 1) for h in prepared.homes]
    begin = time.process_time()
    (one,) = names.plan(plan).evictions
    assert time.process_time() - begin < ENOUGH
    assert (one.node, one.to_node) == ("nodes/n14", "nodes/n15")
