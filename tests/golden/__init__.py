"""Messages in JSON, and the bytes that every language makes of them.

A pair of files for each: ``<message type>.<name>.json`` as a person would write it and
``.binpb``, its deterministic encoding: fields by number, maps by key. The tests of Python
(tests/proto/test_golden.py) and of Go (clients/go/stubs) read the same files.

    python -m tests.golden            tells which would change, after a change of proto/
    python -m tests.golden --write    writes them

New bytes for the same JSON are a change of the wire: do not commit that lightly.

Of two keys of a map where one begins the other ("app", "app/name"), Python's protobuf writes
the longer first and Go's the shorter. Both are right: the encoding is deterministic for one
library, and not canonical. So no golden message holds such keys. The digest of a snapshot is of
an encoding that is canonical (see ``Placement.snapshot_digest``): ``digests/snapshots.json``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from google.protobuf import json_format
from google.protobuf.descriptor_pool import Default
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

# What their types are found by.
from placement import v1 as _v1  # noqa: F401
from placement.kubernetes import v1 as _kubernetes_v1  # noqa: F401
from placement.v1 import ComputePlacementRequest
from placement_service.api.snapshots import content
from placement_service.api.snapshots.content import Entries
from placement_service.api.wire.slices import canonical, encodings

FOLDER = Path(__file__).parent

#: The digests of the snapshots in requests, by the names of their files.
DIGESTS = FOLDER / "digests" / "snapshots.json"


def files() -> Iterator[Path]:
    """The JSON files."""
    return iter(sorted(FOLDER.glob("*.json")))


def parse(file: Path) -> Message:
    """The message of a JSON file."""
    kind = ".".join(file.name.split(".")[:-2])
    message: Message = GetMessageClass(Default().FindMessageTypeByName(kind))()
    return json_format.Parse(file.read_text(), message)


def snapshot_digest(message: Message) -> str:
    """The digest of the snapshot in a request, "" where there is none."""
    if not isinstance(message, ComputePlacementRequest):
        return ""
    snapshot = message.snapshot
    encoded = encodings(canonical(snapshot))
    nodes = Entries().changed(encoded.nodes, [node.name for node in snapshot.nodes], ())
    pods = Entries().changed(encoded.pods, [pod.name for pod in snapshot.pods], ())
    return content.text(content.digest(nodes.content, pods.content))


def encode(message: Message) -> bytes:
    """The one encoding that equal messages have."""
    return message.SerializeToString(deterministic=True)
