"""What neighbourhoods set free, and for which goal."""

from __future__ import annotations

import time
from typing import Any

from placement_service.cp_sat.solving import Answer
from placement_service.entities.request import Policy
from placement_service.entities.solution import TierName
from placement_service.formulation.arrays import Ints
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.formulation.presolve.implied_room import without_implied_room
from placement_service.formulation.problem import Gang
from placement_service.search.incumbent import State
from placement_service.search.neighbourhoods.lns import Improver
from tests.scenario import Scenario


class InVain(Improver):
    """Settles nothing; notes the tier of each goal it looks at, and how many nodes are free."""

    def __init__(self, scenario: Scenario) -> None:
        problem = without_implied_room(formulate(scenario.snapshot(), Policy()))
        start = to_solution(problem, {})
        super().__init__(State(problem, start, time.monotonic() + 60, lambda _: None))
        self.tiers: list[TierName] = []
        self.free: list[int] = []

    def _nodes(self, target: Gang, at: int) -> Ints:
        nodes = super()._nodes(target, at)
        self.free.append(len(nodes))
        return nodes

    def _settle(self, model: Any, fixed: Any, at: int, **_: Any) -> Answer:
        self.tiers.append(self.state.goals[at].tier)
        return Answer(None, None, None, proven=False)


def deep(pack: str, prefer: str = "", *, room: int = 8) -> Scenario:
    """Three blocks of three racks of two nodes, and gangs that need two nodes each."""
    drawing = " | ".join(
        f"b{b}/b{b}r{r}: b{b}r{r}x={room} b{b}r{r}y={room}" for b in range(3) for r in range(3)
    )
    scenario = Scenario(drawing)
    for k in range(12):
        scenario = scenario.gang(f"g{k:02}", pods=2, gpus=8, pack=pack, prefer=prefer)
    return scenario


def test_where_the_broadest_level_is_never_settled_a_narrower_one_is_tried() -> None:
    improver = InVain(deep(pack="block", prefer="rack"))
    for _ in range(4):
        assert improver.round()
    assert improver.free == [12, 12, 4, 4]


def test_where_only_one_level_is_named_that_stays() -> None:
    improver = InVain(deep(pack="block"))
    for _ in range(4):
        assert improver.round()
    assert improver.free == [12] * 4


def test_later_goals_have_their_turn_while_who_is_admitted_is_open_in_vain() -> None:
    improver = InVain(deep(pack="rack"))
    for _ in range(30):
        improver.round()
    assert improver.tiers[:4] == [TierName.ADMITTED] * 4
    assert TierName.WAITING in improver.tiers


def test_where_every_node_has_room_for_everybody_no_room_is_worth_gathering() -> None:
    improver = InVain(deep(pack="block", room=200))
    assert not improver.problem.columns
    assert improver.round()
    assert improver.free == [12]
