"""What is known of Kueue beside its Workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from placement.kubernetes.kueue.admission import Admission, read_admission
from placement.kubernetes.kueue.flavors import Flavors, read_flavors
from placement.kubernetes.kueue.queues import KueueQueues, read_kueue_queues, read_local_queues
from placement.kubernetes.objects import Objects
from placement.kubernetes.pods.namespaces import read_namespaces
from placement.kubernetes.problems import Diagnostics
from placement.kubernetes.schema import kinds


class Kueue(NamedTuple):
    """`local_queues` lead to ClusterQueues, `flavors` say where pods may run, `admission` which
    Workloads are let in at all.
    """

    local_queues: Mapping[tuple[str, str], str]
    queues: KueueQueues
    flavors: Flavors
    admission: Admission


def read_kueue(objects: Objects, diagnostics: Diagnostics) -> Kueue:
    """Kueue's queues, flavors and checks of the input."""
    cluster_queues = objects.of_kind(kinds.CLUSTER_QUEUES)
    local_queues = objects.of_kind(kinds.LOCAL_QUEUES)
    workloads = objects.of_kind(kinds.KUEUE_WORKLOADS)
    namespaces = read_namespaces(
        objects.of_kind(kinds.NAMESPACES),
        {one.namespace for one in workloads},
        diagnostics.problems,
    )
    return Kueue(
        read_local_queues(local_queues, diagnostics.problems),
        read_kueue_queues(cluster_queues, objects.of_kind(kinds.COHORTS), diagnostics),
        read_flavors(objects.of_kind(kinds.RESOURCE_FLAVORS), cluster_queues, diagnostics.problems),
        read_admission(cluster_queues, local_queues, namespaces, diagnostics),
    )
