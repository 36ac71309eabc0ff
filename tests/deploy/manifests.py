"""What is deployed: the modes, and what may be added to them."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from tests.cluster.api import Body
from tests.deploy.kustomization import rendered

DEPLOY = Path(__file__).parents[2] / "deploy"


ACCOUNT = "system:serviceaccount:placement-system:placement-controller"


#: What is applied as it is; the other folders are parts of these.
MODES = ("service", "bind", "dry-run", "advise-kube-scheduler", "advise-kai", "advise-koordinator")


COMPONENTS = ("cert-manager", "eviction", "monitoring", "release", "tracing")


#: Kinds that no API server knows by itself.
_FOREIGN = ("cert-manager.io", "monitoring.coreos.com")


def manifests(mode: str = "bind") -> list[Body]:
    """What a mode is made of, except the kinds of others."""
    return [
        body
        for body in rendered(DEPLOY / mode)
        if body["apiVersion"].partition("/")[0] not in _FOREIGN
    ]


def with_component(component: str, mode: str, folder: Path) -> Path:
    """A kustomization in `folder` that adds a component to a mode, as a user would write it."""
    text = yaml.safe_dump(
        {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(DEPLOY / mode, folder)],
            "components": [os.path.relpath(DEPLOY / component, folder)],
        }
    )
    (folder / "kustomization.yaml").write_text(text)
    return folder
