"""Expansion against what Grove's own operator made of the same PodCliqueSets.

The recorded objects lie outside this repository: in the folder named by PLACEMENT_SHARED, or
beside the checkout. Of random names only their number is compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from placement.kubernetes import Objects, expand
from tests.shared_inputs import SHARED

RECORDED = SHARED / "data" / "grove-recorded"
#: Recorded while their termination delay ran out; not all pods are there.
_UNRELIABLE = ("g-auto-mnnvl", "g-workload1-gt", "g-workload2-gt")
FOLDERS = sorted(
    file.parent.parent.name
    for file in RECORDED.glob("*/initialized/podgangs.json")
    if not file.parent.parent.name.startswith(_UNRELIABLE)
)

pytestmark = pytest.mark.skipif(not FOLDERS, reason="no recorded objects of Grove at hand")

Body = dict[str, Any]


def documents(file: Path) -> Iterator[Body]:
    return filter(None, yaml.safe_load_all(file.read_text()))


def recorded(folder: str, kind: str) -> list[Body]:
    found: Any = json.loads((RECORDED / folder / "initialized" / kind).read_text())
    objects: list[Body] = found["items"] if isinstance(found, dict) else found
    return objects


def expanded(folder: str) -> list[Body]:
    sets = [b for b in documents(RECORDED / folder / "applied.yaml") if b["kind"] == "PodCliqueSet"]
    for one in sets:
        one["metadata"].setdefault("namespace", folder)
    return expand(Objects.of([*sets, *documents(RECORDED / "ctb.yaml")]))


def comparable(gang: Body) -> Body:
    """A gang without what the API server writes, and its pods by their number."""
    metadata = {k: gang["metadata"].get(k) for k in ("name", "namespace", "labels", "annotations")}
    groups = [
        {**group, "podReferences": len(group["podReferences"])}
        for group in gang["spec"]["podgroups"]
    ]
    conditions = [
        {k: v for k, v in condition.items() if k != "lastTransitionTime"}
        for condition in gang["status"]["conditions"]
    ]
    return {"metadata": metadata, "spec": {**gang["spec"], "podgroups": groups}, "is": conditions}


def name(gang: Body) -> str:
    return str(gang["metadata"]["name"])


@pytest.mark.parametrize("folder", FOLDERS)
def test_gangs_are_those_of_grove(folder: str) -> None:
    gangs = [body for body in expanded(folder) if body["kind"] == "PodGang"]
    want = {
        gang["metadata"]["name"]: comparable(gang) for gang in recorded(folder, "podgangs.json")
    }
    assert {gang["metadata"]["name"]: comparable(gang) for gang in gangs} == want


@pytest.mark.parametrize("folder", FOLDERS)
def test_pods_are_those_of_grove(folder: str) -> None:
    """By their host names, for the ends of the others are random."""

    def facts(pod: Body) -> Body:
        labels = pod["metadata"]["labels"]
        return {
            # A digest of the template as Go writes it.
            "labels": {k: v for k, v in labels.items() if k != "grove.io/pod-template-hash"},
            "claims": pod["spec"].get("resourceClaims"),
            "claims of containers": [
                (one.get("resources") or {}).get("claims") for one in pod["spec"]["containers"]
            ],
        }

    made = {p["spec"]["hostname"]: facts(p) for p in expanded(folder) if p["kind"] == "Pod"}
    want = {p["spec"]["hostname"]: facts(p) for p in recorded(folder, "pods.json")}
    assert made == want
