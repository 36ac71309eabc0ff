"""Fewest moves that free domains, each rule on its smallest cluster."""

from __future__ import annotations

import pytest

from placement import v1
from placement.planning.bounded import Bounded
from placement.planning.planner import Ask, Planner
from placement.planning.repack import Repacking, repack
from placement.planning.steps import in_steps
from tests.planning.clusters import GPU, RACK, gang, node, request, resource_name


def racks(*names: str) -> list[v1.Node]:
    return [node(f"n-{name}", rack=name) for name in names]


def freed(
    nodes: list[v1.Node], gangs: list[v1.PodGang], planner: Planner, count: int = 1
) -> Repacking:
    return repack(request(nodes, gangs), RACK, count, planner=planner)


def test_domains_that_are_free_already_count(planner: Planner) -> None:
    found = freed(racks("r1", "r2"), [gang("a", 0, on=["n-r1"])], planner)
    assert found == Repacking((), ("r2",), Bounded(0, 0))


def test_the_domain_with_fewest_pods_is_freed(planner: Planner) -> None:
    gangs = [gang("three", 0, gpus=2, on=["n-r1"] * 3), gang("one", 0, gpus=2, on=["n-r2"])]
    found = freed(racks("r1", "r2"), gangs, planner)
    assert found.freed == ("r2",)
    assert found.pods == Bounded(1, 1)
    [move] = found.moves
    assert (move.from_node, move.to_node) == ("nodes/n-r2", "nodes/n-r1")


def test_what_is_not_preemptible_stays(planner: Planner) -> None:
    gangs = [
        gang("fixed", 0, gpus=2, on=["n-r1"], fixed=True),
        gang("two", 0, gpus=2, on=["n-r2"] * 2),
    ]
    found = freed(racks("r1", "r2"), gangs, planner)
    assert found.freed == ("r2",)
    assert found.pods == Bounded(2, 2)


def test_gpu_pods_without_a_gang_stay(planner: Planner) -> None:
    nodes = [node("n-r1", rack="r1", used=2), *racks("r2")]
    found = freed(nodes, [gang("two", 0, gpus=2, on=["n-r2"] * 2)], planner)
    assert found.freed == ("r2",)


def test_extras_move_without_their_gang(planner: Planner) -> None:
    gangs = [gang("a", 0, gpus=4, on=["n-r1", "n-r2"], minimum=1)]
    found = freed(racks("r1", "r2"), gangs, planner)
    assert found.pods == Bounded(1, 1)


def test_a_gang_without_extras_moves_whole_even_into_a_domain_that_was_free(
    planner: Planner,
) -> None:
    """Two of three racks free: the halves of "a" go together to r3, which was free."""
    gangs = [gang("a", 0, gpus=4, on=["n-r1", "n-r2"])]
    found = freed(racks("r1", "r2", "r3"), gangs, planner, count=2)
    assert found.freed == ("r1", "r2")
    assert {move.to_node for move in found.moves} == {"nodes/n-r3"}
    assert found.pods.value == 2


def test_where_the_cheapest_domain_cannot_be_emptied_the_next_one_is(planner: Planner) -> None:
    """The pod of 8 GPUs on r1 fits nowhere else; r2's two pods fit on r3."""
    gangs = [
        gang("large", 0, gpus=8, on=["n-r1"]),
        gang("two", 0, gpus=2, on=["n-r2"] * 2),
        gang("three", 0, gpus=1, on=["n-r3"] * 3),
    ]
    found = freed(racks("r1", "r2", "r3"), gangs, planner)
    assert found.freed == ("r2",)
    assert found.pods == Bounded(2, 2)


def test_what_is_impossible_is_no_answer(planner: Planner) -> None:
    found = freed(racks("r1", "r2"), [gang("a", 0, on=["n-r1", "n-r2"])], planner)
    assert found.moves == ()
    assert found.freed == ()


def test_more_domains_than_there_are_is_a_mistake(planner: Planner) -> None:
    with pytest.raises(ValueError, match="there are 1 domains"):
        freed(racks("r1"), [], planner, count=2)


def test_pods_wait_for_the_room_that_others_leave() -> None:
    """ "a" goes where "b" is, and "b" to an empty node: two steps, "b" first."""
    asked = request(racks("r1", "r2", "r3"), [gang("a", 0, on=["n-r1"]), gang("b", 0, on=["n-r2"])])
    plan = v1.Placement()
    for name, target in (("a", "n-r2"), ("b", "n-r3")):
        plan.bindings.add(
            pod=f"namespaces/ml/pods/{name}-r0", node=f"nodes/{target}", gang=resource_name(name)
        )
    moves = in_steps(asked, plan)
    assert moves is not None
    assert [(move.step, move.gang) for move in moves] == [
        (1, resource_name("b")),
        (2, resource_name("a")),
    ]
    plan.bindings[1].node = "nodes/n-r1"
    assert in_steps(asked, plan) is None  # Each waits for the other.


def test_without_time_nothing_is_claimed(ask: Ask) -> None:
    asked = request(
        racks("r1", "r2"), [gang("a", 0, gpus=1, on=["n-r1"]), gang("b", 0, gpus=1, on=["n-r2"])]
    )
    found = repack(asked, RACK, 1, planner=Planner(ask, seconds=0))
    assert found.pods.bound is None
    assert asked.snapshot.nodes[0].requested.extended[GPU] == 1
