"""Kustomizations as `kubectl kustomize` reads them: as much of it as deploy/ uses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.api import Body

#: What is understood of a kustomization; anything else is refused.
_KNOWN = {
    *("apiVersion", "kind", "resources", "components", "patches", "images"),
    "configMapGenerator",
}


def rendered(folder: Path) -> list[Body]:
    """Everything that applying a folder makes."""
    return _extended(folder, [])


def _extended(folder: Path, before: list[Body]) -> list[Body]:
    """The objects so far, with what a folder adds and changes."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert kustomization.keys() <= _KNOWN, f"{folder}: {kustomization.keys() - _KNOWN}"
    bodies = list(before)
    for name in kustomization.get("resources", ()):
        path = (folder / name).resolve()
        bodies += rendered(path) if path.is_dir() else _bodies(path)
    bodies += (_config_map(folder, one) for one in kustomization.get("configMapGenerator", ()))
    for name in kustomization.get("components", ()):
        bodies = _extended((folder / name).resolve(), bodies)
    for one in kustomization.get("patches", ()):
        for patch in _bodies(folder / one["path"]):
            (at,) = (i for i, body in enumerate(bodies) if identity(body) == identity(patch))
            bodies[at] = _merged(bodies[at], patch)
    for image in kustomization.get("images", ()):
        for container in _containers(bodies):
            if container["image"] == image["name"]:
                container["image"] = f"{image['name']}:{image['newTag']}"
    return bodies


def identity(body: Body) -> tuple[str, str, str]:
    """Kind, namespace and name."""
    metadata = body["metadata"]
    return body["kind"], metadata.get("namespace", ""), metadata["name"]


def _bodies(path: Path) -> list[Body]:
    return [body for body in yaml.safe_load_all(path.read_text()) if body is not None]


def _config_map(folder: Path, generator: Body) -> Body:
    metadata = {key: generator[key] for key in ("name", "namespace")}
    metadata["labels"] = generator["options"]["labels"]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {name: (folder / name).read_text() for name in generator["files"]},
    }


def _containers(bodies: list[Body]) -> Iterator[Body]:
    for body in bodies:
        if body["kind"] == "Deployment":
            yield from body["spec"]["template"]["spec"]["containers"]


def _merged(old: Any, new: Any) -> Any:
    """A strategic merge: lists of named things are merged by name, the new ones first."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}
    if isinstance(old, list) and all(isinstance(one, dict) and "name" in one for one in old):
        named = {one["name"]: one for one in old}
        found = [_merged(named.pop(one["name"], None), one) for one in new]
        return [*found, *named.values()]
    return json.loads(json.dumps(new))
