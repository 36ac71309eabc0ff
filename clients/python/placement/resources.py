"""The kinds of objects that are read and written, and where an API server keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object and where the API server keeps it, over all namespaces."""

    kind: str
    api_version: str
    plural: str
    namespaced: bool

    @property
    def path(self) -> str:
        """Path of the collection over all namespaces."""
        return f"{self._root}/{self.plural}"

    def path_of(self, name: str, namespace: str = "", *, part: str = "") -> str:
        """Path of one object, or with `part` of a subresource of it."""
        where = f"/namespaces/{quote(namespace)}" if self.namespaced else ""
        tail = f"/{part}" if part else ""
        return f"{self._root}{where}/{self.plural}/{quote(name)}{tail}"

    def path_in(self, namespace: str) -> str:
        """Path of the collection in one namespace, to which new objects are posted."""
        return f"{self._root}/namespaces/{quote(namespace)}/{self.plural}"

    @property
    def _root(self) -> str:
        return (
            f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        )


_RESOURCE: Final = "resource.k8s.io/v1"
_KOORDINATOR: Final = "scheduling.koordinator.sh/v1alpha1"
_SIGS: Final = "scheduling.sigs.k8s.io/v1alpha1"
_VOLCANO: Final = "scheduling.volcano.sh/v1beta1"
_KUEUE: Final = "kueue.x-k8s.io/v1beta1"

NODES: Final = Resource("Node", "v1", "nodes", namespaced=False)
PODS: Final = Resource("Pod", "v1", "pods", namespaced=True)
PRIORITY_CLASSES: Final = Resource(
    "PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", namespaced=False
)
POD_GANGS: Final = Resource("PodGang", "scheduler.grove.io/v1alpha1", "podgangs", namespaced=True)
TOPOLOGY_BINDINGS: Final = Resource(
    "ClusterTopologyBinding", "grove.io/v1alpha1", "clustertopologybindings", namespaced=False
)
EVENTS: Final = Resource("Event", "events.k8s.io/v1", "events", namespaced=True)
NATIVE_POD_GROUPS: Final = Resource(
    "PodGroup", "scheduling.k8s.io/v1alpha2", "podgroups", namespaced=True
)
NATIVE_WORKLOADS: Final = Resource(
    "Workload", "scheduling.k8s.io/v1alpha2", "workloads", namespaced=True
)
KAI_POD_GROUPS: Final = Resource(
    "PodGroup", "scheduling.run.ai/v2alpha2", "podgroups", namespaced=True
)
KAI_QUEUES: Final = Resource("Queue", "scheduling.run.ai/v2", "queues", namespaced=False)
KAI_TOPOLOGIES: Final = Resource(
    "Topology", "kai.scheduler/v1alpha1", "topologies", namespaced=False
)
BIND_REQUESTS: Final = Resource(
    "BindRequest", "scheduling.run.ai/v1alpha2", "bindrequests", namespaced=True
)
KOORDINATOR_POD_GROUPS: Final = Resource("PodGroup", _SIGS, "podgroups", namespaced=True)
COSCHEDULING_POD_GROUPS: Final = Resource(
    "PodGroup", "scheduling.x-k8s.io/v1alpha1", "podgroups", namespaced=True
)
ELASTIC_QUOTAS: Final = Resource("ElasticQuota", _SIGS, "elasticquotas", namespaced=True)
RESERVATIONS: Final = Resource("Reservation", _KOORDINATOR, "reservations", namespaced=False)
DEVICES: Final = Resource("Device", _KOORDINATOR, "devices", namespaced=False)
NETWORK_TOPOLOGIES: Final = Resource(
    "ClusterNetworkTopology",
    _KOORDINATOR,
    "clusternetworktopologies",
    namespaced=False,
)
VOLCANO_POD_GROUPS: Final = Resource("PodGroup", _VOLCANO, "podgroups", namespaced=True)
VOLCANO_QUEUES: Final = Resource("Queue", _VOLCANO, "queues", namespaced=False)
HYPER_NODES: Final = Resource(
    "HyperNode", "topology.volcano.sh/v1alpha1", "hypernodes", namespaced=False
)
CLUSTER_QUEUES: Final = Resource("ClusterQueue", _KUEUE, "clusterqueues", namespaced=False)
COHORTS: Final = Resource("Cohort", _KUEUE, "cohorts", namespaced=False)
LOCAL_QUEUES: Final = Resource("LocalQueue", _KUEUE, "localqueues", namespaced=True)
DISRUPTION_BUDGETS: Final = Resource(
    "PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", namespaced=True
)
CONFIG_MAPS: Final = Resource("ConfigMap", "v1", "configmaps", namespaced=True)
LEASES: Final = Resource("Lease", "coordination.k8s.io/v1", "leases", namespaced=True)

