"""Our CRDs against Grove's own, where those are at hand (PLACEMENT_SHARED, or ../shared)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.cluster import apiserver, binaries
from tests.cluster.api import NAMESPACES, POD_GANGS, TOPOLOGY_BINDINGS
from tests.cluster.apiserver import ApiServer
from tests.cluster.build import (
    clique,
    clique_set,
    pack,
    scaling_group,
    topology_binding,
)
from tests.cluster.grove import GroveStandIn
from tests.shared_inputs import SHARED

_THEIRS: Final = SHARED / "data" / "grove-yaml" / "crds"

needs_theirs = pytest.mark.skipif(not _THEIRS.is_dir(), reason="Grove's CRDs are not at hand")


def _crd(directory: Path, kind: str) -> dict[str, Any]:
    for file in directory.glob("*.yaml"):
        for body in filter(None, yaml.safe_load_all(file.read_text())):
            if body["spec"]["names"]["kind"] == kind:
                found: dict[str, Any] = body
                return found
    raise AssertionError(f"no {kind} in {directory}")


def _fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Path, type and obligations of every field of a schema."""
    yield path, schema["type"], tuple(sorted(schema.get("required", ())))
    for name, inner in schema.get("properties", {}).items():
        yield from _fields(inner, f"{path}.{name}")
    if "items" in schema:
        yield from _fields(schema["items"], f"{path}[]")


def _schema(crd: dict[str, Any]) -> dict[str, Any]:
    (version,) = crd["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


@needs_theirs
@pytest.mark.parametrize("kind", ["PodGang", "ClusterTopologyBinding"])
def test_our_crd_has_fields_of_groves_with_the_same_types_and_obligations(kind: str) -> None:
    ours, theirs = _crd(apiserver.CRDS_DIRECTORY, kind), _crd(_THEIRS, kind)
    assert set(_fields(_schema(ours))) <= set(_fields(_schema(theirs)))
    for part in ("group", "scope", "names"):
        assert ours["spec"][part] == theirs["spec"][part]
    (version,) = theirs["spec"]["versions"]
    assert (version["name"], version["subresources"]) == ("v1alpha1", {"status": {}})


@needs_theirs
def test_our_pod_gang_lacks_no_field_of_groves() -> None:
    ours, theirs = (_crd(d, "PodGang") for d in (apiserver.CRDS_DIRECTORY, _THEIRS))
    known = {path for path, _, _ in _fields(_schema(ours)["properties"]["spec"])}
    assert known == {path for path, _, _ in _fields(_schema(theirs)["properties"]["spec"])}


@needs_theirs
def test_groves_crds_take_what_the_stand_in_writes(
    api_server_binaries: binaries.Binaries, tmp_path: Path
) -> None:
    server = ApiServer(api_server_binaries, tmp_path / "server")
    server.start()
    try:
        server.install_crds(_THEIRS)
        api = server.api()
        api.create(NAMESPACES, {"metadata": {"name": "ml"}})
        topology = topology_binding("gpus", block="example.com/block", rack="example.com/rack")
        api.create(TOPOLOGY_BINDINGS, topology)
        serve = clique_set(
            "serve",
            clique("router", 1),
            clique("decode", 2, constraint=pack(required="rack")),
            groups=[
                scaling_group("pair", ["decode"], replicas=2, constraint=pack(preferred="rack"))
            ],
            constraint=pack(required="block", topology="gpus"),
            namespace="ml",
        )
        body = api.request("POST", "/apis/grove.io/v1alpha1/namespaces/ml/podcliquesets", serve)
        assert body["kind"] == "PodCliqueSet"
        grove = GroveStandIn(api)
        grove.apply(serve, topology)
        grove.settle()
        names = [gang["metadata"]["name"] for gang in api.items(POD_GANGS, "ml")]
        assert names == ["serve-0", "serve-0-pair-0"]
        api.close()
    finally:
        server.stop()
