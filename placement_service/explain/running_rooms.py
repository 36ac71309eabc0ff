"""What running gangs hold, which is free once they are gone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from placement_service.entities.devices import Device
from placement_service.entities.request import BoundPod, PodTemplate, Snapshot
from placement_service.formulation.arrays import Ints
from placement_service.formulation.devices.device_blocks import FREE
from placement_service.formulation.problem import Problem
from placement_service.formulation.rules import host_ports
from placement_service.formulation.sharing_columns import whole_column


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """What a running gang holds: `amounts[n, R]` on the distinct `nodes`."""

    nodes: Ints
    amounts: Ints


class RunningRooms:
    """The rooms of running gangs, by their places in the request, whatever the plan."""

    def __init__(self, asked: Snapshot, problem: Problem, misplaced: Collection[str]) -> None:
        """`asked` is the snapshot of the request; `misplaced` are the names of pods that break a
        rule about other pods where they are.
        """
        self._asked = asked
        self._problem = problem
        self._misplaced = misplaced
        names = {name: r for r, name in enumerate(problem.columns)}
        whole = map(whole_column, problem.columns)
        #: The column of which each is a part that only some may use, else itself.
        self._whole = [
            r if name == of else names.get(of, r)
            for r, (name, of) in enumerate(zip(problem.columns, whole, strict=True))
        ]
        over = np.zeros(problem.node_count, dtype=bool)
        for resource in asked.columns.requested:
            over |= asked.columns.free(resource) < 0
        #: Nodes that hold more than they have: a pod that goes leaves less room there than it had.
        self._overbooked = over
        self._known: dict[tuple[int, int | None], Room] = {}

    def of(self, index: int, most: int | None = None) -> Room:
        """What a gang that stays holds in every column that others could use; with `most` so many
        units of each demand on each node, where the problem could let the gang go.
        """
        key = index, most
        if key not in self._known:
            self._known[key] = self._room(index, most)
        return self._known[key]

    def _room(self, index: int, most: int | None) -> Room:
        nodes = self._asked.columns
        held: dict[int, Ints] = {}
        for d, node, count in self._problem.gangs[index].home:
            pod_class = self._problem.gangs[index].demands[d].pod_class
            some = count if most is None else min(count, most)
            held[node] = held.get(node, 0) + some * self._problem.request[pod_class]
        if not held and most is None:
            for s in (s for group in self._asked.gangs[index].groups for s in group.pod_sets):
                columns = self._problem.columns
                # Where others have them as well they do not come free.
                alone = all(pod.name not in self._misplaced for pod in s.bound_pods)
                ports = _ports_among(columns, s.template) if alone else []
                for pod in s.bound_pods:
                    if pod.node in nodes.row_of:
                        row = nodes.row_of[pod.node]
                        left = pod.holds(s.template)
                        amounts = np.array([left.get(c, 0) for c in columns])
                        amounts[ports] = 1
                        held[row] = held.get(row, 0) + amounts
                        if FREE in columns and s.template.device_share is None:
                            gpus = _whole_gpus(nodes.parts[row].devices, pod)
                            held[row][columns.index(FREE)] += gpus
        rows = [row for row in held if not self._overbooked[row]]
        amounts = np.array([held[row] for row in rows], dtype=np.int64)
        amounts = amounts.reshape(len(rows), len(self._whole))
        return Room(np.array(rows, dtype=np.int64), np.maximum(amounts, amounts[:, self._whole]))


def _whole_gpus(devices: Iterable[Device], pod: BoundPod) -> int:
    """How many GPUs are wholly free when a pod goes that shares them with nobody."""
    return sum(d.index in pod.devices and d.healthy for d in devices)


def _ports_among(columns: Sequence[str], template: PodTemplate) -> list[int]:
    """The columns of the host ports that a pod has: of its address, or of all."""
    found = []
    for port in template.host_ports:
        name = host_ports.column_name(port.protocol, port.port, port.host_ip)
        every = f"{name} " if not port.host_ip else name
        found += [r for r, c in enumerate(columns) if c == name or c.startswith(every)]
    return found
