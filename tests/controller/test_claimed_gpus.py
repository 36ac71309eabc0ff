"""GPUs that pods claim are GPUs to every question of a controller, as the translation says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from controller.advice.objects import ObjectCache
from placement import v1
from placement.advice_marks import GANG, GATE
from placement.resources import ALSO_PLANNED_FROM, NODES, PODS
from tests.controller.advice.test_cycle import World
from tests.controller.bodies import gang, member
from tests.controller.cycle_setting import Setting
from tests.kubernetes import build
from tests.kubernetes.pods.claims.claim_objects import (
    claims,
    device_class,
    devices,
    exactly,
    template,
)

CLAIMED = "claims.resource.k8s.io/gpu"
POLICY = v1.Policy(extras=v1.ExtrasPolicy.EXTRAS_POLICY_WITH_PRIORITY)


def offered() -> list[build.Body]:
    return [devices("n1", {}, {}, {}), device_class(), template("t", exactly())]


def claiming(name: str, **more: Any) -> build.Body:
    container = build.container(cpu="1")
    return member(name, containers=[container], resourceClaims=claims("t"), **more)


def test_a_plan_counts_claimed_gpus(pool: ThreadPoolExecutor) -> None:
    made = Setting(pool, policy=POLICY, others=ALSO_PLANNED_FROM)
    by_kind = {one.kind: one for one in ALSO_PLANNED_FROM}
    for body in offered():
        made.cache.of(by_kind[body["kind"]]).observe(body["kind"], body)
    made.observe(build.node("n1"), claiming("b"), gang("waits", "b"))
    made.cycle.once()
    [asked] = made.asked
    assert CLAIMED in asked.policy.gpu_resources
    assert asked.policy.extras == POLICY.extras


def test_advice_counts_claimed_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(cache=ObjectCache([NODES, PODS, *ALSO_PLANNED_FROM]))
    by_kind = {one.kind: one for one in ALSO_PLANNED_FROM}
    for one in ALSO_PLANNED_FROM:
        world.cache.replace(one, [])
    for body in offered():
        world.cache.put(by_kind[body["kind"]], body)
    world.cache.put(NODES, build.node("n1"))
    body = claiming("b", schedulingGates=[{"name": GATE}])
    body["metadata"]["annotations"] = {GANG: "g"}
    world.cache.put(PODS, body)
    asked: list[v1.ComputePlacementRequest] = []
    ask = world.ask

    def recorded(query: Any, history: object) -> Any:
        asked.append(query.request)
        return ask(query, history)

    monkeypatch.setattr(world, "ask", recorded)
    world.cycle.once()
    assert CLAIMED in asked[0].policy.gpu_resources
