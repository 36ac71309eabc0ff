"""Each rule deleted from the engine in turn: the judge catches the plan that comes of it.

A rule is deleted by asking the engine a question without it; the judge has the real one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from placement_service.entities.eviction import DisruptionBudget, EvictionPolicy
from placement_service.entities.queues import GPUS
from placement_service.entities.request import (
    Effect,
    HostPort,
    PodGang,
    PodTemplate,
    Policy,
    Snapshot,
    SpreadConstraint,
    Taint,
)
from placement_service.entities.reservations import ReservationSelector
from placement_service.entities.selectors import LabelSelector
from placement_service.formulation.formulate import formulate
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.prepare import prepare
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.verify import verify
from tests.scenario import Group, Scenario, near

Change = Callable[[Snapshot], Snapshot]


def violations(asked: Snapshot, real: Snapshot, policy: Policy) -> tuple[str, ...]:
    """What the judge says of the engine's answer to another question than the real one."""
    prepared = prepare(asked, policy)
    solution = first_answer(formulate(asked, policy, prepared))
    plan = name_plan(asked, policy, prepared, solution.assignments)
    return verify(real, policy, *plan)


def with_gangs(change: Callable[[PodGang], PodGang]) -> Change:
    return lambda snapshot: replace(snapshot, gangs=tuple(map(change, snapshot.gangs)))


def with_templates(**fields: Any) -> Change:
    def change(template: PodTemplate) -> PodTemplate:
        return replace(template, **fields)

    return with_gangs(
        lambda gang: replace(
            gang,
            groups=tuple(
                replace(
                    group,
                    pod_sets=tuple(replace(s, template=change(s.template)) for s in group.pod_sets),
                )
                for group in gang.groups
            ),
        )
    )


def with_nodes(**fields: Any) -> Change:
    return lambda snapshot: replace(
        snapshot, nodes=tuple(replace(node, **fields) for node in snapshot.nodes)
    )


def of_gangs(**fields: Any) -> Change:
    return with_gangs(lambda gang: replace(gang, **fields))


def of_snapshot(**fields: Any) -> Change:
    return lambda snapshot: replace(snapshot, **fields)


class Deleted(NamedTuple):
    """A rule, a question in which it decides, the question without it, and the judge's words."""

    rule: str
    real: Snapshot
    without: Change
    words: str
    eviction: EvictionPolicy = EvictionPolicy.NONE


def asked(drawing: str, **group: Any) -> Snapshot:
    """One gang of two pods with four GPUs each."""
    return Scenario(drawing).gang("a", Group("w", **{"pods": 2, "gpus": 4, **group})).snapshot()


def full(**victim: Any) -> Snapshot:
    """A node full of a gang of two pods, and one of higher priority that wants in."""
    scenario = Scenario("x1=0/8").gang("old", Group("w", gpus=4, told=("x1", "x1")))
    scenario = scenario.gang("a", pods=1, gpus=8, priority=1)
    old, new = scenario.snapshot().gangs
    return replace(scenario.snapshot(), gangs=(replace(old, **victim), new), as_of=1000)


def budgeted() -> Snapshot:
    (old, new) = full().gangs
    everything = DisruptionBudget("namespaces/ml/poddisruptionbudgets/b", LabelSelector(), 1)
    return replace(full(), gangs=(old, new), disruption_budgets=(everything,))


HELD = Scenario("x1=8").hold("held", "x1", 4, "own")
QUEUES = Scenario("x1=8").queue("q", limit={GPUS: 4}, guaranteed={GPUS: 4})
IN_QUEUE = QUEUES.gang("a", pods=2, gpus=4, queue="q").snapshot()
SPREAD = SpreadConstraint(1, "kubernetes.io/hostname", LabelSelector(), "ml")
PREEMPT = EvictionPolicy.PREEMPT

