"""Compressed files: gzip, ZIP archives of manifests, and snapshot archives of KAI.

KAI's scheduler gives its whole view of a cluster as a ZIP with one file, `snapshot.json`.
It holds plain objects, each list under the name of its kind, and with them private data:
environments of containers, commands, config maps. These are left out before anything else sees
them.
"""

from __future__ import annotations

import gzip
import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from placement.kubernetes.files import bounded_files
from placement.kubernetes.files.bounded_files import Readable, read_stream

#: The endings of files that are read; all others in a folder or an archive are skipped.
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})

#: Files of an archive that are read.
MOST_FILES: Final = 10_000

#: Manifests shrink to a fiftieth. A file that grows further than this is made to fill the memory.
_MOST_GROWTH: Final = 250
_ALWAYS_TAKEN: Final = 64 << 20

#: Where metadata of macOS lies beside the files themselves.
_MACOS: Final = "__MACOSX"
_RAW: Final = "rawObjects"
_ZIP: Final = b"PK\x03\x04"
_GZIP: Final = b"\x1f\x8b"

#: Lists of a snapshot and what they hold.
_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "pods": ("v1", "Pod"),
    "nodes": ("v1", "Node"),
    "queues": ("scheduling.run.ai/v2", "Queue"),
    "podGroups": ("scheduling.run.ai/v2alpha2", "PodGroup"),
    "bindRequests": ("scheduling.run.ai/v1alpha2", "BindRequest"),
    "priorityClasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "topologies": ("kai.scheduler/v1alpha1", "Topology"),
    "persistentVolumeClaims": ("v1", "PersistentVolumeClaim"),
    "persistentVolumes": ("v1", "PersistentVolume"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "resourceClaims": ("resource.k8s.io/v1", "ResourceClaim"),
    "resourceSlices": ("resource.k8s.io/v1", "ResourceSlice"),
    "deviceClasses": ("resource.k8s.io/v1", "DeviceClass"),
}
#: Lists that do not matter to placement; config maps may hold secrets, too.
_LEFT_OUT: Final = ("configMaps", "csiStorageCapacities", "csiDrivers", "nodeResourceTopologies")
#: What a container may keep: all other fields may hold secrets and do not matter to placement.
_CONTAINER: Final = ("name", "image", "resources", "ports", "restartPolicy")
_CONTAINERS: Final = ("containers", "initContainers")
#: A copy of the whole object, and the writers of each field.
_COPIES: Final = "kubectl.kubernetes.io/last-applied-configuration"


class ArchiveError(ValueError):
    """The file is not an archive that can be read."""


def is_archive(content: bytes) -> bool:
    """Whether the bytes are a ZIP or gzip file, whatever the file is called."""
    return content.startswith((_ZIP, _GZIP))


class Unpacked(NamedTuple):
    """A file of an archive: its text, or its objects. A gzip file has no name, nor has the
    only file of a snapshot of KAI. `skipped` are lists of a snapshot that are not known."""

    name: str
    content: str | list[Any]
    skipped: tuple[str, ...] = ()


def unpacked(content: bytes) -> Iterator[Unpacked]:
    """The content of a compressed file: the files of a ZIP that may be manifests, in order of name,
    one at a time.

    Raises `ArchiveError`.
    """
    room = _Room(len(content))
    try:
        if content.startswith(_GZIP):
            with gzip.open(io.BytesIO(content)) as stream:
                yield Unpacked("", room.text(stream))
            return
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            yield from _files(archive, room)
    except UnicodeDecodeError as error:
        raise ArchiveError("its content is not text in UTF-8") from error
    except (
        OSError,
        EOFError,
        zlib.error,
        zipfile.BadZipFile,
        RuntimeError,
        NotImplementedError,
    ) as error:
        raise ArchiveError(f"cannot be unpacked: {error}") from error


class _Room:
    """How much an archive may still unpack."""

    def __init__(self, packed: int) -> None:
        most = max(_ALWAYS_TAKEN, _MOST_GROWTH * packed)
        self._most = self._left = min(bounded_files.MOST_BYTES, most)

    def text(self, stream: Readable[bytes]) -> str:
        try:
            read = read_stream(stream, most=self._left)
        except ValueError as error:
            problem = f"is larger than {self._most >> 20} MiB when it is unpacked"
            raise ArchiveError(problem) from error
        self._left -= len(read)
        return read.decode("utf-8-sig")


def _files(archive: zipfile.ZipFile, room: _Room) -> Iterator[Unpacked]:
    chosen = sorted(filter(_is_read, archive.infolist()), key=lambda info: info.filename)
    if not chosen:
        raise ArchiveError("holds no .yaml, .yml or .json file")
    if len(chosen) > MOST_FILES:
        raise ArchiveError(f"holds {len(chosen):,} files, at most {MOST_FILES:,}")
    for info in chosen:
        name = info.filename if info.filename.isprintable() else ascii(info.filename)
        try:
            with archive.open(info) as stream:
                text = room.text(stream)
        except UnicodeDecodeError as error:
            raise ArchiveError(f"{name} in it is not text in UTF-8") from error
        yield _snapshot(text) or Unpacked(name, text)


def _is_read(info: zipfile.ZipInfo) -> bool:
    path = PurePosixPath(info.filename)
    return path.suffix in SUFFIXES and _MACOS not in path.parts and not info.is_dir()


def _snapshot(text: str) -> Unpacked | None:
    """The objects of a snapshot of KAI; None for any other text."""
    if f'"{_RAW}"' not in text:
        return None
    try:
        snapshot = json.loads(text)
    except (ValueError, RecursionError):
        return None
    raw = snapshot.get(_RAW) if isinstance(snapshot, dict) else None
    if not isinstance(raw, dict):
        return None
    skipped = tuple(key for key in raw if raw[key] and key not in (*_KINDS, *_LEFT_OUT))
    return Unpacked("", list(_objects(raw)), skipped)


def _objects(raw: Mapping[str, Any]) -> Iterator[Any]:
    for key, (version, kind) in _KINDS.items():
        bodies = raw.get(key)
        if bodies is not None and not isinstance(bodies, list):
            raise ArchiveError(f"rawObjects.{key} must be a list")
        for body in bodies or ():
            if isinstance(body, dict):
                yield _without_secrets({"apiVersion": version, "kind": kind, **body})
            else:
                yield body


def _without_secrets(body: dict[str, Any]) -> dict[str, Any]:
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
        if isinstance(metadata.get("annotations"), dict):
            metadata["annotations"].pop(_COPIES, None)
    spec = body.get("spec")
    if body["kind"] == "Pod" and isinstance(spec, dict):
        for field in _CONTAINERS:
            containers = spec.get(field)
            if isinstance(containers, list):
                spec[field] = [
                    {f: c[f] for f in _CONTAINER if f in c} if isinstance(c, dict) else c
                    for c in containers
                ]
        spec.pop("ephemeralContainers", None)
    return body
