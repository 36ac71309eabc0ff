"""Volumes, claims on them, and how pods mount these."""

from __future__ import annotations

from typing import Any

from tests.kubernetes.build import (
    Body,
    thing,
)

ZONE, DISK = "example.com/zone", "example.com/disk"


def claim(name: str, volume: str = "", storage_class: str | None = "late", **status: str) -> Body:
    spec: Body = {"volumeName": volume} if volume else {}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return thing("PersistentVolumeClaim", "v1", name, namespace="ml", spec=spec, status=status)


def volume(name: str, **labels: list[str]) -> Body:
    spec: Body = {}
    if labels:
        terms = [{"matchExpressions": [
            {"key": f"example.com/{key}", "operator": "In", "values": values}
            for key, values in labels.items()]}]  # fmt: skip
        spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    return thing("PersistentVolume", "v1", name, spec=spec)


def storage_class(name: str = "late", mode: str = "WaitForFirstConsumer", **more: Any) -> Body:
    metadata = more.pop("metadata", {})
    return thing("StorageClass", "storage.k8s.io/v1", name, metadata=metadata,
                 volumeBindingMode=mode, **more)  # fmt: skip


def mounts(*claims: str) -> list[Body]:
    return [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": c}}
            for i, c in enumerate(claims)]  # fmt: skip
