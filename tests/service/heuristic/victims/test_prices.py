"""What it costs to clear nodes, each alone and those of a domain together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placement_service.entities.request import Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.formulation.plan import home_plan
from placement_service.formulation.prepare import prepare
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.heuristic.victims.prices import A_POD, AN_EXTRA, Prices
from tests.service.evictions import PREEMPT, running
from tests.service.questions import gang, node


@pytest.mark.parametrize(("minimum", "only_extras"), [(1, True), (2, False)])
def test_a_gang_gives_up_its_extras_once_in_a_domain(minimum: int, only_extras: bool) -> None:
    """Two of three nodes are cleared, each of which alone would cost an extra."""
    nodes = tuple(node(f"n{i}", used=8) for i in range(3))
    old = running("old", "n0", "n1", "n2", gpus=8, minimum=minimum)
    waits = replace(gang("waits", pods=2, gpus=8), priority=100)
    snapshot = Snapshot(nodes, (old, waits))
    problem = formulate(snapshot, PREEMPT, prepare(snapshot, PREEMPT))
    home = home_plan(problem)
    residual = ResidualCapacity(problem)
    residual.take_plan(home)
    [new] = [g for g in problem.pending if not g.home]
    prices = Prices(problem, home).of_nodes(residual, new, new.demands[0], -1)
    assert prices.each.tolist() == pytest.approx([AN_EXTRA + A_POD] * 3)
    everywhere, none_free = np.zeros(3, dtype=np.int64), np.zeros(1, dtype=np.int64)
    [cost] = prices.by_domain(everywhere, none_free, 2)
    assert (cost < 1) == only_extras
