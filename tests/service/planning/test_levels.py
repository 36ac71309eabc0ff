"""Which labels of nodes are topology levels, and which of them lie in each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.request import HOSTNAME, PackingScope, Snapshot
from placement_service.planning.levels import coarser, finer, levels_of
from tests.service.questions import gang, node

ZONE = "topology.kubernetes.io/zone"
BLOCK, RACK, MODEL = "a.example/block", "a.example/rack", "a.example/model"
POWER, OTHER = "topology.power/row", "b.example/rack"

#: Two zones of two blocks of two racks of two hosts; all of one model.
NODES = tuple(
    replace(
        node(f"n{i}"),
        labels={
            HOSTNAME: f"n{i}", ZONE: f"z{i // 8}", BLOCK: f"b{i // 4}", RACK: f"r{i // 2}",
            MODEL: "m", POWER: f"p{i % 2}", OTHER: f"o{i // 2}", "plain": f"{i // 4}",
            "beta.kubernetes.io/arch": "arm64",
        },
    )
    for i in range(16)
)  # fmt: skip


def cluster(required: str = "", preferred: str = "") -> Snapshot:
    scopes = (PackingScope("g", ("worker",), required, preferred),)
    return Snapshot(NODES, (replace(gang("g", pods=1, gpus=1), packing_scopes=scopes),))


@pytest.mark.parametrize(
    ("snapshot", "named", "akin", "want"),
    [
        pytest.param(cluster(), (), False, (ZONE, HOSTNAME), id="those that everybody knows"),
        pytest.param(cluster(), (), True, (ZONE, POWER, HOSTNAME), id="what is called topology"),
        pytest.param(
            cluster(RACK),
            (),
            True,
            (MODEL, ZONE, POWER, BLOCK, RACK, HOSTNAME),
            id="of the prefix of a level that a gang requires",
        ),
        pytest.param(
            cluster("", BLOCK),
            (),
            False,
            (ZONE, BLOCK, HOSTNAME),
            id="a level that a gang prefers",
        ),
        pytest.param(
            cluster(), (RACK, BLOCK, "gone"), False, (ZONE, BLOCK, RACK, HOSTNAME), id="named"
        ),
        pytest.param(cluster("plain"), (), True, (ZONE, POWER, "plain", HOSTNAME), id="no prefix"),
        pytest.param(
            cluster("beta.kubernetes.io/x"), (), True, (ZONE, POWER, HOSTNAME), id="Kubernetes' own"
        ),
    ],
)
def test_levels_are_what_is_called_or_used_as_such_coarse_ones_first(
    snapshot: Snapshot, named: tuple[str, ...], akin: bool, want: tuple[str, ...]
) -> None:
    assert levels_of(snapshot, named, akin=akin) == want


def test_hosts_come_last_also_where_racks_are_as_many() -> None:
    alone = (replace(NODES[0], labels={HOSTNAME: "n0", RACK: "r0"}),)
    assert levels_of(Snapshot(alone, ()), [RACK]) == (RACK, HOSTNAME)


def test_levels_above_and_below_are_those_that_lie_in_each_other() -> None:
    """Rows of power cross blocks; racks of another name are in the same blocks."""
    snapshot = cluster()
    levels = levels_of(snapshot, [ZONE, POWER, BLOCK, RACK, OTHER], akin=False)
    assert levels == (ZONE, POWER, BLOCK, RACK, OTHER, HOSTNAME)
    assert coarser(snapshot, RACK, levels) == [BLOCK, ZONE]
    assert coarser(snapshot, HOSTNAME, levels) == [OTHER, RACK, BLOCK, POWER, ZONE]
    assert finer(snapshot, BLOCK, levels) == [RACK, OTHER, HOSTNAME]
    assert finer(snapshot, POWER, levels) == [HOSTNAME]
    assert coarser(snapshot, ZONE, levels) == []


def test_a_level_that_no_node_carries_may_be_any() -> None:
    levels = levels_of(cluster(), [ZONE, RACK, POWER], akin=False)
    assert coarser(cluster(), "gone", levels) == [RACK, POWER, ZONE]
    assert finer(cluster(), "gone", levels) == []
