"""Everything that advice left on a cluster, and how it is removed by hand. Gates and holds come
last: an advised pod is released only when nothing of the advice is left that could bind it. Doing
it twice does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from placement.advice_marks import ADVICE, GATE, KAI_HOLD, KAI_NODE_POOL, MADE_FOR
from placement.cluster import MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiError, Body, Cluster
from placement.kubernetes.memberships import group_of
from placement.kubernetes.values.reading import At
from placement.kubernetes.values.times import read_time
from placement.resources import (
    BIND_REQUESTS,
    KAI_POD_GROUPS,
    PODS,
    RESERVATIONS,
    UNFINISHED,
    Resource,
)

#: What the API server answers to a change that it, or a webhook, will not let through.
_REFUSALS: Final = (400, 403, 422)

#: Namespace and name.
_Gang = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """One change of the cluster; `patch` is None where the object is deleted. `pods_in` is the
    namespace of the pods that it is about."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    what: str
    pods_in: str
    patch: dict[str, Any] | None = None

    def __str__(self) -> str:
        title = f"{self.namespace}/{self.name}".lstrip("/")
        return f"{self.resource.kind} {title}: {self.what}"


def releases(
    cluster: Cluster, *, namespace: str = "", before: datetime | None = None
) -> Iterator[Release]:
    """What is to be removed, in order; only what was made before `before`. Raises `ApiError`."""
    for resource in (BIND_REQUESTS, RESERVATIONS):
        for body in _all(cluster, resource):
            is_open = _is_ours(body) and not _is_done(body)
            if is_open and _in(body, namespace) and _is_older(body, before):
                yield _release(resource, body, "deleted")
    # The controller may still be at work on a gang with younger pods. Large clusters have many
    # pods: only what is to be released is kept.
    young: set[_Gang] = set()
    advised: list[tuple[_Gang, Release]] = []
    gated: list[tuple[_Gang, Release]] = []
    for pod in _all(cluster, PODS):
        if not _in(pod, namespace):
            continue
        gang = _gang_of(pod)
        if not _is_older(pod, before):
            young.add(gang)
        if ADVICE in (pod["metadata"].get("annotations") or {}):
            patch = {"metadata": {"annotations": {ADVICE: None}}}
            advised.append((gang, _release(PODS, pod, "advice taken away", patch)))
        if any(gate.get("name") == GATE for gate in pod["spec"].get("schedulingGates") or ()):
            gate_patch = {"spec": {"schedulingGates": [{"name": GATE, "$patch": "delete"}]}}
            gated.append((gang, _release(PODS, pod, "gate taken away", gate_patch)))
    yield from (one for gang, one in advised if gang not in young)
    for group in _all(cluster, KAI_POD_GROUPS):
        metadata = group["metadata"]
        is_held = (metadata.get("labels") or {}).get(KAI_NODE_POOL) == KAI_HOLD
        is_young = (
            not _is_older(group, before) or (metadata["namespace"], metadata["name"]) in young
        )
        if is_held and not is_young and _in(group, namespace):
            patch = {"metadata": {"labels": {KAI_NODE_POOL: None}}}
            yield _release(KAI_POD_GROUPS, group, "hold taken away", patch)
    yield from (one for gang, one in gated if gang not in young)


def carried_out(
    cluster: Cluster, wanted: Iterable[Release], refused: list[ApiError]
) -> Iterator[Release]:
    """Makes the changes, in order, and yields those that were made.

    What the API server refuses is added to `refused`, and only the pods wait for it that what was
    to be deleted could bind. Raises `ApiError` where it does not answer.
    """
    held: set[str] = set()
    for one in wanted:
        if one.patch is not None and one.pods_in in held:
            continue
        try:
            is_made = carry_out(cluster, one)
        except ApiError as error:
            if error.status not in _REFUSALS:
                raise
            refused.append(error)
            if one.patch is None:
                held.add(one.pods_in)
            continue
        if is_made:
            yield one


def carry_out(cluster: Cluster, one: Release) -> bool:
    """Makes one change; returns whether the object existed. Raises `ApiError`."""
    path = one.resource.path_of(one.name, one.namespace)
    try:
        if one.patch is None:
            cluster.request("DELETE", path, body={"preconditions": {"uid": one.uid}})
        else:
            metadata = {**one.patch.get("metadata", {}), "uid": one.uid}
            is_gate = "spec" in one.patch
            cluster.request(
                "PATCH",
                path,
                body={**one.patch, "metadata": metadata},
                content_type=STRATEGIC_MERGE_PATCH if is_gate else MERGE_PATCH,
            )
    except ApiError as error:
        if error.is_gone:
            return False
        raise
    return True


def _all(cluster: Cluster, resource: Resource) -> Iterator[Body]:
    """All objects of a kind; none where the cluster does not have it."""
    try:
        for page in cluster.pages(resource, fields=UNFINISHED if resource is PODS else ""):
            yield from page.items
    except ApiError as error:
        if error.status != 404:
            raise


def _release(
    resource: Resource, body: Body, what: str, patch: dict[str, Any] | None = None
) -> Release:
    metadata = body["metadata"]
    namespace = metadata.get("namespace", "")
    return Release(
        resource, namespace, metadata["name"], metadata["uid"], what, _pods_in(body), patch
    )


def _is_ours(body: Body) -> bool:
    return MADE_FOR in (body["metadata"].get("labels") or {})


def _is_done(body: Body) -> bool:
    return (body.get("status") or {}).get("phase") == "Succeeded"


def _is_older(body: Body, before: datetime | None) -> bool:
    made = read_time(At(body, {}).get("metadata").get("creationTimestamp"))
    return before is None or (made is not None and made < before)


def _gang_of(pod: Body) -> _Gang:
    """The gang that a pod names; the pod's own name where it names none."""
    return group_of(pod) or (pod["metadata"]["namespace"], pod["metadata"]["name"])


def _in(body: Body, namespace: str) -> bool:
    return not namespace or _pods_in(body) == namespace


def _pods_in(body: Body) -> str:
    """The namespace of an object; a Reservation is where its pod would be."""
    template = (body.get("spec") or {}).get("template") or {}
    where = body["metadata"].get("namespace") or (template.get("metadata") or {}).get("namespace")
    return str(where or "")
