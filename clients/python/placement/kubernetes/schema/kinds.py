"""The kinds of objects that are read, and the project that each belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

NODE: Final = "Node"
POD: Final = "Pod"
PRIORITY_CLASS: Final = "PriorityClass"
POD_GANG: Final = "PodGang"
POD_CLIQUE_SET: Final = "PodCliqueSet"
CLUSTER_TOPOLOGY_BINDING: Final = "ClusterTopologyBinding"

CORE: Final = ""
SCHEDULING: Final = "scheduling.k8s.io"
KAI: Final = "scheduling.run.ai"
KAI_TOPOLOGY_GROUP: Final = "kai.scheduler"
KOORDINATOR: Final = "scheduling.koordinator.sh"
SIGS: Final = "scheduling.sigs.k8s.io"
COSCHEDULING: Final = "scheduling.x-k8s.io"
KUEUE: Final = "kueue.x-k8s.io"
DYNAMIC_RESOURCES: Final = "resource.k8s.io"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of an API group; several groups have a PodGroup."""

    group: str
    name: str
    namespaced: bool = True


NODES: Final = Kind(CORE, NODE, namespaced=False)
PODS: Final = Kind(CORE, POD)
NAMESPACES: Final = Kind(CORE, "Namespace", namespaced=False)
VOLUMES: Final = Kind(CORE, "PersistentVolume", namespaced=False)
VOLUME_CLAIMS: Final = Kind(CORE, "PersistentVolumeClaim")
STORAGE_CLASSES: Final = Kind("storage.k8s.io", "StorageClass", namespaced=False)
DISRUPTION_BUDGETS: Final = Kind("policy", "PodDisruptionBudget")
PRIORITY_CLASSES: Final = Kind(SCHEDULING, PRIORITY_CLASS, namespaced=False)
RESOURCE_CLAIMS: Final = Kind(DYNAMIC_RESOURCES, "ResourceClaim")
RESOURCE_CLAIM_TEMPLATES: Final = Kind(DYNAMIC_RESOURCES, "ResourceClaimTemplate")
RESOURCE_SLICES: Final = Kind(DYNAMIC_RESOURCES, "ResourceSlice", namespaced=False)
DEVICE_CLASSES: Final = Kind(DYNAMIC_RESOURCES, "DeviceClass", namespaced=False)
COMPUTE_DOMAINS: Final = Kind("resource.nvidia.com", "ComputeDomain")

#: Gangs of Kubernetes' own API.
NATIVE_WORKLOADS: Final = Kind(SCHEDULING, "Workload")
NATIVE_POD_GROUPS: Final = Kind(SCHEDULING, "PodGroup")

POD_GANGS: Final = Kind("scheduler.grove.io", POD_GANG)
POD_CLIQUE_SETS: Final = Kind("grove.io", POD_CLIQUE_SET)
TOPOLOGY_BINDINGS: Final = Kind("grove.io", CLUSTER_TOPOLOGY_BINDING, namespaced=False)

KAI_QUEUES: Final = Kind(KAI, "Queue", namespaced=False)
KAI_POD_GROUPS: Final = Kind(KAI, "PodGroup")
KAI_BIND_REQUESTS: Final = Kind(KAI, "BindRequest")
KAI_TOPOLOGIES: Final = Kind(KAI_TOPOLOGY_GROUP, "Topology", namespaced=False)

KOORDINATOR_POD_GROUPS: Final = Kind(SIGS, "PodGroup")
COSCHEDULING_POD_GROUPS: Final = Kind(COSCHEDULING, "PodGroup")
ELASTIC_QUOTAS: Final = Kind(SIGS, "ElasticQuota")
RESERVATIONS: Final = Kind(KOORDINATOR, "Reservation", namespaced=False)
DEVICES: Final = Kind(KOORDINATOR, "Device", namespaced=False)
NETWORK_TOPOLOGIES: Final = Kind(KOORDINATOR, "ClusterNetworkTopology", namespaced=False)

