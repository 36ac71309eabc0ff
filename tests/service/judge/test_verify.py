"""The verifier as a whole: the empty plan, and plans that break several rules.

Each rule has a file of its own in `rules`. There every test states a plan that is fine and a plan,
or a cluster, that differs in one thing. That the engine's own answers are accepted is tested in
`test_properties`.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from placement_service.entities.request import (
    Binding,
    Pod,
    PodSet,
    Policy,
    Snapshot,
)
from placement_service.judge.verify import RULES, verify
from tests.scenario import Scenario, pod_name
from tests.service.judge.rules.plans import ONE, accepts, violations
from tests.strategies import snapshots


def test_the_empty_plan_keeps_every_rule() -> None:
    assert accepts(ONE)


@given(snapshots())
def test_the_empty_plan_keeps_every_rule_on_any_snapshot(snapshot: Snapshot) -> None:
    assert verify(snapshot, Policy(), ()) == ()


def test_every_rule_has_a_sentence_of_its_own() -> None:
    assert len({rule.__doc__ for rule in RULES}) == len(RULES)
    assert all(rule.__doc__ for rule in RULES)


def test_several_broken_rules_are_all_told() -> None:
    scenario = Scenario("r1: x1=4 | r2: x2=4").node("x2", cordoned=True)
    scenario = scenario.gang("a", pods=3, gpus=4, pack="rack")
    found = violations(scenario, a_w_0="x1", a_w_1="x1", a_w_2="x2", b_w_0="x1")
    assert len(found) == 4
    for words in ("not a pending pod", "unschedulable", "uses 2: r1, r2", "ask for 8"):
        assert any(words in sentence for sentence in found), words


def test_pods_of_one_set_are_told_apart_by_name() -> None:
    pods = tuple(Pod(pod_name(f"p{i}"), uid=f"u{i}") for i in range(2))
    gang = ONE.gangs[0]
    group = replace(gang.groups[0], pod_sets=(PodSet(gang.groups[0].pod_sets[0].template, pods),))
    snapshot = replace(ONE.snapshot(), gangs=(replace(gang, groups=(group,)),))
    swapped = Binding(pods[0].name, "nodes/x1", gang.name, "w", "u1")
    assert "uid 'u1'" in verify(snapshot, Policy(), (swapped,))[0]
