"""Host ports as columns: a node has each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from placement_service.entities.request import HostPort
from placement_service.formulation.rules.draft import Column, RuleDraft


@dataclass(slots=True)
class _Address:
    """One address of a port: how often each pod class takes it, and kinds of nodes without it."""

    takes: Counter[int] = field(default_factory=Counter)
    in_use: set[int] = field(default_factory=set)


def column_name(protocol: str, port: int, ip: str) -> str:
    """The column of a port on one address, or on all."""
    return f"{protocol} host port {port} {ip}".rstrip()


def is_host_port(column: str) -> bool:
    """Whether a column is that of a host port."""
    return " host port " in column


def formulate(draft: RuleDraft) -> None:
    """A column per (port, protocol, address): one pod at most.

    A pod that binds all addresses takes every address of the port, so it meets
    every other pod, while two pods on different addresses do not meet. Those that the same pods
    take and the same nodes have are one column: where one is free the others are.
    """
    nodes = draft.snapshot.columns
    addresses: dict[tuple[int, str], dict[str, _Address]] = {}
    asked = {p for _, t in draft.templates for p in t.host_ports}
    for p in sorted(asked, key=lambda p: (p.port, p.protocol, p.host_ip)):
        addresses.setdefault((p.port, p.protocol), {})[p.host_ip] = _Address()

    def met(p: HostPort) -> Iterable[_Address]:
        """The addresses that a port of a pod or a node is counted in."""
        here = addresses.get((p.port, p.protocol), {})
        return here.values() if not p.host_ip else [a for ip, a in here.items() if ip == p.host_ip]

    for k, parts in enumerate(nodes.parts.kinds):
        for p in parts.host_ports:
            for address in met(p):
                address.in_use.add(k)
            # A pod that binds all addresses takes also those that no other pod asks for.
            if p.host_ip and "" in addresses.get((p.port, p.protocol), {}):
                addresses[p.port, p.protocol][""].in_use.add(k)
    for s, (_, t) in enumerate(draft.templates):
        for p in t.host_ports:
            for address in met(p):
                address.takes[s] += 1
    seen: set[object] = set()
    for (port, protocol), by_address in addresses.items():
        for ip, address in by_address.items():
            alike = frozenset(address.takes.items()), frozenset(address.in_use)
            if alike in seen:
                continue
            seen.add(alike)
            take = np.zeros(len(draft.templates), dtype=np.int64)
            take[list(address.takes)] = list(address.takes.values())
            kinds = np.zeros(len(nodes.parts.kinds), dtype=bool)
            kinds[list(address.in_use)] = True
            capacity = (~kinds[nodes.parts.number]).astype(np.int64)
            draft.columns.append(Column(column_name(protocol, port, ip), capacity, take))