CLUSTER_QUEUES: Final = Kind(KUEUE, "ClusterQueue", namespaced=False)
COHORTS: Final = Kind(KUEUE, "Cohort", namespaced=False)
LOCAL_QUEUES: Final = Kind(KUEUE, "LocalQueue")
RESOURCE_FLAVORS: Final = Kind(KUEUE, "ResourceFlavor", namespaced=False)
KUEUE_TOPOLOGIES: Final = Kind(KUEUE, "Topology", namespaced=False)
KUEUE_PRIORITIES: Final = Kind(KUEUE, "WorkloadPriorityClass", namespaced=False)

JOB_SETS: Final = Kind("jobset.x-k8s.io", "JobSet")
LEADER_WORKER_SETS: Final = Kind("leaderworkerset.x-k8s.io", "LeaderWorkerSet")
ROLE_BASED_GROUPS: Final = Kind("workloads.x-k8s.io", "RoleBasedGroup")
KUEUE_WORKLOADS: Final = Kind(KUEUE, "Workload")
VOLCANO_JOBS: Final = Kind("batch.volcano.sh", "Job")
VOLCANO_POD_GROUPS: Final = Kind("scheduling.volcano.sh", "PodGroup")
VOLCANO_QUEUES: Final = Kind("scheduling.volcano.sh", "Queue", namespaced=False)
HYPER_NODES: Final = Kind("topology.volcano.sh", "HyperNode", namespaced=False)

#: Kinds that are gangs only on request.
PLAIN: Final = (Kind("batch", "Job"), Kind("apps", "Deployment"), Kind("apps", "StatefulSet"))

#: Every kind that is read.
KINDS: Final[tuple[Kind, ...]] = (
    NODES, PODS, NAMESPACES, VOLUMES, VOLUME_CLAIMS, STORAGE_CLASSES, DISRUPTION_BUDGETS,
    PRIORITY_CLASSES, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, DEVICE_CLASSES,
    COMPUTE_DOMAINS, NATIVE_WORKLOADS, NATIVE_POD_GROUPS, POD_GANGS, POD_CLIQUE_SETS,
    TOPOLOGY_BINDINGS, KAI_QUEUES, KAI_POD_GROUPS, KAI_BIND_REQUESTS, KAI_TOPOLOGIES,
    KOORDINATOR_POD_GROUPS, COSCHEDULING_POD_GROUPS, ELASTIC_QUOTAS, RESERVATIONS, DEVICES,
    NETWORK_TOPOLOGIES,
    CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, KUEUE_TOPOLOGIES, KUEUE_PRIORITIES,
    JOB_SETS, LEADER_WORKER_SETS, ROLE_BASED_GROUPS, KUEUE_WORKLOADS, VOLCANO_JOBS,
    VOLCANO_POD_GROUPS, VOLCANO_QUEUES, HYPER_NODES, *PLAIN,
)  # fmt: skip

BY_GROUP_AND_NAME: Final[Mapping[tuple[str, str], Kind]] = {
    (kind.group, kind.name): kind for kind in KINDS
}


def kind_of(api_version: object, name: object) -> Kind | None:
    """The kind of an object that names itself so; None when it is not read."""
    group, _, _ = str(api_version).rpartition("/")
    return BY_GROUP_AND_NAME.get((group, str(name)))


def meant(api_version: object, name: object) -> str:
    """The nearest kind to one that is not read: another spelling of the name, or of the group."""
    group, _, _ = str(api_version).rpartition("/")
    spelled = str(name).lower().removesuffix("s")
    for kind in KINDS:
        if kind.group == group and kind.name.lower().removesuffix("s") == spelled:
            return kind.name
    # So near that it is no other kind of the group, as PodClique is.
    of_group = [kind.name for kind in KINDS if kind.group == group]
    if names := get_close_matches(str(name)[:60], of_group, n=1, cutoff=0.9):
        return names[0]
    groups = get_close_matches(group, [k.group for k in KINDS if k.name == name], n=1, cutoff=0.8)
    return f"{name} of {groups[0]}" if groups else ""
