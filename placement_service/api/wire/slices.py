"""Nodes as slices of bytes: the same wire, read with another schema.

Most parts of 25,000 nodes are alike. A private schema declares those parts as `bytes`, so that the
parser returns slices without looking into them; equal slices are one kind, and each kind is read
once with the public schema. A repeated and rare part is declared as a single `bytes`: only its
presence is asked for. First the message is written again in its canonical form, in which equal
content has equal bytes. So its text has been checked, and no field occurs twice.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence, Sequence
from typing import Any, NamedTuple, Protocol

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from placement.v1 import cluster_pb2

_FIELD = descriptor_pb2.FieldDescriptorProto


class NodeSlices(Protocol):
    """A node; `labels` are entries in the order of their keys. `host_ports`, `devices` and
    `partitions` only say whether there are any.
    """

    name: str
    labels: MutableSequence[bytes]
    allocatable: bytes
    requested: bytes
    taints: Sequence[bytes]
    unschedulable: bool
    not_ready: bool
    partition_policy: int
    compute_domain: str
    compute_domain_pods: int
    closed_because: str

    def HasField(self, name: str) -> bool: ...


class PartSlices(Protocol):
    """The rare parts of a node."""

    host_ports: Sequence[bytes]
    devices: Sequence[bytes]
    partitions: Sequence[bytes]
    partition_policy: int
    compute_domain: str
    compute_domain_pods: int
    closed_because: str


class _Kind(NamedTuple):
    """How a private schema declares a field."""

    type: _FIELD.Type.ValueType
    repeated: bool = False


_SLICES = _Kind(_FIELD.TYPE_BYTES, repeated=True)
_NODE = {
    "name": _Kind(_FIELD.TYPE_STRING),
    "labels": _Kind(_FIELD.TYPE_BYTES, repeated=True),
    "allocatable": _Kind(_FIELD.TYPE_BYTES),
    "requested": _Kind(_FIELD.TYPE_BYTES),
    "taints": _Kind(_FIELD.TYPE_BYTES, repeated=True),
    "unschedulable": _Kind(_FIELD.TYPE_BOOL),
    "not_ready": _Kind(_FIELD.TYPE_BOOL),
    "host_ports": _Kind(_FIELD.TYPE_BYTES),
    "devices": _Kind(_FIELD.TYPE_BYTES),
    "partitions": _Kind(_FIELD.TYPE_BYTES),
    "partition_policy": _Kind(_FIELD.TYPE_INT32),
    "compute_domain": _Kind(_FIELD.TYPE_STRING),
    "compute_domain_pods": _Kind(_FIELD.TYPE_INT32),
    "closed_because": _Kind(_FIELD.TYPE_STRING),
}
_PARTS = {
    "host_ports": _Kind(_FIELD.TYPE_BYTES, repeated=True),
    "devices": _Kind(_FIELD.TYPE_BYTES, repeated=True),
    "partitions": _Kind(_FIELD.TYPE_BYTES, repeated=True),
    "partition_policy": _Kind(_FIELD.TYPE_INT32),
    "compute_domain": _Kind(_FIELD.TYPE_STRING),
    "compute_domain_pods": _Kind(_FIELD.TYPE_INT32),
    "closed_because": _Kind(_FIELD.TYPE_STRING),
}


def canonical(snapshot: cluster_pb2.ClusterSnapshot) -> bytes:
    """The encoding of a snapshot in which equal content has equal bytes; fields that are not known
    are dropped from it.
    """
    snapshot.DiscardUnknownFields()
    # Protobuf for Python sorts the keys of maps as if each ended in 0xFF, and fields by number.
    # The golden files hold it to that.
    return snapshot.SerializeToString(deterministic=True)


class Slices:
    """The nodes of a snapshot in its canonical encoding, in its order."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.nodes: Sequence[NodeSlices] = list(_NODE_SCHEMA.FromString(content).nodes)

    def parts(self) -> Sequence[PartSlices]:
        """The rare parts of each node."""
        return list(_PART_SCHEMA.FromString(self._content).nodes)


class Encodings(NamedTuple):
    """The canonical encoding of each node and each running pod of a snapshot."""

    nodes: Sequence[bytes]
    pods: Sequence[bytes]


def encodings(content: bytes) -> Encodings:
    """Encodings in the order of a snapshot in its canonical encoding."""
    whole = _ENTRY_SCHEMA.FromString(content)
    return Encodings(list(whole.nodes), list(whole.pods))


def _fields(message: descriptor_pb2.DescriptorProto, of: Any, fields: Mapping[str, _Kind]) -> None:
    """Adds fields with the numbers that they have in a public message."""
    for name, kind in fields.items():
        message.field.add(
            name=name,
            number=of.DESCRIPTOR.fields_by_name[name].number,
            type=kind.type,
            label=_FIELD.LABEL_REPEATED if kind.repeated else _FIELD.LABEL_OPTIONAL,
        )


def _file(name: str) -> descriptor_pb2.FileDescriptorProto:
    package = f"placement_service.{name}"
    return descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto2")


def _entry_schema() -> Any:
    """A class of snapshots whose nodes and pods are slices."""
    file = _file("entry_slices")
    entries = {"nodes": _SLICES, "pods": _SLICES}
    _fields(file.message_type.add(name="Snapshot"), cluster_pb2.ClusterSnapshot, entries)
    return _snapshot_class(file)


def _schema(name: str, fields: Mapping[str, _Kind]) -> Any:
    """A class of messages whose `nodes` are read with these fields."""
    file = _file(name)
    nodes = cluster_pb2.ClusterSnapshot.DESCRIPTOR.fields_by_name["nodes"]
    _fields(file.message_type.add(name="Node"), cluster_pb2.Node, fields)
    file.message_type.add(name="Snapshot").field.add(
        name="nodes",
        number=nodes.number,
        type=_FIELD.TYPE_MESSAGE,
        type_name=f".{file.package}.Node",
        label=_FIELD.LABEL_REPEATED,
    )
    return _snapshot_class(file)


def _snapshot_class(file: descriptor_pb2.FileDescriptorProto) -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.Snapshot"))


_ENTRY_SCHEMA = _entry_schema()
_NODE_SCHEMA = _schema("node_slices", _NODE)
_PART_SCHEMA = _schema("part_slices", _PARTS)
