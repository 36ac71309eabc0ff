"""Host ports as columns: a node has each once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from placement_service.entities.request import HostPort
from placement_service.formulation.arrays import Ints
from placement_service.formulation.rules.draft import Column, RuleDraft


def formulate(draft: RuleDraft) -> None:
    """A column per (port, protocol, address): one pod at most.

    A pod that binds all addresses takes every address of the port, so it meets
    every other pod, while two pods on different addresses do not meet.
    """
    nodes = draft.snapshot.columns
    addresses: dict[tuple[int, str], dict[str, tuple[Ints, Ints]]] = {}
    asked = {p for _, t in draft.templates for p in t.host_ports}
    for p in sorted(asked, key=lambda p: (p.port, p.protocol, p.host_ip)):
        capacity = np.ones(len(nodes), dtype=np.int64)
        take = np.zeros(len(draft.templates), dtype=np.int64)
        addresses.setdefault((p.port, p.protocol), {})[p.host_ip] = (capacity, take)

    def columns(p: HostPort) -> Iterable[tuple[Ints, Ints]]:
        """The columns that a port of a pod or a node is counted in."""
        here = addresses.get((p.port, p.protocol), {})
        return here.values() if not p.host_ip else [c for a, c in here.items() if a == p.host_ip]

    for k, parts in enumerate(nodes.parts.kinds):
        here = nodes.parts.number == k if parts.host_ports else None
        for p in parts.host_ports:
            for capacity, _ in columns(p):
                capacity[here] = 0
            # A pod that binds all addresses takes also those that no other pod asks for.
            if p.host_ip and "" in addresses.get((p.port, p.protocol), {}):
                addresses[p.port, p.protocol][""][0][here] = 0
    for s, (_, t) in enumerate(draft.templates):
        for p in t.host_ports:
            for _, take in columns(p):
                take[s] += 1
    for (port, protocol), by_address in addresses.items():
        for address, (capacity, take) in by_address.items():
            name = f"{protocol} host port {port} {address}".rstrip()
            draft.columns.append(Column(name, capacity, take))
