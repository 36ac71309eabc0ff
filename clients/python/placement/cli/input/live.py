"""A live cluster instead of files: the same kinds, read only.

Reads once what a plan is made from. Kinds that the cluster does not have, because no such scheduler
is installed, count as empty; those that we may not read are named in a warning. What the server
sends is not trusted: an object without a name, or pages without end, end the reading with an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placement.cluster import ApiError, Cluster
from placement.kubernetes import Problem
from placement.kubernetes.objects import NODE, POD, POD_GANG
from placement.kubernetes.queue_marks import mark_pods
from placement.kubernetes.trimming import Trimmer
from placement.resources import ALSO_PLANNED_FROM, PLANNED_FROM, PODS, UNFINISHED, Resource

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The objects of a cluster, and what could not be read of it."""

    bodies: list[Body]
    warnings: tuple[Problem, ...]


def read(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    scheduler_name: str = "",
    also: Sequence[Resource] = ALSO_PLANNED_FROM,
) -> Found:
    """Every object that a plan is made from; of waiting pods those of one scheduler, if named.

    Raises `ApiError`.
    """
    bodies: list[Body] = []
    warnings: list[Problem] = []
    # Whole, twenty thousand pods take more than half a gigabyte.
    trimmer = Trimmer()
    with Cluster.connect(kubeconfig=kubeconfig, context=context) as connected:
        for resource in (*PLANNED_FROM, *also):
            try:
                fields = UNFINISHED if resource is PODS else ""
                for page in connected.pages(resource, fields=fields):
                    bodies += (trimmer.trim(_checked(item, resource)) for item in page.items)
            except ApiError as error:
                if error.status == 403 and resource in also:
                    what = "may not be read, and counts as if there were none"
                    where = f"{resource.kind} of all namespaces"
                    warnings.append(Problem("the cluster", where, "", what))
                elif error.status != 404:
                    raise
    bodies = on_nodes_that_are_there(bodies)
    if scheduler_name:
        bodies = of_scheduler(bodies, scheduler_name)
    return Found(bodies, tuple(warnings))


def on_nodes_that_are_there(bodies: Iterable[Body]) -> list[Body]:
    """Without pods that were bound to a node that is gone: they run nowhere."""
    bodies = list(bodies)
    there = {key(body)[1] for body in bodies if body["kind"] == NODE}

    def runs(body: Body) -> bool:
        node = body["kind"] == POD and text(mapping(body.get("spec")).get("nodeName"))
        return not node or node in there

    return [body for body in bodies if runs(body)]


def of_scheduler(bodies: Iterable[Body], name: str) -> list[Body]:
    """Without pods that wait for another scheduler, and without gangs that have no pod of
    this one. What runs of those still counts in their queues."""
    bodies = list(bodies)
    ours = {
        key(body)
        for body in bodies
        if body["kind"] == POD and mapping(body.get("spec")).get("schedulerName") == name
    }

    def counts(body: Body) -> bool:
        if body["kind"] == POD:
            return bool(mapping(body.get("spec")).get("nodeName")) or key(body) in ours
        return body["kind"] != POD_GANG or not ours.isdisjoint(members(body))

    pods: dict[tuple[str, str], Mapping[str, Any]] = {}
    pods |= {key(body): body for body in bodies if body["kind"] == POD and counts(body)}
    for body in bodies:
        if body["kind"] == POD_GANG and not counts(body):
            mark_pods(body, pods)
    return [
        dict(pods[key(body)]) if body["kind"] == POD else body for body in bodies if counts(body)
    ]


def members(gang: Body) -> list[tuple[str, str]]:
    """Namespace and name of each pod that a PodGang refers to."""
    return [
        (text(reference.get("namespace")) or key(gang)[0], text(reference.get("name")))
        for group in mappings(mapping(gang.get("spec")).get("podgroups"))
        for reference in mappings(group.get("podReferences"))
    ]


def key(body: Body) -> tuple[str, str]:
    """Namespace and name of an object that was read."""
    metadata = body["metadata"]
    return text(metadata.get("namespace")), metadata["name"]


def mapping(value: Any) -> Body:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> Iterator[Body]:
    """The mappings in a list; none when it is no list."""
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else iter(())


def text(value: Any) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def number(value: Any) -> int:
    """The value if it is a whole number, else zero."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _checked(body: Body, resource: Resource) -> Body:
    """The object, if it has a name. Raises `ApiError`."""
    metadata = body.get("metadata")
    if not (isinstance(metadata, dict) and isinstance(metadata.get("name"), str)):
        raise ApiError(0, f"the list of {resource.plural} holds an object without a name")
    if body.get("kind") != resource.kind:
        raise ApiError(0, f"the list of {resource.plural} holds something else")
    return body
