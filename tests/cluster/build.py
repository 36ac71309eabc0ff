"""Objects for a real API server, written as short as they can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.api import Body

GPU = "nvidia.com/gpu"


def node(
    name: str,
    *,
    gpus: int = 8,
    cpu: str = "64",
    memory: str = "512Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Body:
    """A ready node. `labels` come beside its hostname, `spec` holds taints and the like."""
    room = {"cpu": cpu, "memory": memory, "pods": str(pods), GPU: str(gpus)}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
            ],
        },
    }


def pod_spec(*, gpus: int = 1, cpu: str = "1", memory: str = "1Gi", **spec: Any) -> Body:
    """A pod of one container that asks for so much."""
    asked = {"cpu": cpu, "memory": memory} | ({GPU: str(gpus)} if gpus else {})
    # GPUs may not be overcommitted: the API server wants the limit as well.
    limits = {GPU: str(gpus)} if gpus else {}
    container = {
        "name": "main",
        "image": "none",
        "resources": {"requests": asked, "limits": limits},
    }
    return {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}


def pack(*, required: str = "", preferred: str = "", topology: str = "") -> Body:
    """A topologyConstraint of a PodCliqueSet, in domains."""
    domains = {"required": required, "preferred": preferred}
    named = {"topologyName": topology} if topology else {}
    return named | {"pack": {strength: one for strength, one in domains.items() if one}}


def clique(
    name: str,
    replicas: int,
    *,
    least: int | None = None,
    constraint: Body | None = None,
    labels: Mapping[str, str] | None = None,
    **asked: Any,
) -> Body:
    """A clique of pods as in `pod_spec`, `least` of which are the gang's minimum."""
    spec: Body = {
        "roleName": name,
        "replicas": replicas,
        "podSpec": pod_spec(**asked),
        **({} if least is None else {"minAvailable": least}),
    }
    return {
        "name": name,
        "labels": dict(labels or {}),
        "spec": spec,
        **({} if constraint is None else {"topologyConstraint": constraint}),
    }


def scaling_group(
    name: str,
    cliques: Sequence[str],
    *,
    replicas: int = 1,
    least: int | None = None,
    constraint: Body | None = None,
) -> Body:
    return {
        "name": name,
        "cliqueNames": list(cliques),
        "replicas": replicas,
        **({} if least is None else {"minAvailable": least}),
        **({} if constraint is None else {"topologyConstraint": constraint}),
    }


def clique_set(
    name: str,
    *cliques: Body,
    namespace: str,
    replicas: int = 1,
    groups: Sequence[Body] = (),
    constraint: Body | None = None,
    priority_class: str = "",
) -> Body:
    """A PodCliqueSet, as a user of Grove writes it."""
    template: Body = {
        "cliques": list(cliques),
        **({"podCliqueScalingGroups": list(groups)} if groups else {}),
        **({} if constraint is None else {"topologyConstraint": constraint}),
        **({"priorityClassName": priority_class} if priority_class else {}),
    }
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "template": template},
    }


def topology_binding(name: str = "default", **keys: str) -> Body:
    """Levels from broad to narrow, each a domain and its node label."""
    levels = [{"domain": domain, "key": key} for domain, key in keys.items()]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": name},
        "spec": {"levels": levels},
    }


def priority_class(name: str, value: int) -> Body:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
