"""What a plan leaves free."""

from __future__ import annotations

from placement import v1
from placement.planning.room import room_after
from tests.planning.clusters import HOST, RACK, gang, node, request


def test_bound_evicted_moved_and_closed_count() -> None:
    nodes = [
        node("a", rack="r1"),
        node("b", rack="r1"),
        node("c", rack="r2"),
        node("d", rack="r3", closed=True),
    ]
    asked = request(
        nodes, [gang("waits", 1), gang("goes", 0, on=["a"]), gang("moves", 0, on=["b"])]
    )
    assert room_after(asked, v1.Placement(), [RACK]).free == 8
    moved = v1.Eviction(
        pod="namespaces/ml/pods/moves-r0",
        node="nodes/b",
        to_node="nodes/a",
        kind=v1.EvictionKind.EVICTION_KIND_MOVE,
    )
    plan = v1.Placement(
        bindings=[
            v1.Binding(
                pod="namespaces/ml/pods/waits-0",
                node="nodes/c",
                gang="namespaces/ml/podgangs/waits",
            )
        ],
        evictions=[v1.Eviction(pod="namespaces/ml/pods/goes-r0", node="nodes/a"), moved],
    )
    room = room_after(asked, plan, [RACK])
    assert (room.gpus, room.free) == (32, 8)
    assert room.asked == {"namespaces/ml/podgangs/waits": 8}
    # Only node b is empty and open.
    assert (room.domains[RACK], room.domains[HOST]) == (0, 1)
    assert room_after(asked, v1.Placement(), [RACK]).domains[RACK] == 1
