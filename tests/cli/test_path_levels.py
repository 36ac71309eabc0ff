"""Levels whose domains are paths of labels, as people read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from placement.cli.main import main
from placement.testing import serve
from tests.kubernetes.build import container, kai_pod_group, node, pod, thing

RACK = "topology.example.com/rack"
ZONE = "topology.example.com/zone"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serve() as address:
        yield address


def test_a_level_whose_domains_are_paths_is_relaxed_to_the_one_above(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both zones have racks "r0" and "r1" of one node each."""
    nodes = [node(f"{z}-{r}", labels={ZONE: z, RACK: r}) for z in "pq" for r in ("r0", "r1")]
    levels = [{"nodeLabel": ZONE}, {"nodeLabel": RACK}]
    topology = thing("Topology", "kai.scheduler/v1alpha1", "t", spec={"levels": levels})
    wanted = {"topology": "t", "requiredTopologyLevel": RACK}
    wide = kai_pod_group("wide", minMember=2, topologyConstraint=wanted)
    member = {"annotations": {"pod-group-name": "wide"}}
    pods = [pod(f"wide-{i}", metadata=member, containers=[container(gpu="8")]) for i in range(2)]
    items = [*nodes, topology, wide, *pods]
    file = tmp_path / "cluster.yaml"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    asked = ["explain", "--gang", "ml/wide", "-f", str(file), "--server", server, "-o", "json"]
    assert main(asked) == 0
    remedies = {one["kind"]: one for one in json.loads(capsys.readouterr().out)["remedies"]}
    assert (remedies["RELAX"]["level"], remedies["RELAX"]["to"]) == (RACK, ZONE)
    assert f"instead of {RACK} " in remedies["RELAX"]["message"]
