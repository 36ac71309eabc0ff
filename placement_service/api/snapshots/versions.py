"""Versions of snapshots, decoded and ready, and the request about one.

A version never changes. One that is made from another shares with it all that is the same: the cost
of a request grows with what has changed, and no node is read, checked or encoded twice. Nodes and
running pods are in order of their names, whatever the order in the request: the same content gets
the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple, Self

from placement.v1 import ClusterSnapshot, ComputePlacementRequest
from placement_service.api import size
from placement_service.api.envelope import framed
from placement_service.api.snapshots import content
from placement_service.api.snapshots.content import Entries
from placement_service.api.validation.names import show
from placement_service.api.wire import requests
from placement_service.api.wire.slices import Encodings, canonical, encodings
from placement_service.entities.errors import InvalidRequest, Violation
from placement_service.entities.nodes import NO_NODES, Nodes
from placement_service.entities.request import Request, RunningPod

#: What decoded content takes, as a multiple of its encoding.
DECODED = 6

#: What a version takes for each entry that it shares with the version before, in bytes.
SHARED = 100

_SNAPSHOT = ComputePlacementRequest.SNAPSHOT_FIELD_NUMBER
_NODES, _PODS = ClusterSnapshot.NODES_FIELD_NUMBER, ClusterSnapshot.PODS_FIELD_NUMBER


@dataclass(frozen=True, eq=False)  # no slots: cached_property keeps its value in the instance
class Version:
    """One snapshot's nodes and running pods, decoded.

    `changes` and `changed_bytes` count what the edge keeps to make it from a whole snapshot.
    """

    nodes: Nodes
    pods: tuple[RunningPod, ...]
    node_entries: Entries
    pod_entries: Entries
    changes: int = 0
    changed_bytes: int = 0

    @cached_property
    def digest(self) -> bytes:
        return content.digest(self.node_entries, self.pod_entries)

    @property
    def size(self) -> int:
        """Bytes of all encodings."""
        return self.node_entries.size + self.pod_entries.size

    @cached_property
    def cost(self) -> int:
        """Bytes that it takes in memory, about."""
        if not self.changes:
            return DECODED * self.size
        entries = len(self.node_entries.names) + len(self.pod_entries.names)
        return SHARED * entries + DECODED * self.changed_bytes

    def whole(self) -> bytes:
        """A request that holds the version as a whole."""
        body = b"".join(chain(self.node_entries.written(_NODES), self.pod_entries.written(_PODS)))
        return b"".join((*framed(_SNAPSHOT, len(body)), body))

    def settled(self) -> Self:
        """The same, told as a whole."""
        return replace(self, changes=0, changed_bytes=0)


EMPTY = Version(NO_NODES, (), Entries(), Entries())


class Read(NamedTuple):
    """A request in which nothing is left to look up, and the version that it is about."""

    request: Request
    version: Version


def read(message: ComputePlacementRequest, base: Version | None) -> Read:
    """The request in a message; `base` is the one that it names, if it names one.

    Raises InvalidRequest with every violation. Paths are those of the message.
    """
    size.check_message(message)
    found: list[Violation] = []
    encoded = canonical(message.snapshot)
    told = requests.parse_told(message, encoded, found)
    found += _misplaced(message, base)
    version = EMPTY if base is None else base
    if not found:
        version = _updated(version, message, told, encodings(encoded))
    nodes, pods = version.nodes, version.pods
    whole = replace(told, snapshot=replace(told.snapshot, nodes=nodes, running_pods=pods))
    requests.check(told, told if found else whole, found)
    return Read(whole, version)


def _misplaced(message: ComputePlacementRequest, base: Version | None) -> Iterator[Violation]:
    """Violations: names said to be gone that are not in the base, or are set as well."""
    if base is None:
        return
    change, snapshot = message.base, message.snapshot
    set_nodes, set_pods = {n.name for n in snapshot.nodes}, {p.name for p in snapshot.pods}
    for field, gone, entries, present in (
        ("base.gone_nodes", change.gone_nodes, base.node_entries, set_nodes),
        ("base.gone_pods", change.gone_pods, base.pod_entries, set_pods),
    ):
        seen: set[str] = set()
        for i, name in enumerate(gone):
            if entries.find(name) is None:
                yield Violation(f"{field}[{i}]", f"{show(name)} is not in the base")
            elif name in present:
                yield Violation(f"{field}[{i}]", f"{show(name)} is set by this request as well")
            elif name in seen:
                yield Violation(f"{field}[{i}]", f"{show(name)} is named twice")
            seen.add(name)


def _updated(
    base: Version, message: ComputePlacementRequest, told: Request, encoded: Encodings
) -> Version:
    """The version after what a message says; names in it are to be unique and in their place."""
    snapshot, gone = told.snapshot, message.base
    nodes = base.node_entries.changed(encoded.nodes, snapshot.columns.names, gone.gone_nodes)
    pods = base.pod_entries.changed(
        encoded.pods, [pod.name for pod in snapshot.running_pods], gone.gone_pods
    )
    _check_length("snapshot.nodes", nodes.content, size.MAX_NODES)
    _check_length("snapshot.pods", pods.content, size.MAX_PODS)
    known = base is not EMPTY
    columns = snapshot.columns
    if known:
        columns = base.nodes.updated(columns, gone.gone_nodes)
    return Version(
        columns.in_order() if nodes.rows is not None else columns,
        pods.arranged(base.pods, snapshot.running_pods),
        nodes.content,
        pods.content,
        base.changes + 1 if known else 0,
        base.changed_bytes + _bytes_of(message) if known else 0,
    )


def _bytes_of(message: ComputePlacementRequest) -> int:
    return message.snapshot.ByteSize() + message.base.ByteSize()


def _check_length(field: str, entries: Entries, most: int) -> None:
    if len(entries.names) > most:
        problem = f"holds {len(entries.names):,} entries with those of the base, at most {most:,}"
        raise InvalidRequest([Violation(field, problem)])
