"""A stand-in for koord-scheduler, as far as advice meets it: Reservations first, then their
owners. It does what Koordinator's documentation and sources say, and no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from tests.cluster.api import NODES, PODS, Body
from tests.cluster.schedulers import RESERVATIONS, StandIn, free_gpus, gpus_of

#: What Koordinator's annotations of a gang begin with.
_GANG: Final = "gang.scheduling.koordinator.sh"


class KoordScheduler(StandIn):
    """Binds gangs of Reservations that are pinned to nodes with room, whole, and then their owners.

    It reports as unschedulable, and retries, what it cannot bind, and also what it sees before the
    last Reservation of the gang exists.
    """

    watched = (PODS, NODES, RESERVATIONS)

    def step(self) -> None:
        reservations = self._api.items(RESERVATIONS)
        pods = self._api.items(PODS)
        free = self._free(pods, reservations)
        for gang in _by_gang(reservations):
            self._bind_all(gang, free)
        for pod in pods:
            spec = pod["spec"]
            if spec.get("nodeName") or spec.get("schedulingGates"):
                continue
            if spec.get("schedulerName") != "koord-scheduler":
                continue
            if (mine := _reservation_of(pod, reservations)) is not None:
                self._api.bind(pod, mine["status"]["nodeName"])
                self._set_status(RESERVATIONS, mine, {"phase": "Succeeded"})
            elif node := next((n for n, left in free.items() if left >= gpus_of(spec)), ""):
                free[node] -= gpus_of(spec)
                self._api.bind(pod, node)

    def _bind_all(self, gang: list[Body], free: dict[str, int]) -> None:
        """Binds what is open of a gang, or nothing of it."""
        phases = ("Available", "Succeeded", "Failed")
        waiting = [one for one in gang if one.get("status", {}).get("phase") not in phases]
        asked: Counter[str] = Counter()
        for one in waiting:
            template = one["spec"]["template"]["spec"]
            asked[template["nodeName"]] += gpus_of(template)
        minimum = int(gang[0]["metadata"]["annotations"][f"{_GANG}/min-available"])
        has_room = all(free.get(node, 0) >= gpus for node, gpus in asked.items())
        is_bound = len(gang) >= minimum and has_room
        for one in waiting:
            node = one["spec"]["template"]["spec"]["nodeName"]
            condition = {
                "type": "Scheduled",
                "status": str(is_bound),
                "reason": "Scheduled" if is_bound else "Unschedulable",
            }
            where = {"nodeName": node} if is_bound else {}
            phase = "Available" if is_bound else "Pending"
            status = {"phase": phase, **where, "conditions": [condition]}
            if status != one.get("status"):
                self._set_status(RESERVATIONS, one, status)
        if is_bound:
            for node, gpus in asked.items():
                free[node] -= gpus

    def _free(self, pods: Iterable[Body], reservations: Iterable[Body]) -> dict[str, int]:
        free = free_gpus(self._api.items(NODES), pods)
        for one in reservations:
            if one.get("status", {}).get("phase") == "Available":
                free[one["status"]["nodeName"]] -= gpus_of(one["spec"]["template"]["spec"])
        return free


def _reservation_of(pod: Body, reservations: Iterable[Body]) -> Body | None:
    metadata = pod["metadata"]
    owner = {"object": {key: metadata[key] for key in ("namespace", "name", "uid")}}
    for one in reservations:
        if one.get("status", {}).get("phase") == "Available" and owner in one["spec"]["owners"]:
            return one
    return None


def _by_gang(reservations: Iterable[Body]) -> Iterable[list[Body]]:
    gangs: dict[str, list[Body]] = {}
    for one in reservations:
        gangs.setdefault(one["metadata"]["annotations"][f"{_GANG}/name"], []).append(one)
    return gangs.values()
