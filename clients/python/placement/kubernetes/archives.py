"""Compressed files: snapshot archives of KAI, and plain gzip.

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
from typing import Any, Final

from placement.kubernetes.bounded_files import read_stream

_UNPACKED: Final = " when it is unpacked"
_SNAPSHOT_SUFFIX: Final = ".json"
_ZIP: Final = b"PK\x03\x04"
_GZIP: Final = b"\x1f\x8b"

#: Lists of a snapshot and what they hold. Others, such as config maps, are not read.
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
#: What a container may keep: all else may hold secrets and does not bear on placement.
_CONTAINER: Final = ("name", "image", "resources", "ports", "restartPolicy")
_CONTAINERS: Final = ("containers", "initContainers")
#: A copy of the whole object, and who wrote which field.
_COPIES: Final = "kubectl.kubernetes.io/last-applied-configuration"


class ArchiveError(ValueError):
    """The file is not an archive that can be read."""


def is_archive(content: bytes) -> bool:
    """Whether the bytes are a ZIP or gzip file, whatever the file is called."""
    return content.startswith((_ZIP, _GZIP))


def unpacked(content: bytes) -> str | list[Any]:
    """The text of a gzip file, or the objects of a snapshot archive.

    Raises `ArchiveError`.
    """
    try:
        if content.startswith(_GZIP):
            with gzip.open(io.BytesIO(content)) as stream:
                return read_stream(stream, _UNPACKED).decode("utf-8-sig")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [n for n in archive.namelist() if n.endswith(_SNAPSHOT_SUFFIX)]
            if len(names) != 1:
                raise ArchiveError("holds no snapshot.json: not a snapshot archive of KAI")
            with archive.open(names[0]) as stream:
                text = read_stream(stream, _UNPACKED).decode("utf-8-sig")
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
    except ValueError as error:
        raise ArchiveError(str(error)) from error
    try:
        snapshot = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"{names[0]} is not valid JSON: {error}") from error
    raw = snapshot.get("rawObjects") if isinstance(snapshot, dict) else None
    if not isinstance(raw, dict):
        raise ArchiveError(f"{names[0]} holds no rawObjects: not a snapshot of KAI")
    return list(_objects(raw))


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
