"""Reasons that name running gangs which stay because their nodes would not take them again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import HOSTNAME, BoundPod, PodSet
from placement_service.formulation.eviction import ruled_pods
from tests.drawing import GPU
from tests.scenario import Group, Scenario, near
from tests.service.explain.protected import ask, old


def test_a_gang_that_stays_for_another_reason_does_not_name_a_rule_that_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No pod has room beside those of its ComputeDomain, nor beside those that it keeps away."""
    monkeypatch.setattr(ruled_pods, "MOST_HOMES", 0)
    scenario = Scenario("r1: x1=0/8 x2=0/8").node("x1", taints=["gpu"])
    group = replace(old("old", "x1", gpus=8), away=(near(HOSTNAME, group="w"),))
    group = replace(group, asks={"compute_domain": "ml/d"})
    urgent = Group("w", pods=1, gpus=8, tolerate=("gpu",))
    scenario = scenario.gang("old", group).gang("urgent", urgent)
    *_, reason = ask(scenario, EvictionPolicy.REPACK)
    assert "would not take it again" in reason.message


def test_a_gang_on_a_node_that_would_not_take_it_again_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ruled_pods, "MOST_HOMES", 0)
    scenario = Scenario("r1: x1=4/8 x2=4/4").node("x1", taints=["gpu"])
    scenario = scenario.gang("old", old("old", "x1", gpus=4))
    urgent = Group("w", pods=1, gpus=8, tolerate=("gpu",))
    *_, reason = ask(scenario.gang("urgent", urgent), EvictionPolicy.REPACK)
    assert reason.message == (
        "gang old (priority 0) has 1 pod on a node that would not take it again; without it the "
        "gang would fit; its own priority is 0."
    )


def test_a_gang_with_a_pod_on_a_closed_node_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruled_pods, "MOST_HOMES", 1)
    scenario = Scenario("r1: x1=4/8 x2=4/4 x3=0/4").node("x3", cordoned=True)
    scenario = scenario.gang("old", old("old", "x1", "x3", gpus=4))
    *_, reason = ask(scenario.gang("urgent", pods=1, gpus=8), EvictionPolicy.REPACK)
    assert "has 1 pod on a node that takes no new pods; without it" in reason.message


def test_a_gang_of_unlike_pods_on_such_a_node_says_so() -> None:
    """They are in few places, and cannot be told by these alone."""
    scenario = Scenario("r1: x1=4/8 x2=4/4 x3=2/4").node("x1", taints=["gpu"])
    scenario = scenario.gang("old", old("old", "x1", gpus=4))
    [group] = scenario.gangs[0].groups
    [runs] = group.pod_sets
    less = replace(runs.template, requests={**runs.template.requests, GPU: 2})
    pod = BoundPod("namespaces/ml/pods/less", "nodes/x3")
    group = replace(group, pod_sets=(runs, PodSet(less, (), (pod,))), min_replicas=2)
    scenario = replace(scenario, gangs=(replace(scenario.gangs[0], groups=(group,)),))
    urgent = Group("w", pods=1, gpus=8, tolerate=("gpu",))
    *_, reason = ask(scenario.gang("urgent", urgent), EvictionPolicy.REPACK)
    assert "has 1 pod on a node that would not take it again; without it" in reason.message
