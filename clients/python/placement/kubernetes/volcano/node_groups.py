"""Volcano's node groups: on which nodes the pods of a queue may run.

A node is in the group that its label names. Of the groups that a queue names, its pods may run in
those that it requires or prefers, and in those that it would rather avoid. A queue that names none
has the groups of the nearest queue above it that does. Which of them are preferred is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from placement.kubernetes.pods.narrowed_affinity import REQUIRED, narrowed
from placement.kubernetes.values.reading import At

_LABEL: Final = "volcano.sh/nodegroup-name"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

#: The groups that each queue may use, of those queues that name any.
NodeGroups = Mapping[str, frozenset[str]]


def groups_of(spec: At) -> frozenset[str] | None:
    """The groups that a queue names for its pods; None where it names none at all."""
    affinity = spec.get("affinity")
    wanted, liked, closed, avoided = (
        {*affinity.get(kind).get(field).texts()}
        for kind in ("nodeGroupAffinity", "nodeGroupAntiAffinity")
        for field in (REQUIRED, _PREFERRED)
    )
    if not (wanted or liked or closed or avoided):
        return None
    return frozenset(((wanted | liked) - closed) | avoided)


def inherited(named: NodeGroups, parents: Mapping[str, str]) -> NodeGroups:
    """Those of all queues, also where a queue above names them."""
    found = {}
    for queue in parents:
        above, seen = queue, set[str]()
        while above in parents and above not in named and above not in seen:
            seen.add(above)
            above = parents[above]
        if above in named:
            found[queue] = named[above]
    return found


def kept_to(groups: Iterable[str], pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """A pod or a template that runs only on nodes of some groups."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    affinity = narrowed(spec.get("affinity") or {}, [{(_LABEL, group)} for group in sorted(groups)])
    return pod if affinity is None else {**pod, "spec": {**spec, "affinity": affinity}}
