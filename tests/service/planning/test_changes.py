"""Snapshots in which pods run or are gone, and what their nodes then hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.request import PodGang, Snapshot
from placement_service.planning import changes
from tests.service.evictions import running
from tests.service.questions import gang, node

POD = "namespaces/ml/pods/mine-0"


def with_domain(one: PodGang) -> PodGang:
    [group] = one.groups
    [pods] = group.pod_sets
    pods = replace(pods, template=replace(pods.template, compute_domain="ml/d"))
    return replace(one, groups=(replace(group, pod_sets=(pods,)),))


def test_a_pod_that_comes_and_goes_leaves_others_in_their_compute_domain() -> None:
    at = replace(node("n0", used=1), compute_domain="ml/d", compute_domain_pods=1)
    before = Snapshot((at,), (with_domain(gang("mine", pods=1, gpus=1)),))
    there = changes.bound(before, {POD: "nodes/n0"})
    assert there.nodes[0].compute_domain_pods == 2
    after = changes.without_pods(there, {POD})
    assert (after.nodes[0].compute_domain, after.nodes[0].compute_domain_pods) == ("ml/d", 1)


@pytest.mark.parametrize("members", [0, 1])
def test_a_compute_domain_ends_with_its_last_pod(members: int) -> None:
    """Also where it is not said how many pods are in it."""
    at = replace(node("n0", used=1), compute_domain="ml/d", compute_domain_pods=members)
    old = with_domain(running("old", "n0", gpus=1))
    after = changes.without_pods(Snapshot((at,), (old,)), {"namespaces/ml/pods/old-0"})
    assert (after.nodes[0].compute_domain, after.nodes[0].compute_domain_pods) == ("", 0)
