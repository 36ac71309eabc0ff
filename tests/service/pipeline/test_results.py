"""What an answer says about each gang."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.placement import (
    ReasonCode,
)
from placement_service.entities.request import (
    PODS,
    PodTemplate,
    Snapshot,
)
from placement_service.judge.score import GangScore, ScopeUse
from placement_service.pipeline.results import placement_score
from tests.service.boards import pods_of
from tests.service.evictions import PREEMPT, cluster, running, urgent
from tests.service.pipeline.asking import (
    ask,
    stages,
)
from tests.service.questions import GPU, gang, node, request, snapshot


def test_an_unplaced_gang_has_a_reason_even_without_explanation() -> None:
    short = replace(gang("short", pods=1, gpus=1))
    short = replace(short, groups=(replace(short.groups[0], min_replicas=3),))
    question = request(snapshot(1, (short, gang("huge", pods=1, gpus=9))))
    placement = ask(question, stages=stages(explain=lambda *_, deadline: ()))
    assert [[r.code for r in g.reasons] for g in placement.gangs] == [
        [ReasonCode.PODS_MISSING],
        [ReasonCode.NOT_SEARCHED],
    ]


@pytest.mark.parametrize(
    ("used", "fewest", "reached", "want"),
    [
        pytest.param(2, 2, None, 1.0, id="at the bound"),
        pytest.param(1, None, None, 1.0, id="one domain for one scope"),
        pytest.param(4, 2, 2, 0.5, id="twice what was seen to be enough"),
        pytest.param(4, 2, 3, None, id="the bound was never reached"),
        pytest.param(4, None, 4, None, id="nothing is proven"),
        pytest.param(None, None, None, 1.0, id="no preferred scope"),
    ],
)
def test_placement_score(
    used: int | None, fewest: int | None, reached: int | None, want: float | None
) -> None:
    uses = () if used is None else (ScopeUse("all", "rack", False, (), used),)
    assert placement_score(GangScore("g", True, 1, uses), fewest, reached) == want
    assert placement_score(GangScore("g", False, 0, uses), fewest, reached) is None


def test_a_gang_that_is_evicted_is_told_for_whom() -> None:
    """Its reason does not name other gangs that could have been evicted instead."""
    others = running("other", "n0", "n0", gpus=1)
    question = cluster(running("old", "n0", gpus=6), others, urgent(gpus=6))
    placement = ask(replace(request(), snapshot=question, policy=PREEMPT))
    [reasons] = [g.reasons for g in placement.gangs if not g.placed]
    assert [(reason.code, reason.message) for reason in reasons] == [
        (
            ReasonCode.OUTCOMPETED,
            "the gang gives way to gang ml/urgent of priority 100; its own priority is 0.",
        )
    ]


def test_who_may_evict_nobody_hears_of_the_room_of_others() -> None:
    polite = replace(urgent(priority=200), never_preempts=True)
    polite = replace(polite, name="namespaces/ml/podgangs/polite")
    old = [running(f"old{i}", f"n{i}", gpus=8) for i in range(2)]
    placement = ask(
        replace(request(), snapshot=cluster(*old, polite, urgent(), nodes=2), policy=PREEMPT)
    )
    assert [r.message for g in placement.gangs if "polite" in g.name for r in g.reasons] == [
        "the cluster has room for 0 of 1 pod of 8 nvidia.com/gpu; "
        "with the room of gangs that it may not evict, for 2.",
        "gang old1 (priority 0) stays, as the waiting gang never preempts; "
        "without it the gang would fit; its own priority is 200.",
    ]


def test_a_compute_domain_is_named_and_not_the_rule_that_stands_for_it() -> None:
    busy = replace(node("n0"), compute_domain="ml/other")
    mine = pods_of("mine", 1, PodTemplate({GPU: 1, PODS: 1}, compute_domain="ml/mine"))
    placement = ask(request(Snapshot((busy,), (mine,))))
    [message] = [reason.message for g in placement.gangs for reason in g.reasons]
    assert message.endswith(
        ": 1 of 1 node: ComputeDomain ml/mine, which shares no node with another."
    )
