"""A live cluster instead of files: the same kinds, read only.

Reads once what a plan is made from. Kinds that the cluster does not have, because Grove
is not installed, count as empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from placement.cli.failures import warn
from placement.cluster import (
    ALSO_PLANNED_FROM,
    PLANNED_FROM,
    PODS,
    UNFINISHED,
    ApiError,
    Cluster,
)
from placement.kubernetes import Problem
from placement.kubernetes.objects import NODE, POD, POD_GANG
from placement.kubernetes.trimming import Trimmer

Body = dict[str, Any]


def read(
    *, kubeconfig: str | None = None, context: str | None = None, scheduler_name: str = ""
) -> list[Body]:
    """Every object that a plan is made from; of waiting pods those of one scheduler, if named.

    Raises `ApiError`.
    """
    bodies: list[Body] = []
    # Whole, twenty thousand pods take more than half a gigabyte.
    trimmer = Trimmer()
    with Cluster.connect(kubeconfig=kubeconfig, context=context) as cluster:
        for resource in (*PLANNED_FROM, *ALSO_PLANNED_FROM):
            try:
                for page in cluster.pages(resource, fields=UNFINISHED if resource is PODS else ""):
                    bodies += map(trimmer.trim, page.items)
            except ApiError as error:
                if error.status == 403 and resource in ALSO_PLANNED_FROM:
                    text = "may not be read, and counts as if there were none"
                    warn([Problem("the cluster", f"{resource.kind} of all namespaces", "", text)])
                elif error.status != 404:
                    raise
    bodies = on_nodes_that_are_there(bodies)
    return of_scheduler(bodies, scheduler_name) if scheduler_name else bodies


def on_nodes_that_are_there(bodies: Iterable[Body]) -> list[Body]:
    """Without pods that were bound to a node that is gone: they run nowhere."""
    bodies = list(bodies)
    there = {_key(body)[1] for body in bodies if body["kind"] == NODE}

    def runs(body: Body) -> bool:
        node = body["kind"] == POD and (body.get("spec") or {}).get("nodeName")
        return not node or node in there

    return [body for body in bodies if runs(body)]


def of_scheduler(bodies: Iterable[Body], name: str) -> list[Body]:
    """Without pods that wait for another scheduler, and without gangs that have no pod of
    this one."""
    bodies = list(bodies)
    ours = {
        _key(body)
        for body in bodies
        if body["kind"] == POD and (body.get("spec") or {}).get("schedulerName") == name
    }

    def counts(body: Body) -> bool:
        if body["kind"] == POD:
            return bool((body.get("spec") or {}).get("nodeName")) or _key(body) in ours
        return body["kind"] != POD_GANG or not ours.isdisjoint(members(body))

    return [body for body in bodies if counts(body)]


def members(gang: Body) -> list[tuple[str, str]]:
    """Namespace and name of each pod that a PodGang refers to."""
    return [
        (reference.get("namespace") or _key(gang)[0], reference.get("name") or "")
        for group in (gang.get("spec") or {}).get("podgroups") or ()
        for reference in group.get("podReferences") or ()
    ]


def _key(body: Body) -> tuple[str, str]:
    metadata = body["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
