"""Scaled gangs whose pods Grove still holds back, planned along so that their room is kept.

Grove opens the gates of a scaled gang some seconds after its base is scheduled. Without this module
any gang that arrives meanwhile would get the room that the scaled gang needs. Therefore a gated
scaled gang is part of the request and gets a place in the plan, but is never bound. While its base
runs it comes before other gangs of its own priority, for a limited time: a gate that never opens
keeps room free no longer than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controller.cluster.gang_state import Body, GangState, Key, Lifecycle, references
from controller.cluster.view import ClusterView
from placement.kubernetes.gangs import BASE_POD_GANG

#: The gate of Grove; other gates may hold a pod for ever.
GATE: Final = "grove.io/podgang-pending-creation"


@dataclass(frozen=True, slots=True)
class Kept:
    """Gangs whose pods are planned as if their gates were open.

    The base of `first` runs: they come before others of their priority. The base of
    `with_base` waits, and they come with it.
    """

    first: frozenset[Key] = frozenset()
    with_base: frozenset[Key] = frozenset()

    @property
    def gangs(self) -> frozenset[Key]:
        return self.first | self.with_base


class GatedGangs:
    """Since when each scaled gang waits only for Grove's gates. `keep` is for how many
    seconds its room is kept; 0 keeps none."""

    def __init__(self, *, keep: float) -> None:
        self._keep = keep
        self._since: dict[Key, tuple[str, float]] = {}

    def look(self, view: ClusterView, now: float) -> Kept:
        """The gangs for which room is kept now."""
        if not self._keep:
            return Kept()
        first, with_base = set(), set()
        since: dict[Key, tuple[str, float]] = {}
        for key, state in view.states.items():
            base = _base(view, state)
            if base is None:
                continue
            if base.is_met:
                before = self._since.get(key)
                known = before is not None and before[0] == state.uid
                since[key] = before if before is not None and known else (state.uid, now)
                if now - since[key][1] < self._keep and not state.is_met:
                    first.add(key)
            elif base.lifecycle is Lifecycle.PENDING and state.lifecycle is Lifecycle.WAITING:
                with_base.add(key)
        self._since = since
        return Kept(frozenset(first), frozenset(with_base))


def opened(pods: Mapping[Key, Body], gangs: Iterable[Body]) -> dict[Key, Body]:
    """The pods; those of these gangs come without Grove's gate."""
    result = dict(pods)
    for gang in gangs:
        for key in _members(gang):
            if (pod := pods.get(key)) is not None and pod["spec"].get("schedulingGates"):
                spec = {k: v for k, v in pod["spec"].items() if k != "schedulingGates"}
                result[key] = {**pod, "spec": spec}
    return result


def _base(view: ClusterView, state: GangState) -> GangState | None:
    """The state of the base of a gang; None if the gang waits for more than Grove's gates."""
    if state.lifecycle not in (Lifecycle.WAITING, Lifecycle.PENDING):
        return None
    if any(g.bound + len(g.free) + g.gated < g.minimum for g in state.groups):
        return None
    base = None
    for key in _members(view.gangs[state.key]):
        pod = view.pods.get(key)
        if pod is None:
            continue
        gates = pod["spec"].get("schedulingGates") or ()
        if any(gate.get("name") != GATE for gate in gates):
            return None
        base = base or (pod["metadata"].get("labels") or {}).get(BASE_POD_GANG)
    return view.states.get((state.key[0], base)) if base else None


def _members(gang: Body) -> Iterator[Key]:
    return (key for _, keys in references(gang) for key in keys)
