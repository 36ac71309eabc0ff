"""PodCliqueSets for tests, and the gangs and pods that they expand to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from placement.kubernetes import InputError, Objects, expand
from tests.kubernetes.build import Body, container


def clique(name: str, replicas: int = 1, least: int | None = None, **more: Any) -> Body:
    spec: Body = {"replicas": replicas, "podSpec": {"containers": [container(gpu="1")]}}
    if least is not None:
        spec["minAvailable"] = least
    return {"name": name, "spec": spec, **more}


def scaling(name: str, *cliques: str, **more: Any) -> Body:
    return {"name": name, "cliqueNames": list(cliques), **more}


def clique_set(
    *cliques: Body,
    groups: Iterable[Body] = (),
    name: str = "s",
    replicas: int = 1,
    metadata: Body | None = None,
    **template: Any,
) -> Body:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"namespace": "ml", "name": name, **(metadata or {})},
        "spec": {
            "replicas": replicas,
            "template": {
                "cliques": list(cliques), "podCliqueScalingGroups": list(groups), **template,
            },
        },
    }  # fmt: skip


def binding(name: str = "topo", **levels: str) -> Body:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": name},
        "spec": {"levels": [{"domain": d, "key": k} for d, k in levels.items()]},
    }


def want(required: str = "", preferred: str = "", topology: str = "") -> Body:
    pack = {k: v for k, v in (("required", required), ("preferred", preferred)) if v}
    return {"topologyConstraint": {"topologyName": topology, "pack": pack}}


def expanded(*bodies: Body) -> list[Body]:
    return expand(Objects.of(bodies))


def gangs(*bodies: Body) -> dict[str, Body]:
    """Gang name to spec."""
    return {b["metadata"]["name"]: b["spec"] for b in expanded(*bodies) if b["kind"] == "PodGang"}


def pods(*bodies: Body) -> dict[str, Body]:
    return {b["metadata"]["name"]: b for b in expanded(*bodies) if b["kind"] == "Pod"}


def problems(*bodies: Body) -> dict[str, str]:
    try:
        expanded(*bodies)
    except InputError as error:
        return {p.field: p.message for p in error.problems}
    return {}
