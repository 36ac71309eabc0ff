"""Levels whose domains are paths of labels, as people read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placement.cli.main import main
from tests.kubernetes.build import container, kai_pod_group, node, pod, thing

BLOCK = "topology.example.com/block"
RACK = "topology.example.com/rack"
ZONE = "topology.example.com/zone"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Both zones have racks "r0" and "r1" of one node each, and a gang requires two nodes of a
    rack."""
    nodes = [node(f"{z}-{r}", labels={ZONE: z, RACK: r}) for z in "pq" for r in ("r0", "r1")]
    levels = [{"nodeLabel": ZONE}, {"nodeLabel": RACK}]
    topology = thing("Topology", "kai.scheduler/v1alpha1", "t", spec={"levels": levels})
    wanted = {"topology": "t", "requiredTopologyLevel": RACK}
    wide = kai_pod_group("wide", minMember=2, topologyConstraint=wanted)
    member = {"annotations": {"pod-group-name": "wide"}}
    pods = [pod(f"wide-{i}", metadata=member, containers=[container(gpu="8")]) for i in range(2)]
    items = [*nodes, topology, wide, *pods]
    path = tmp_path / "cluster.yaml"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    return str(path)


def test_a_level_whose_domains_are_paths_is_relaxed_to_the_one_above(
    service: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["explain", "--gang", "ml/wide", "-f", file, "--server", service, "-o", "json"]
    assert main(asked) == 0
    remedies = {one["kind"]: one for one in json.loads(capsys.readouterr().out)["remedies"]}
    assert (remedies["RELAX"]["level"], remedies["RELAX"]["to"]) == (RACK, ZONE)
    assert f"instead of {RACK} " in remedies["RELAX"]["message"]


@pytest.mark.parametrize("output", ["table", "html", "json"])
def test_an_answer_names_levels_as_the_input_does(
    service: str, file: str, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    assert main(["plan", "-f", file, "--server", service, "-o", output]) == 0
    told = capsys.readouterr().out
    assert "path" not in told
    if output == "json":
        answer = json.loads(told)
        (reason,) = answer["podGangs"][0]["reasons"]
        assert reason["level"] == RACK
        assert reason["message"] == (
            "rack p.r0 has room for 1 of 2 pods of 8 nvidia.com/gpu; no other rack has more"
            f" (required level {RACK})."
        )
        assert answer["room"]["freeDomains"][RACK] == 4


@pytest.mark.parametrize("value", ["p.r1", "r1"])
def test_a_domain_to_add_is_named_by_its_path_or_where_that_is_clear_by_its_value(
    service: str, file: str, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    add = ["--add", f"1={RACK}:{value}"]
    asked = ["plan", "-f", file, "--server", service, *add, "-o", "json"]
    if value == "r1":
        assert main(asked) == 2
        assert "may be any of p.r1, q.r1" in capsys.readouterr().err
    else:
        assert main(asked) == 0
        assert json.loads(capsys.readouterr().out)["room"]["freeDomains"][RACK] == 5


def test_a_level_is_relaxed_to_paths_also_where_its_own_label_says_the_same(
    service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        node(f"{r}-{i}", labels={ZONE: z, BLOCK: "b", RACK: r})
        for z, r in (("p", "r0"), ("p", "r1"), ("q", "r2"))
        for i in range(2 if z == "q" else 1)
    ]
    levels = [{"nodeLabel": ZONE}, {"nodeLabel": BLOCK}, {"nodeLabel": RACK}]
    topology = thing("Topology", "kai.scheduler/v1alpha1", "t", spec={"levels": levels})
    wanted = {"topology": "t", "requiredTopologyLevel": RACK}
    wide = kai_pod_group("wide", minMember=3, topologyConstraint=wanted)
    member = {"annotations": {"pod-group-name": "wide"}}
    pods = [pod(f"wide-{i}", metadata=member, containers=[container(gpu="8")]) for i in range(3)]
    path = tmp_path / "cluster.yaml"
    path.write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": [*nodes, topology, wide, *pods]})
    )
    asked = ["explain", "--gang", "ml/wide", "-f", str(path), "--server", service, "-o", "json"]
    assert main(asked) == 0
    remedies = {one["kind"]: one for one in json.loads(capsys.readouterr().out)["remedies"]}
    # The block "b" of each zone has two nodes.
    assert remedies["RELAX"]["to"] is None


def test_a_level_is_never_relaxed_to_a_narrower_label(
    service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each zone has one rack of one node, and the label of both racks is "r0"."""
    nodes = [node(f"{z}-r0", labels={ZONE: z, RACK: "r0"}) for z in "pq"]
    levels = [{"nodeLabel": ZONE}, {"nodeLabel": RACK}]
    topology = thing("Topology", "kai.scheduler/v1alpha1", "t", spec={"levels": levels})
    wanted = {"topology": "t", "requiredTopologyLevel": ZONE}
    wide = kai_pod_group("wide", minMember=2, topologyConstraint=wanted)
    member = {"annotations": {"pod-group-name": "wide"}}
    pods = [pod(f"wide-{i}", metadata=member, containers=[container(gpu="8")]) for i in range(2)]
    path = tmp_path / "cluster.yaml"
    path.write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": [*nodes, topology, wide, *pods]})
    )
    asked = ["explain", "--gang", "ml/wide", "-f", str(path), "--server", service, "-o", "json"]
    assert main(asked) == 0
    remedies = {one["kind"]: one for one in json.loads(capsys.readouterr().out)["remedies"]}
    assert (remedies["RELAX"]["level"], remedies["RELAX"]["to"]) == (ZONE, None)