CASES = [
    Deleted(
        "cordons",
        with_nodes(unschedulable=True)(asked("x1=8")),
        with_nodes(unschedulable=False),
        "x1",
    ),
    Deleted("readiness", with_nodes(ready=False)(asked("x1=8")), with_nodes(ready=True), "x1"),
    Deleted(
        "taints",
        with_nodes(taints=(Taint("k", "v", Effect.NO_SCHEDULE),))(asked("x1=8")),
        with_nodes(taints=()),
        "taint",
    ),
    Deleted(
        "node selectors",
        with_templates(node_selector=(("model", "new"),))(asked("x1=8")),
        with_templates(node_selector=()),
        "selector",
    ),
    Deleted(
        "capacity",
        asked("x1=4"),
        with_templates(requests={"nvidia.com/gpu": 1, "pods": 1}),
        "ask for 8",
    ),
    Deleted(
        "all or nothing",
        asked("x1=4"),
        with_gangs(lambda g: replace(g, groups=(replace(g.groups[0], min_replicas=1),))),
        "minimum is 2",
    ),
    Deleted(
        "required levels",
        Scenario("r1: x1=4 | r2: x2=4").gang("a", pods=2, gpus=4, pack="rack").snapshot(),
        of_gangs(packing_scopes=()),
        "requires one",
    ),
    Deleted(
        "host ports",
        with_templates(host_ports=(HostPort(80),))(asked("x1=8")),
        with_templates(host_ports=()),
        "port",
    ),
    Deleted(
        "anti-affinity",
        asked("x1=8", labels={"app": "a"}, away=(near("host", app="a"),)),
        with_templates(required_anti_affinity=()),
        "x1",
    ),
    Deleted(
        "affinity",
        with_templates(required_affinity=(near("host", app="other"),))(asked("x1=8")),
        with_templates(required_affinity=()),
        "x1",
    ),
    Deleted(
        "spread",
        with_templates(spread_constraints=(SPREAD,))(asked("x1=8 x2=8 x3=0/8")),
        with_templates(spread_constraints=()),
        "skew",
    ),
    Deleted(
        "initialization",
        of_gangs(uninitialized=True)(asked("x1=8")),
        of_gangs(uninitialized=False),
        "not initialized",
    ),
    Deleted(
        "refusals",
        of_gangs(unsupported=("spec.magic",))(asked("x1=8")),
        of_gangs(unsupported=()),
        "not supported",
    ),
    Deleted(
        "bases",
        Scenario("x1=8").gang("b", pods=1, gpus=9).gang("a", pods=1, gpus=8, base="b").snapshot(),
        of_gangs(base_gang=""),
        "base",
    ),
    Deleted(
        "unknown queues",
        of_gangs(queue="queues/none")(asked("x1=8")),
        of_gangs(queue=""),
        "unknown",
    ),
    Deleted("limits", IN_QUEUE, of_gangs(queue=""), "limit of 4"),
    Deleted(
        "guarantees",
        replace(
            of_gangs(not_preemptible=True)(IN_QUEUE),
            queues=tuple(replace(q, limit={}) for q in IN_QUEUE.queues),
        ),
        of_gangs(not_preemptible=False),
        "guaranteed 4",
    ),
    Deleted(
        "what is held",
        HELD.gang("a", pods=2, gpus=4).snapshot(),
        of_snapshot(reservations=()),
        "hold 4",
    ),
    Deleted(
        "required reservations",
        with_templates(required_reservation=ReservationSelector("reservations/held"))(
            HELD.gang("a", pods=1, gpus=4).snapshot()
        ),
        with_templates(required_reservation=None),
        "requires a reservation",
    ),
    Deleted(
        "protection",
        full(not_preemptible=True),
        of_gangs(not_preemptible=False),
        "not preemptible",
        PREEMPT,
    ),
    Deleted(
        "minimum run times",
        full(start=990, minimum_run_time=60),
        of_gangs(minimum_run_time=0),
        "minimum is 60 s",
        PREEMPT,
    ),
    Deleted("budgets", budgeted(), of_snapshot(disruption_budgets=()), "allows 1", PREEMPT),
    Deleted(
        "priorities of victims",
        full(priority=1),
        with_gangs(lambda g: replace(g, priority=int(g.is_pending))),
        "priority 1",
        PREEMPT,
    ),
    Deleted(
        "gangs that never preempt",
        of_gangs(never_preempts=True)(full()),
        of_gangs(never_preempts=False),
        "never preempts",
        PREEMPT,
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.rule) for case in CASES])
def test_the_judge_catches_an_engine_without_the_rule(case: Deleted) -> None:
    policy = Policy(eviction=case.eviction)
    assert violations(case.real, case.real, policy) == ()
    found = violations(case.without(case.real), case.real, policy)
    assert any(case.words in violation for violation in found), found
