"""What counting says of domains: the numbers, the domain, and what is short there."""

from __future__ import annotations

from typing import Any

import pytest

from placement_service.entities.placement import ReasonCode
from tests.scenario import Group, Scenario, near
from tests.service.explain.asking import only, why

Code = ReasonCode

APART = (near("host", group="w"),)
FROM_EACH_OTHER = (near("host", app="p"),)


@pytest.mark.parametrize(
    ("drawing", "group", "want_code", "want"),
    [
        pytest.param(
            "r1: y1=8 y2=8 | r2: x1=2/8 x2=4/8",
            Group("w", pods=1, gpus=8, on=("x1",)),
            Code.PINNED_DOMAIN_TOO_SMALL,
            "rack r2, where pods of the gang run, has room for 0 of 1 pod of 8 nvidia.com/gpu; "
            "the most free on one node is 4 nvidia.com/gpu, on x2 (required level rack).",
            id="a node of the other rack would do",
        ),
        pytest.param(
            "r1: x1=2/8 x2=6/8 | r2: y1=8 y2=8",
            Group("w", pods=3, gpus=4, on=("x1",)),
            Code.PINNED_DOMAIN_TOO_SMALL,
            "rack r1, where pods of the gang run, has room for 1 of 3 pods of 4 nvidia.com/gpu "
            "(required level rack).",
            id="the other rack has more",
        ),
        pytest.param(
            "r1: y1=8 y2=8 y3=8 | r2: x1=8 x2=8",
            Group("w", pods=3, gpus=1, away=APART, on=("x1",)),
            Code.POD_RULES,
            "rack r2, where pods of the gang run, has room for 2 of 3 pods of 1 nvidia.com/gpu "
            "under anti-affinity over kubernetes.io/hostname; resources alone would do in rack r2 "
            "(required level rack).",
            id="a rule between pods",
        ),
        pytest.param(
            "r1: y1=8 | r2: x1=8 x2=8",
            Group("w", pods=3, gpus=1, away=APART),
            Code.POD_RULES,
            "rack r2 has room for 2 of 3 pods of 1 nvidia.com/gpu under anti-affinity over "
            "kubernetes.io/hostname; resources alone would do in rack r1; no other rack has more "
            "(required level rack).",
            id="resources alone do elsewhere",
        ),
        pytest.param(
            "r1: y1=6 y2=6 y3=6 | r2: x1=8 | r3: z1=6",
            Group("w", pods=2, gpus=16),
            Code.REQUIRED_DOMAIN_TOO_SMALL,
            "rack r2 has room for 0 of 2 pods of 16 nvidia.com/gpu; the most free on one node is "
            "8 nvidia.com/gpu, on x1; no other rack has more (required level rack).",
            id="the rack of the largest node",
        ),
    ],
)
def test_a_rack_without_room_is_told_with_what_is_short_there(
    drawing: str, group: Group, want_code: Code, want: str
) -> None:
    reason = only(Scenario(drawing).gang("a", group, pack="rack"))
    assert (reason.code, reason.message) == (want_code, want)


def test_a_pod_that_is_short_of_several_resources_is_told_of_its_gpus() -> None:
    group = Group("w", pods=1, gpus=16, cpus=100)
    reason = only(Scenario("x1=8 x2=4").gang("a", group))
    assert reason.message == (
        "the cluster has room for 0 of 1 pod of 16 nvidia.com/gpu; "
        "the most free on one node is 8 nvidia.com/gpu, on x1."
    )


def test_a_scope_is_said_to_fit_by_itself_only_where_it_does() -> None:
    """Three pods fit no rack; two do, and what is about three says nothing of them."""
    scenario = Scenario("b1/r1: x1=8 x2=8 | b1/r2: y1=8 y2=8")
    two, three = (Group(f"w{n}", pods=n, gpus=8, pack="rack") for n in (2, 3))
    alone = only(
        scenario.node("y2", cordoned=True).gang("a", two, Group("v", pods=2, gpus=8), pack="block")
    )
    assert alone.message == (
        "block b1 has room for 3 of 4 pods of 8 nvidia.com/gpu (required level block). "
        "Closed in block b1: 1 of 4 nodes: cordoned. The scope within fits by itself."
    )
    messages = [r.message for r in why(scenario.gang("a", two, three, pack="block"))]
    assert messages == [
        "block b1 has room for 4 of 5 pods of 8 nvidia.com/gpu (required level block).",
        "rack r1 has room for 2 of 3 pods of 8 nvidia.com/gpu; no other rack has more "
        "(group w3, required level rack).",
    ]


