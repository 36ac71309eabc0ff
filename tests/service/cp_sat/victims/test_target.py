"""What a solution of the victim model means for the pods that stay."""

from __future__ import annotations

import numpy as np

from placement_service.cp_sat.victims.model import VictimModel
from placement_service.cp_sat.victims.target import target_of
from placement_service.entities.request import (
    PODS,
    BoundPod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Snapshot,
)
from placement_service.formulation.formulate import formulate
from placement_service.formulation.prepare import prepare
from tests.service.boards import shared
from tests.service.evictions import PREEMPT, urgent
from tests.service.questions import GPU


def test_pods_alike_with_devices_of_their_own_all_stay_as_they_are() -> None:
    """Two pods of one class on one node are two demands, each with one pod."""
    pods = tuple(BoundPod(f"namespaces/ml/pods/old{i}", "nodes/h0", devices=(i,)) for i in (0, 1))
    sets = (PodSet(PodTemplate({PODS: 1, GPU: 1}), (), pods),)
    old = PodGang("namespaces/ml/podgangs/old", (PodGroup("w", 1, sets),))
    question = Snapshot((shared(1000, 1000),), (old, urgent(2, 5)))
    problem = formulate(question, PREEMPT, prepare(question, PREEMPT))
    [running] = [g for g in problem.gangs if g.home]
    assert len({running.demands[h.demand].pod_class for h in running.home}) == 1
    assert len({h.demand for h in running.home}) == 2
    model = VictimModel(problem)
    everything = np.array([model.most(v) for v in range(model.size)], dtype=np.float64)
    assert target_of(model, everything).staying[running.index] == running.home
