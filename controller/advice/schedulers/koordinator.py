"""Koordinator: Reservations of a whole gang.

One Reservation a pod, pinned to its node and bound by koord-scheduler, which checks it as if it
were the pod. Together they are a gang of their own. When all are Available the pods' gates go; each
pod finds its own Reservation. When one cannot be bound all are deleted. They have a time to live,
so none is left over when the controller is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from typing import Any, Final

from controller.advice.adapter import Progress
from controller.advice.advice import Advice, Mark
from controller.advice.objects import Objects
from controller.advice.pod_patches import gates, ungate
from controller.advice.schedulers.gated_pods import GatedPods
from controller.advice.schedulers.left_objects import delete_made_for, mark_of
from controller.binding.apply import Binding
from controller.cluster.gang_state import Body, Key, condition_of, node_of
from placement.advice_marks import GATE, MADE_FOR
from placement.cluster import ApiError, Cluster
from placement.resources import RESERVATIONS

SCHEDULER: Final = "koord-scheduler"
_GANG: Final = "gang.scheduling.koordinator.sh"
_QUOTA: Final = "quota.scheduling.koordinator.sh/name"
_NO_POD: Final[Body] = {"spec": {}}
#: Seconds for which koord-scheduler may report no room: it retries after 1, 2, 4 ... seconds.
_PATIENCE: Final = 5.0
#: Parts of a pod's spec that bear on where it fits; a Reservation is checked for those.
_KEPT: Final = (
    "nodeSelector",
    "tolerations",
    "affinity",
    "priority",
    "priorityClassName",
    "overhead",
)


class Koordinator(GatedPods):
    """See `adapter.Adapter`. `clock` is in seconds, and never jumps."""

    scheduler = SCHEDULER

    def __init__(
        self,
        cluster: Cluster,
        executor: Executor,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(cluster, executor)
        self._clock = clock
        #: Since when koord-scheduler finds no room for some of them, by the id of their advice.
        self._refused: dict[str, float] = {}

    @property
    def name(self) -> str:
        return "koordinator"

    def is_committed(self, advice: Advice, objects: Objects) -> bool:
        """koord-scheduler looks at each Reservation itself."""
        return True

    def act(self, advice: Advice, objects: Objects) -> Progress:
        if all(
            (pod := objects.pods.get(b.pod)) is not None and GATE not in gates(pod)
            for b in advice.bindings
        ):
            # Released already: the Reservations are used up one by one.
            return Progress.DONE
        # A pod that runs has used up its Reservation, which may be gone.
        open_bindings = [
            b for b in advice.bindings if not node_of(objects.pods.get(b.pod, _NO_POD))
        ]
        found = list(self._executor.map(lambda b: self._ensure(advice, b, objects), open_bindings))
        if self._has_failed(advice, found):
            return Progress.FAILED
        if not all(_phase(one) in ("Available", "Succeeded") for one in found):
            return Progress.WRITING
        list(self._executor.map(lambda one: self._let_go(one, objects), open_bindings))
        return Progress.DONE

    def _has_failed(self, advice: Advice, reservations: Collection[Body]) -> bool:
        """Whether one of them has failed, or was unschedulable for too long.

        koord-scheduler retries what it reports as unschedulable. It also reports this of a
        Reservation that it sees before the last one of their gang exists.
        """
        if any(_phase(one) == "Failed" for one in reservations):
            return True
        if not any(map(_is_refused, reservations)):
            self._refused.pop(advice.id, None)
            return False
        since = self._refused.setdefault(advice.id, self._clock())
        return self._clock() - since >= _PATIENCE

    def _let_go(self, binding: Binding, objects: Objects) -> None:
        pod = objects.pods.get(binding.pod)
        if pod is not None and GATE in gates(pod):
            ungate(self._cluster, binding.pod, binding.uid)

    def undo(self, advice: Advice, objects: Objects) -> None:
        """Deletes the Reservations."""
        self._refused.pop(advice.id, None)
        self.sweep(advice.mark)

    def complete(self, rest: Collection[Binding], objects: Objects) -> None:
        self.release([binding.pod for binding in rest], objects)

    def left(self, objects: Objects) -> Collection[Mark]:
        """Reservations that no pod has used yet, or will soon."""
        found = (
            mark_of(one)
            for one in objects.of(RESERVATIONS).values()
            if _phase(one) not in ("Succeeded", "Failed")
            and not node_of(objects.pods.get(_owner_of(one), _NO_POD))
        )
        return {mark for mark in found if mark is not None}

    def sweep(self, mark: Mark) -> None:
        delete_made_for(self._cluster, RESERVATIONS, mark)

    def _ensure(self, advice: Advice, binding: Binding, objects: Objects) -> Body:
        """The Reservation of a pod of the advice, made if it is not there."""
        name = f"advice-{advice.id}-{binding.uid}"
        if (found := objects.of(RESERVATIONS).get(("", name))) is not None:
            return found
        pod = objects.pods.get(binding.pod)
        if pod is None:
            return {"status": {"phase": "Failed"}}
        body = reservation(
            name, pod, binding.node, advice, ttl=max(1.0, advice.until - time.time())
        )
        try:
            return self._cluster.request("POST", RESERVATIONS.path, body=body)
        except ApiError as error:
            if error.status != 409:
                raise
        return self._cluster.request("GET", RESERVATIONS.path_of(name))


def reservation(name: str, pod: Body, node: str, advice: Advice, *, ttl: float) -> dict[str, Any]:
    """The room of one pod on its node, for that pod alone and for once, for `ttl` seconds.

    Its labels and annotations override those of its template: they make the Reservations of one
    advice a gang.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    labels = metadata.get("labels") or {}
    quota = {_QUOTA: labels[_QUOTA]} if _QUOTA in labels else {}
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {
            "name": name,
            "labels": {MADE_FOR: advice.id, **quota},
            "annotations": {
                f"{_GANG}/name": f"advice-{advice.id}",
                f"{_GANG}/min-available": str(len(advice.bindings)),
            },
        },
        "spec": {
            "template": {
                "metadata": {"namespace": metadata["namespace"], "labels": quota},
                "spec": {
                    **{field: spec[field] for field in _KEPT if field in spec},
                    "schedulerName": SCHEDULER,
                    "nodeName": node,
                    # The plan has room for it; nothing that runs makes way.
                    "preemptionPolicy": "Never",
                    # What a pod asks for is the most that it needs at once, from its first init
                    # container on; a restricted Reservation may not be topped up.
                    **{
                        field: [_container(one) for one in spec[field]]
                        for field in ("containers", "initContainers")
                        if spec.get(field)
                    },
                },
            },
            # Not for another pod of its name.
            "owners": [
                {"object": {key: metadata[key] for key in ("namespace", "name", "uid")}},
            ],
            "allocateOnce": True,
            "allocatePolicy": "Restricted",
            "ttl": f"{ttl:.0f}s",
        },
    }


def _container(container: Body) -> dict[str, Any]:
    """What of a container bears on what its pod asks for."""
    sidecar = {"restartPolicy": "Always"} if container.get("restartPolicy") == "Always" else {}
    return {
        "name": container["name"],
        "image": container.get("image", "none"),
        "resources": container.get("resources") or {},
        **sidecar,
    }


def _owner_of(body: Body) -> Key:
    """The pod that a Reservation of ours is for."""
    owners = (body.get("spec") or {}).get("owners") or [{}]
    owner = owners[0].get("object") or {}
    return str(owner.get("namespace")), str(owner.get("name"))


def _phase(body: Body) -> str:
    return str((body.get("status") or {}).get("phase") or "Pending")


def _is_refused(body: Body) -> bool:
    """Whether koord-scheduler has found no room for a Reservation so far."""
    scheduled = condition_of(body, "Scheduled")
    return (
        _phase(body) == "Pending"
        and scheduled is not None
        and scheduled.get("status") == "False"
        and scheduled.get("reason") == "Unschedulable"
    )