def part(name: str, pods: int, **more: Any) -> Group:
    return Group(name, pods=pods, gpus=8, pack="rack", **more)


@pytest.mark.parametrize(
    ("drawing", "groups", "block", "want_code", "want"),
    [
        pytest.param(
            "b1/r1: x1=8 x2=8 x3=8 | b1/r2: y1=8 y2=8 | b1/r3: z1=8 | b1/r4: w1=8",
            [part("one", 3), part("two", 2), part("three", 2)],
            "block",
            Code.REQUIRED_DOMAIN_TOO_SMALL,
            "block b1 has room for at most 2 of 3 parts of at least 2 pods of 8 nvidia.com/gpu "
            "that need one rack each (required levels rack and block).",
            id="of several sizes",
        ),
        pytest.param(
            "b1/r1: x1=8 x2=8 x3=8 | b1/r2: y1=8 y2=8 | b1/r3: z1=8 | b1/r4: w1=8",
            [part("one", 3), part("two", 2), part("three", 2)],
            "",
            Code.NO_COMBINATION,
            "the cluster has room for at most 2 of 3 parts of at least 2 pods of 8 nvidia.com/gpu "
            "that need one rack each; after those rack r1 has most left, for 1 of 2 "
            "(required level rack).",
            id="and in the whole cluster",
        ),
        pytest.param(
            "b1/r1: z1=8 | b2/r2: x1=8 x2=8 x3=8 | b2/r3: y1=8",
            [part("one", 2), part("two", 2)],
            "block",
            Code.REQUIRED_DOMAIN_TOO_SMALL,
            "block b2 has room for 1 of 2 parts of 2 pods of 8 nvidia.com/gpu that need one rack "
            "each; no other block has more (required levels rack and block).",
            id="of several blocks",
        ),
        pytest.param(
            "b1/r1: x1=8 x2=8 | b1/r2: y1=8 y2=8 | b2/r3: z1=8 z2=8 | b2/r4: w1=8 w2=0/8 | "
            "b2/r5: v1=8",
            [part("one", 2), part("two", 2), Group("u", gpus=8, on=("w2",))],
            "block",
            Code.PINNED_DOMAIN_TOO_SMALL,
            "block b2, where pods of the gang run, has room for 1 of 2 parts of 2 pods of "
            "8 nvidia.com/gpu that need one rack each (required levels rack and block).",
            id="where others run",
        ),
        pytest.param(
            "b1/r1: x1=8 x2=8 x3=8 | b1/r2: y1=8 | b2/r3: z1=8",
            [
                Group(name, pods=2, gpus=2, pack="rack", labels={"app": "p"}, away=FROM_EACH_OTHER)
                for name in ("one", "two")
            ],
            "block",
            Code.POD_RULES,
            "block b1 has room for 1 of 2 parts of 2 pods of 2 nvidia.com/gpu that need one rack "
            "each under anti-affinity over kubernetes.io/hostname; resources alone would do in "
            "block b1; no other block has more (required levels rack and block).",
            id="by a rule between pods",
        ),
    ],
)
def test_parts_that_need_a_rack_each_are_told_with_how_many_find_one(
    drawing: str, groups: list[Group], block: str, want_code: Code, want: str
) -> None:
    """Each finds a rack by itself, and there are nodes enough for all pods."""
    reason = only(Scenario(drawing).gang("a", *groups, pack=block))
    assert (reason.code, reason.message) == (want_code, want)


def test_closed_nodes_of_the_block_are_told_with_its_parts() -> None:
    scenario = Scenario("b1/r1: x1=8 x2=8 x3=8 | b1/r2: y1=8 y2=8").node("y1", cordoned=True)
    reason = only(scenario.gang("a", part("one", 2), part("two", 2), pack="block"))
    assert reason.message.endswith("Closed in block b1: 1 of 5 nodes: cordoned.")
    assert (reason.asked, reason.found) == (4, 2)
