"""The state of a gang: which pods run, which wait, and whether it is our turn.

A pure reading of a PodGang and its pods, made again whenever one of them changes. It only counts;
the service decides whether and where something fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

#: Label in which Grove names the scheduler profile of a PodGang, and its default.
_SCHEDULER_LABEL: Final = "grove.io/scheduler-name"
_DEFAULT_PROFILE: Final = "default-scheduler"

Body = Mapping[str, Any]
#: Namespace and name; the namespace of cluster-scoped objects is empty.
Key = tuple[str, str]


class Lifecycle(StrEnum):
    """What is to be done about a gang."""

    FOREIGN = "foreign"
    """Its pods name another scheduler; while it has none, its label does."""
    ENDING = "ending"
    """It is being deleted."""
    UNINITIALIZED = "uninitialized"
    """Grove is still making its pods, and its status belongs to Grove alone."""
    WAITING = "waiting"
    """Too few pods exist without gates: binding them would not meet the minimum."""
    PENDING = "pending"
    """Pods wait for a place, and with them the minimum can be met; or the minimum is a mistake."""
    SETTLED = "settled"
    """The minimum runs, and nothing waits."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """Pods of one group by state. `ready` pods are `bound` too. `lost` pods are neither: their node
    is no longer in the cluster, so they will never run.
    """

    name: str
    minimum: int
    bound: int = 0
    ready: int = 0
    free: tuple[Key, ...] = ()
    gated: int = 0
    lost: int = 0

    @property
    def is_met(self) -> bool:
        # A negative minimum is a mistake, and nothing is enough for it.
        return 0 <= self.minimum <= self.bound

    @property
    def could_be_met(self) -> bool:
        return self.bound + len(self.free) >= self.minimum


@dataclass(frozen=True, slots=True)
class GangState:
    """The state of a gang; `uid` distinguishes it from a later one of the same name."""

    key: Key
    uid: str
    generation: int
    lifecycle: Lifecycle
    groups: tuple[GroupState, ...] = ()

    @property
    def is_met(self) -> bool:
        """Whether the minimum of every group is bound."""
        return all(group.is_met for group in self.groups)

    @property
    def runs(self) -> bool:
        """Whether the minimum of every group is bound and ready."""
        return self.is_met and all(group.ready >= group.minimum for group in self.groups)

    @property
    def is_half_bound(self) -> bool:
        """Whether some pods are bound, but too few."""
        return self.bound > 0 and any(group.bound < group.minimum for group in self.groups)

    @property
    def has_lost(self) -> bool:
        """Whether pods were on nodes that are gone."""
        return any(group.lost for group in self.groups)

    @property
    def bound(self) -> int:
        return sum(group.bound for group in self.groups)

    @property
    def minimum(self) -> int:
        return sum(group.minimum for group in self.groups)

    @property
    def free(self) -> tuple[Key, ...]:
        """The pods that may be bound now."""
        return tuple(key for group in self.groups for key in group.free)


def key_of(body: Body) -> Key:
    """Namespace and name of an object."""
    metadata = body["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def key_of_resource(name: str) -> Key:
    """Namespace and name in "namespaces/{namespace}/podgangs/{podgang}" and the
    like."""
    _, namespace, _, own = name.split("/")
    return namespace, own


def references(gang: Body) -> Iterable[tuple[Body, tuple[Key, ...]]]:
    """Each group of a gang with the pods that it refers to in the gang's own namespace."""
    namespace = gang["metadata"].get("namespace", "")
    for group in (gang.get("spec") or {}).get("podgroups") or ():
        yield (
            group,
            tuple(
                (namespace, reference["name"])
                for reference in group.get("podReferences") or ()
                if reference.get("namespace") in (namespace, None, "") and reference.get("name")
            ),
        )


def is_initialized(gang: Body) -> bool:
    """Whether Grove has set Initialized; only then may others write the status."""
    condition = condition_of(gang, "Initialized")
    return condition is not None and condition.get("status") == "True"


def condition_of(body: Body, kind: str) -> Body | None:
    """A condition of an object's status, None when it has none of this type."""
    for condition in (body.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            found: Body = condition
            return found
    return None


def node_of(pod: Body) -> str:
    """The node that a pod is bound to, or empty."""
    return str(pod["spec"].get("nodeName") or "")


def is_ours(pod: Body, scheduler_name: str) -> bool:
    """Whether a pod asks for us as its scheduler."""
    return bool(pod["spec"].get("schedulerName") == scheduler_name)


def is_free(pod: Body, scheduler_name: str) -> bool:
    """Whether a pod is ours and may be bound."""
    spec = pod["spec"]
    return (
        is_ours(pod, scheduler_name)
        and not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and not pod["metadata"].get("deletionTimestamp")
    )


def state_of(
    gang: Body,
    pods: Mapping[Key, Body],
    scheduler_name: str,
    *,
    has_node: Callable[[str], bool],
) -> GangState:
    """The state of a gang, given the pods that have not finished and the nodes that exist."""
    metadata = gang["metadata"]
    schedulers: set[bool] = set()
    groups = []
    for group, keys in references(gang):
        bound = ready = gated = lost = 0
        free = []
        for key in keys:
            pod = pods.get(key)
            if pod is None or pod["metadata"].get("deletionTimestamp"):
                # A pod that is being deleted is no longer a member: its replacement will be.
                continue
            is_its = is_ours(pod, scheduler_name)
            schedulers.add(is_its)
            if node := node_of(pod):
                if not has_node(node):
                    lost += 1
                    continue
                bound += 1
                condition = condition_of(pod, "Ready")
                ready += condition is not None and condition.get("status") == "True"
            elif not is_its:
                continue
            elif pod["spec"].get("schedulingGates"):
                gated += 1
            else:
                free.append(key)
        minimum = int(group.get("minReplicas") or 0)
        groups.append(GroupState(group["name"], minimum, bound, ready, tuple(free), gated, lost))
    ours = True in schedulers if schedulers else _may_become_ours(gang, scheduler_name)
    return GangState(
        key=key_of(gang),
        uid=metadata.get("uid", ""),
        generation=int(metadata.get("generation") or 0),
        lifecycle=_lifecycle(gang, groups, ours=ours),
        groups=tuple(groups),
    )


def _may_become_ours(gang: Body, scheduler_name: str) -> bool:
    """Whether a gang without pods may get pods that are ours. Grove's label names
    its own profile, which for any scheduler that it does not know is the default one."""
    label = (gang["metadata"].get("labels") or {}).get(_SCHEDULER_LABEL)
    return not is_initialized(gang) and label in (None, _DEFAULT_PROFILE, scheduler_name)


def _lifecycle(gang: Body, groups: Iterable[GroupState], *, ours: bool) -> Lifecycle:
    groups = tuple(groups)
    if not ours:
        return Lifecycle.FOREIGN
    if gang["metadata"].get("deletionTimestamp"):
        return Lifecycle.ENDING
    if not is_initialized(gang):
        return Lifecycle.UNINITIALIZED
    if not all(group.could_be_met for group in groups):
        return Lifecycle.WAITING
    settled = all(group.is_met and not group.free for group in groups)
    return Lifecycle.SETTLED if settled else Lifecycle.PENDING
