"""Where units that wait may come, in plans that matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from placement_service.cp_sat.victims.nodes import node_classes
from placement_service.cp_sat.victims.reach import most_that_come
from placement_service.cp_sat.victims.waiting_parts import parts_of
from placement_service.entities.request import PackingScope, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import GangIdx, LevelIdx
from tests.service.evictions import PREEMPT, new, running
from tests.service.questions import node


def reached(
    question: Snapshot, settled: Sequence[int] = (), *, anywhere: bool = False
) -> list[int]:
    """The units of the only gang that waits, which come last, that fit each node at most."""
    problem = formulate(question, PREEMPT)
    [new] = [g for g in problem.pending if not g.home]
    parts = list(parts_of(problem, new, range(len(problem.request))))
    asked = [new.demands[0].pod_class]
    classes = node_classes(problem, asked, [LevelIdx(part.level) for part in parts])
    fits = most_that_come(
        problem,
        classes,
        asked,
        [new],
        parts,
        [GangIdx(i) for i in settled],
        asked if anywhere else (),
    )
    found = [0] * problem.node_count
    for j, node_class in enumerate(classes):
        for n in node_class.nodes.tolist():
            found[n] = int(fits[0, j])
    return found


NODES = tuple(node(f"{r}{i}", used=8, rack=r) for r in "ab" for i in range(2))
OLD = tuple(running(n.short_name, n.short_name, gpus=8) for n in NODES)


def test_all_nodes_whose_pods_may_go_are_reached() -> None:
    assert reached(Snapshot(NODES, (*OLD, new(2)))) == [1, 1, 1, 1]


def test_a_gang_that_is_settled_keeps_its_node() -> None:
    assert reached(Snapshot(NODES, (*OLD, new(2))), settled=[0]) == [0, 1, 1, 1]


def test_extras_of_a_gang_that_is_settled_may_go() -> None:
    pair = running("pair", "a0", "a1", gpus=8, minimum=1)
    assert reached(Snapshot(NODES, (pair, *OLD[2:], new(2))), settled=[0]) == [1, 1, 1, 1]


def test_a_domain_that_does_not_hold_all_of_a_gang_is_not_reached() -> None:
    assert reached(Snapshot(NODES, (*OLD, new(2, "rack"))), settled=[0]) == [0, 0, 1, 1]


def test_units_that_may_come_anywhere_reach_such_a_domain_too() -> None:
    question = Snapshot(NODES, (*OLD, new(2, "rack")))
    assert reached(question, settled=[0], anywhere=True) == [0, 1, 1, 1]


def test_a_domain_with_room_for_a_part_that_is_not_all_of_a_gang_is_reached() -> None:
    whole = new(3)
    [group] = whole.groups
    rest = replace(group, name="rest", min_replicas=1)
    scopes = (PackingScope("some", ("worker",), "rack"),)
    both = replace(whole, groups=(group, rest), packing_scopes=scopes)
    assert reached(Snapshot(NODES, (*OLD, both))) == [1, 1, 1, 1]
