"""One small question for each kind of reason, as `docs/explanations.md` shows them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from placement_service.entities.devices import Device, DevicePartition, PartitionPolicy
from placement_service.entities.placement import ReasonCode
from placement_service.entities.queues import GPUS
from placement_service.entities.solution import Solution
from placement_service.explain.gang_reasons import explain
from placement_service.formulation.formulate import formulate
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.prepare import prepare
from placement_service.judge.score import score
from tests.placed import solve
from tests.scenario import Group, Scenario, near

_RACKS = "r1: x1=8 x2=8 x3=8 | r2: x4=8 x5=8"


def _gated(scenario: Scenario, count: int) -> Scenario:
    (gang,) = scenario.gangs
    (group,) = gang.groups
    gang = replace(gang, groups=(replace(group, gated_count=count),))
    return replace(scenario, gangs=(gang,))


EXAMPLES: Mapping[ReasonCode, Scenario] = {
    ReasonCode.UNINITIALIZED: Scenario(_RACKS).gang("a", pods=1, gpus=8, uninitialized=True),
    ReasonCode.PODS_MISSING: _gated(
        Scenario(_RACKS).gang("a", Group("worker", pods=2, gpus=8, min=4)), 1
    ),
    ReasonCode.UNSUPPORTED: Scenario(_RACKS).gang(
        "a", pods=1, gpus=8, unsupported=("pod ml/train-0 and 3 more: spec.resourceClaims",)
    ),
    ReasonCode.BASE_NOT_PLACED: Scenario(_RACKS)
    .gang("serve-0", pods=6, gpus=8)
    .gang("a", pods=1, gpus=8, base="serve-0"),
    ReasonCode.NO_ELIGIBLE_NODE: Scenario(_RACKS)
    .node("x1", cordoned=True)
    .gang("a", Group("worker", pods=2, gpus=8, select={"gpu": "h200"})),
    ReasonCode.INSUFFICIENT_RESOURCES: Scenario(_RACKS).gang("a", pods=6, gpus=8),
    ReasonCode.NO_SUCH_LEVEL: Scenario(_RACKS).gang(
        "a", Group("worker", pods=2, gpus=8), pack="nvidia.com/gpu.clique"
    ),
    ReasonCode.REQUIRED_DOMAIN_TOO_SMALL: Scenario(_RACKS).gang("a", pods=4, gpus=8, pack="rack"),
    ReasonCode.PINNED_DOMAIN_TOO_SMALL: Scenario("r1: x1=0/8 x2=8 | r2: x3=8 x4=8").gang(
        "a", Group("worker", pods=2, gpus=8, on=("x1",)), pack="rack"
    ),
    ReasonCode.REQUIRED_DOMAIN_BROKEN: Scenario("r1: x1=0/8 x2=8 | r2: x3=0/8 x4=8").gang(
        "a", Group("worker", pods=2, gpus=8, on=("x1", "x3")), pack="rack"
    ),
    ReasonCode.POD_RULES: Scenario(_RACKS).gang(
        "a", Group("worker", pods=3, gpus=4, away=(near("rack", group="worker"),))
    ),
    ReasonCode.OUTCOMPETED: Scenario("r1: x1=8 x2=8")
    .gang("serve", pods=2, gpus=8, priority=100)
    .gang("a", pods=1, gpus=8),
    ReasonCode.NO_COMBINATION: Scenario("r1: x1=8 x2=4").gang(
        "a", Group("leader", pods=1, gpus=6), Group("worker", pods=2, gpus=3), pack="rack"
    ),
    ReasonCode.QUEUE_UNKNOWN: Scenario(_RACKS).gang("a", pods=1, gpus=8, queue="team"),
    ReasonCode.QUEUE_LIMIT: Scenario(_RACKS)
    .queue("team", limit={GPUS: 64}, used=56)
    .gang("a", pods=2, gpus=8, queue="team"),
    ReasonCode.QUEUE_GUARANTEED: Scenario(_RACKS)
    .queue("team", guaranteed={GPUS: 8}, used=4, fixed=4)
    .gang("a", pods=1, gpus=8, queue="team", not_preemptible=True),
    ReasonCode.RESERVED: Scenario("r1: x1=8")
    .hold("team", "x1", 4, "others")
    .gang("a", pods=1, gpus=8),
    ReasonCode.DEVICES: Scenario("x1=6/8")
    .with_devices(
        "x1",
        *(Device(i, used_milli=1000 * (i in (2, 5))) for i in range(8)),
        partitions=(DevicePartition((0, 1, 2, 3)), DevicePartition((4, 5, 6, 7))),
        partition_policy=PartitionPolicy.HONOR,
    )
    .gang("a", pods=1, gpus=4),
    ReasonCode.NOT_SEARCHED: Scenario(_RACKS).gang("a", pods=1, gpus=8),
}


def example(code: str) -> str:
    """The message of a reason of this code: that of gang "a" in its question."""
    wanted = ReasonCode(code)
    scenario = EXAMPLES[wanted]
    snapshot = scenario.snapshot()
    # A search that ended before it began is the only way to a gang that was not tried.
    early = wanted is ReasonCode.NOT_SEARCHED
    solution = Solution((), ()) if early else solve(snapshot, scenario.policy)[-1]
    prepared = prepare(snapshot, scenario.policy)
    plan = name_plan(snapshot, scenario.policy, prepared, solution.assignments)
    found = explain(
        prepared.snapshot,
        formulate(snapshot, scenario.policy, prepared),
        solution,
        score(snapshot, scenario.policy, *plan),
        deadline=math.inf,
    )
    return next(
        reason.message
        for gang, reasons in zip(snapshot.gangs, found, strict=True)
        for reason in reasons
        if gang.name.endswith("/a") and reason.code is wanted
    )
