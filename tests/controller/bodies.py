"""Pods and PodGangs for tests that need no API server."""

from __future__ import annotations

from typing import Any

from tests.kubernetes import build

OURS = "placement-service"
INITIALIZED = {"conditions": [{"type": "Initialized", "status": "True"}]}


def pod(name: str, *, uid: str = "1", node: str = "", **spec: Any) -> build.Body:
    placed: build.Body = {"nodeName": node}
    return build.pod(
        name,
        metadata={"uid": uid},
        schedulerName=OURS,
        **(placed if node else {}),
        **spec,
    )


def member(name: str, *, base: str = "", **more: Any) -> build.Body:
    """A pod, of a gang that stands on a base where one is named."""
    body = pod(name, **more)
    if base:
        body["metadata"]["labels"] = {"grove.io/base-podgang": base}
    return body


def gang(name: str, *pods: str, **spec: Any) -> build.Body:
    return build.gang(
        name,
        metadata={"uid": name, "generation": 1},
        status=INITIALIZED,
        podgroups=[build.group("worker", *pods)],
        **spec,
    )