#: The kinds that a plan is made from.
PLANNED_FROM: Final = (NODES, PODS, PRIORITY_CLASSES, POD_GANGS, TOPOLOGY_BINDINGS)

#: Further kinds that a plan is made from where a cluster has them: volumes, devices, budgets,
#: and the gangs, queues and reservations of other schedulers.
ALSO_PLANNED_FROM: Final = (
    Resource("Namespace", "v1", "namespaces", namespaced=False),
    Resource("PersistentVolume", "v1", "persistentvolumes", namespaced=False),
    Resource("PersistentVolumeClaim", "v1", "persistentvolumeclaims", namespaced=True),
    Resource("StorageClass", "storage.k8s.io/v1", "storageclasses", namespaced=False),
    DISRUPTION_BUDGETS,
    Resource("ResourceClaim", _RESOURCE, "resourceclaims", namespaced=True),
    Resource("ResourceClaimTemplate", _RESOURCE, "resourceclaimtemplates", namespaced=True),
    Resource("ResourceSlice", _RESOURCE, "resourceslices", namespaced=False),
    Resource("DeviceClass", _RESOURCE, "deviceclasses", namespaced=False),
    Resource("ComputeDomain", "resource.nvidia.com/v1beta1", "computedomains", namespaced=True),
    NATIVE_WORKLOADS,
    NATIVE_POD_GROUPS,
    KAI_QUEUES,
    KAI_POD_GROUPS,
    BIND_REQUESTS,
    KAI_TOPOLOGIES,
    KOORDINATOR_POD_GROUPS,
    COSCHEDULING_POD_GROUPS,
    ELASTIC_QUOTAS,
    RESERVATIONS,
    DEVICES,
    NETWORK_TOPOLOGIES,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    Resource("ResourceFlavor", _KUEUE, "resourceflavors", namespaced=False),
    Resource("WorkloadPriorityClass", _KUEUE, "workloadpriorityclasses", namespaced=False),
    Resource("Topology", _KUEUE, "topologies", namespaced=False),
    Resource("Workload", _KUEUE, "workloads", namespaced=True),
    VOLCANO_POD_GROUPS,
    VOLCANO_QUEUES,
    HYPER_NODES,
)

#: Those of them that our own scheduler respects: it allocates no claims and no volumes.
RESPECTED: Final = (
    DEVICES,
    KAI_QUEUES,
    ELASTIC_QUOTAS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESERVATIONS,
    DISRUPTION_BUDGETS,
    NATIVE_POD_GROUPS,
    NATIVE_WORKLOADS,
    KAI_POD_GROUPS,
    KAI_TOPOLOGIES,
    KOORDINATOR_POD_GROUPS,
    COSCHEDULING_POD_GROUPS,
    NETWORK_TOPOLOGIES,
    VOLCANO_POD_GROUPS,
    VOLCANO_QUEUES,
    HYPER_NODES,
)

#: Finished pods hold nothing; the server leaves them out, and tells of one that finishes
#: as if it were deleted.
UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"
