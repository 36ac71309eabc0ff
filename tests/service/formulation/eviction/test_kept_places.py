"""A reclaimed pod goes for the gang that its anti-affinity kept away from a whole rack."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import (
    PodAffinityTerm,
    PodGang,
    RunningPod,
    Snapshot,
)
from placement_service.entities.selectors import LabelSelector
from tests.service.evictions import RECLAIM, running
from tests.service.questions import gang, node
from tests.service.search.answering import answer

APART = (PodAffinityTerm(LabelSelector((("app", "y"),)), "rack", ("ml",)),)


def waiting(name: str, app: str, at: str, *, apart: bool = False) -> PodGang:
    """A pod in queue "a" that has one node to choose from."""
    made = gang(name, pods=1, gpus=2)
    [group] = made.groups
    [pods] = group.pod_sets
    template = replace(
        pods.template,
        labels={"app": app},
        node_selector=(("kubernetes.io/hostname", at),),
        required_anti_affinity=APART if apart else (),
    )
    group = replace(group, pod_sets=(replace(pods, template=template),))
    return replace(made, groups=(group,), queue="queues/a")


@pytest.mark.parametrize("own", [False, True])
def test_it_goes_for_the_gang_that_it_kept_away(own: bool) -> None:
    """The term is that of the running pod, or of the waiting one. Another gang could reclaim it,
    too, but needs nothing of it.
    """
    old = replace(running("y", "n0", gpus=8), queue="queues/b")
    [group] = old.groups
    [pods] = group.pod_sets
    terms = () if own else APART
    template = replace(pods.template, required_anti_affinity=terms)
    old = replace(old, groups=(replace(group, pod_sets=(replace(pods, template=template),)),))
    listed = tuple(
        RunningPod(pod.name, pod.node, template.labels, terms) for pod in pods.bound_pods
    )
    nodes = (node("n0", used=8, rack="r"), node("n1", rack="r"), node("n2", rack="s"))
    gangs = (waiting("another", "x", "n2"), waiting("kept", "y", "n1", apart=own), old)
    queues = (Queue("queues/a", guaranteed={GPUS: 8}), Queue("queues/b"))
    result = answer(Snapshot(nodes, gangs, running_pods=listed, queues=queues), RECLAIM)
    assert len(result.bindings) == 2
    assert [e.for_gang.rpartition("/")[2] for e in result.evictions] == ["kept"]
