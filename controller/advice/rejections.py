"""Pods that were bound as advised and that their kubelet refused, for want of room.

This is how two schedulers learn that they gave the same room away. The pod is lost; its owner makes
another one, which waits for advice again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from controller.advice.advice import Advice
from controller.advice.objects import Objects
from controller.cluster.gang_state import Key
from placement.cluster import ApiError, Cluster
from placement.resources import PODS

#: Seconds within which a kubelet accepts or refuses a pod that is bound to its node.
_PATIENCE: Final = 300.0
_NO_ROOM: Final = ("OutOf", "UnexpectedAdmissionError")


@dataclass(frozen=True, slots=True)
class Rejection:
    """One pod that was refused, and the adapter whose advice it had."""

    pod: Key
    uid: str
    by: str


class Rejections:
    """Looks after pods that were bound as advised. `clock` is in seconds."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._watched: dict[Key, tuple[Rejection, float]] = {}

    def expect(self, advice: Advice) -> None:
        """The pods of advice that was followed may yet be refused."""
        now = self._clock()
        for one in advice.bindings:
            self._watched[one.pod] = Rejection(one.pod, one.uid, advice.by), now

    def found(self, objects: Objects) -> list[Rejection]:
        """Those that were refused since it was asked last. Raises `ApiError`."""
        result = []
        for key, (one, since) in list(self._watched.items()):
            pod = objects.pods.get(key)
            if pod is not None and pod["metadata"].get("uid") == one.uid:
                running = (pod.get("status") or {}).get("phase") == "Running"
                if running or self._clock() - since > _PATIENCE:
                    del self._watched[key]
                continue
            # Pods that have finished are not watched.
            if self._was_refused(one):
                result.append(one)
            del self._watched[key]
        return result

    def _was_refused(self, one: Rejection) -> bool:
        namespace, name = one.pod
        try:
            pod = self._cluster.request("GET", PODS.path_of(name, namespace))
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        status = pod.get("status") or {}
        return (
            pod["metadata"].get("uid") == one.uid
            and status.get("phase") == "Failed"
            and str(status.get("reason", "")).startswith(_NO_ROOM)
        )
