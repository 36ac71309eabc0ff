"""Objects that advice makes, found by the label that names the advice and not by its pods. So they
are also found when a pod is gone, or has lost its annotation.
"""

from __future__ import annotations

from controller.advice.advice import Mark
from controller.cluster.gang_state import Body
from placement.advice_marks import MADE_FOR
from placement.cluster import ApiError, Cluster
from placement.resources import Resource


def mark_of(body: Body) -> Mark | None:
    """The advice that an object was made for; a Reservation is where its pod would be."""
    metadata = body["metadata"]
    template = (body.get("spec") or {}).get("template") or {}
    inside = (template.get("metadata") or {}).get("namespace")
    made_for = (metadata.get("labels") or {}).get(MADE_FOR)
    return Mark(str(metadata.get("namespace") or inside), made_for) if made_for else None


def delete_made_for(
    cluster: Cluster, resource: Resource, mark: Mark, *, phases_kept: frozenset[str] = frozenset()
) -> None:
    """Deletes what was made for one piece of advice. Raises `ApiError`."""
    query = {"labelSelector": f"{MADE_FOR}={mark.id}"}
    answer = cluster.request("GET", resource.path, query=query)
    for one in answer.get("items") or ():
        if mark_of(one) == mark and (one.get("status") or {}).get("phase") not in phases_kept:
            delete(cluster, resource, one)


def delete(cluster: Cluster, resource: Resource, body: Body) -> None:
    """Deletes this very object, if it is still there. Raises `ApiError`."""
    metadata = body["metadata"]
    try:
        cluster.request(
            "DELETE",
            resource.path_of(metadata["name"], metadata.get("namespace", "")),
            body={"preconditions": {"uid": metadata["uid"]}},
        )
    except ApiError as error:
        if not error.is_gone:
            raise
