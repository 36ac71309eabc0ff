"""explain, capacity, repack, diff and replay as people run them, with the real service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from placement import v1
from placement.cli.main import main
from placement.testing import serve
from tests.waiting import wait_until

RACK = "topology.example.com/rack"


def node(name: str, rack: str, *, closed: bool = False) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {RACK: rack, "kubernetes.io/hostname": name}},
        "spec": {"unschedulable": True} if closed else {},
        "status": {"allocatable": {"cpu": "64", "memory": "1Ti", "nvidia.com/gpu": "8"}},
    }


def pod(name: str, on: str = "") -> dict[str, Any]:
    resources = {"requests": {"nvidia.com/gpu": "8"}}
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "i", "resources": resources}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {**spec, "nodeName": on} if on else spec,
        "status": {"phase": "Running" if on else "Pending"},
    }


def gang(name: str, *pods: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {
            "podgroups": [
                {
                    "name": "w",
                    "minReplicas": len(pods),
                    "podReferences": [{"namespace": "ml", "name": one} for one in pods],
                }
            ],
            "topologyConstraint": {"packConstraint": {"required": RACK}},
        },
    }


#: Two racks of two nodes; "runs" has one node, n4 is closed, "waits" asks for two in a rack.
OBJECTS = [
    node("n1", "r1"),
    node("n2", "r1"),
    node("n3", "r2"),
    node("n4", "r2", closed=True),
    pod("runs-0", on="n1"),
    pod("waits-0"),
    pod("waits-1"),
    gang("runs", "runs-0"),
    gang("waits", "waits-0", "waits-1"),
]


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(OBJECTS))
    return str(file)


@pytest.fixture
def told(service: str, cluster: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command on the cluster; gives its JSON."""

    def run(command: str, *options: str) -> Any:
        # Long enough for a busy machine.
        limit = ["--time-limit", "60s"]
        ask = [command, "-f", cluster, "--server", service, "-o", "json", *limit, *options]
        assert main(ask) == 0
        return json.loads(capsys.readouterr().out)

    return run


def test_explain_offers_what_is_enough(told: Any) -> None:
    answer = told("explain", "--gang", "ml/waits")
    assert answer["gang"] == "ml/waits"
    assert not answer["placed"]
    assert answer["reasons"]
    remedies = {remedy["kind"]: remedy for remedy in answer["remedies"]}
    assert remedies["UNCORDON"]["nodes"] == ["n4"]
    assert remedies["REDUCE"] | {"message": ""} == {
        "kind": "REDUCE",
        "group": "w",
        "to": 1,
        "proven": True,
        "message": "",
    }
    assert remedies["ADD_NODES"]["count"] == 1
    assert "EVICT" not in remedies


def test_capacity_counts_copies_and_domains(told: Any) -> None:
    copies = told("capacity", "--gang", "ml/runs")
    assert (copies["gang"], copies["copies"]) == ("ml/runs", {"value": 2, "bound": 2})
    missing = told("capacity", "--add", RACK, "--like", "r1")
    assert missing["domains"] == {"value": 1, "bound": 1}
    assert all(one["placed"] for one in missing["plan"]["podGangs"])


def test_repack_counts_what_is_free(told: Any) -> None:
    answer = told("repack", "--free", f"{RACK}=1")
    assert (answer["moves"], answer["freed"]) == ([], ["r2"])
    assert answer["pods"] == {"value": 0, "bound": 0}


def test_what_no_number_is_enough_for_is_said_to_be_proven(told: Any) -> None:
    """The gang that runs needs one of the two racks."""
    answer = told("repack", "--free", f"{RACK}=2")
    assert answer["impossible"]
    assert (answer["moves"], answer["freed"]) == ([], [])
    assert answer["pods"] == {"value": 0, "bound": None}
    assert "impossible" not in told("repack", "--free", f"{RACK}=1")


#: Two nodes of one rack are left, on which nothing runs.
TWO_LEFT = ("--drain", "kubernetes.io/hostname in (n1,n3)", "--add", "1=n2")


def placed(answer: Any) -> set[str]:
    return {one["name"] for one in answer["podGangs"] if one["placed"]}


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ([], {"runs"}),
        (["--without", "ml/runs"], {"waits"}),
        (["--add", "1=n3"], {"runs", "waits"}),
        (["--add", f"1={RACK}:r1"], {"runs", "waits"}),
        (["--cordon", f"{RACK}=r2", "--without", "ml/runs"], {"waits"}),
        (["--cordon", "kubernetes.io/hostname in (n1,n2,n3)"], {"runs"}),
        (["--drain", "kubernetes.io/hostname=n1", "--without", "ml/waits"], {"runs"}),
        (["--drain", f"{RACK}"], set()),
        ([*TWO_LEFT], {"waits"}),
        ([*TWO_LEFT, "--priority", "ml/runs=9"], {"runs"}),
    ],
)
def test_plans_of_what_if(told: Any, options: list[str], want: set[str]) -> None:
    assert placed(told("plan", *options)) == want


@pytest.mark.parametrize(
    ("options", "near"),
    [
        (["plan", "--without", "ml/wait"], "did you mean ml/waits?"),
        (["plan", "--add", "1=n11"], "did you mean n1"),
        (["plan", "--cordon", "rack=none"], "there is no node label rack"),
        (["plan", "--drain", "a=b="], "label selector"),
        (["explain", "--gang", "ml/run"], "did you mean ml/runs?"),
        (["plan", "--priority", "ml/run=3"], "did you mean ml/runs?"),
        (["plan", "--priority", "ml/runs=high"], "is not NAMESPACE/NAME=PRIORITY"),
        (["plan", "--gpu-limit", "team-a=8"], "there is no queue team-a"),
        (["repack", "--free", f"{RACK}=3"], "there are 2 domains"),
    ],
)
def test_what_is_not_there_is_wrong_input(
    options: list[str], near: str, service: str, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*options, "-f", cluster, "--server", service]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert near in told.err


def test_all_that_is_not_there_is_told_with_its_option(
    service: str, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = [
        "--without", "ml/none", "--priority", "ml/none=1", "--gpu-limit", "none=1",
        "--cordon", "none=1", "--drain", "a=b=", "--add", "1=none", "--add", "1=none:none",
    ]  # fmt: skip
    assert main(["plan", *wrong, "-f", cluster, "--server", service]) == 2
    told = [line.split(": ")[1] for line in capsys.readouterr().err.splitlines()]
    assert told == wrong[::2]


def test_two_answers_are_compared(
    told: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps(told("plan")))
    after.write_text(json.dumps(told("plan", "--add", "1=n3")))
    assert main(["diff", str(before), str(after), "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["won"], answer["lost"]) == (["ml/waits"], [])
    assert main(["diff", str(before), str(before)]) == 0
    assert capsys.readouterr().out == "Both answers say the same.\n"
    before.write_text("{}")
    assert main(["diff", str(before), str(after)]) == 2


def test_a_saved_request_gives_the_same_answer_again(
    service: str, cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from google.protobuf import json_format

    from placement.kubernetes import load, translate

    request = translate(load([cluster])).request
    request.policy.deterministic = True
    dump = tmp_path / "dump.json"
    dump.write_text(json_format.MessageToJson(request))
    assert main(["replay", str(dump), "--server", service]) == 0
    assert capsys.readouterr().out == "same answer, bit for bit\n"
    # A dump can be planned from like objects, and its answer compared with.
    assert main(["plan", "-f", str(dump), "--server", service, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    answer["podGangs"][0]["placed"] = not answer["podGangs"][0]["placed"]
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    compared = ["--answer", str(tmp_path / "answer.json")]
    assert main(["replay", str(dump), "--server", service, *compared]) == 0
    assert "first difference: podGangs[0].placed" in capsys.readouterr().out
    assert main(["replay", cluster, "--server", service]) == 2


def test_a_request_that_the_service_saves_is_compared_with_the_answer_beside_it(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("deterministic: true")
    with serve(dump_dir=tmp_path / "dumps", dumps="always") as address:
        asked = ["plan", "-f", cluster, "--policy", str(policy), "-o", "json"]
        assert main([*asked, "--server", address]) == 0
        digest = json.loads(capsys.readouterr().out)["requestDigest"].removeprefix("sha256:")
        dump = tmp_path / "dumps" / "none"
        beside = dump

        def is_saved() -> bool:
            nonlocal dump, beside
            for dump in (tmp_path / "dumps").glob(f"*-{digest[:16]}.binpb"):
                beside = dump.with_name(f"{dump.stem}.answer.binpb")
                return beside.exists()
            return False

        wait_until(is_saved, "the answer is saved")
        assert main(["replay", str(dump), "--server", address]) == 0
        assert capsys.readouterr().out == "same answer, bit for bit\n"
        other = v1.Placement.FromString(beside.read_bytes())
        other.gangs[0].placed = not other.gangs[0].placed
        beside.write_bytes(other.SerializeToString())
        assert main(["replay", str(dump), "--server", address]) == 0
        assert "first difference: podGangs[0].placed" in capsys.readouterr().out


def test_files_given_twice_are_read_once(
    service: str, cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for again in ([cluster, cluster], [cluster, str(tmp_path)], [str(tmp_path), cluster]):
        assert main(["plan", "-f", *again, "--server", service, "-o", "json"]) == 0
        told = capsys.readouterr()
        [warning] = json.loads(told.out)["warnings"]
        assert warning["file"] == cluster
        assert "read once" in warning["message"]
        assert "read once" in told.err


def test_a_slip_is_a_warning_in_the_answer_and_an_error_when_strict(
    service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = [*OBJECTS[:-1], gang("waits", "waits-0", "waits-1")]
    spec = objects[-1]["spec"]
    spec["topologyConstrain"] = spec.pop("topologyConstraint")
    file = tmp_path / "slip.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    ask = ["plan", "-f", str(file), "--server", service]
    assert main([*ask, "-o", "json"]) == 0
    [warning] = json.loads(capsys.readouterr().out)["warnings"]
    assert (warning["object"], warning["field"]) == ("PodGang ml/waits", "spec.topologyConstrain")
    assert main([*ask, "-o", "html"]) == 0
    assert "topologyConstrain" in capsys.readouterr().out
    assert main([*ask, "--strict"]) == 2


def test_who_asks_for_some_gangs_gets_no_drawing_of_all(
    service: str, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["plan", "-f", cluster, "--server", service]
    assert main(ask) == 0
    assert "╭" in capsys.readouterr().out
    for some in (["--waiting"], ["--name", "waits"]):
        assert main([*ask, *some]) == 0
        told = capsys.readouterr().out
        assert "╭" not in told
        assert "waits" in told


def test_gangs_are_listed_by_name_and_need(
    service: str, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["plan", "-f", cluster, "--server", service, "-o", "name"]
    assert main(ask) == 0
    assert capsys.readouterr().out == "ml/runs\nml/waits\n"
    assert main([*ask, "--waiting"]) == 0
    assert capsys.readouterr().out == "ml/waits\n"
    assert main([*ask, "--name", "run"]) == 0
    assert capsys.readouterr().out == "ml/runs\n"


def pod_group(name: str) -> dict[str, Any]:
    """A gang of Koordinator that runs only together with two others."""
    groups = json.dumps(["ml/first", "ml/second", "ml/third"])
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "annotations": {"gang.scheduling.koordinator.sh/groups": groups},
        },
        "spec": {"minMember": 1},
    }


@pytest.mark.parametrize("name", ["first", "third"])
def test_gangs_that_run_together_answer_to_their_own_names(
    name: str, service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["third", "second", "first"]
    bodies = [node("n1", "r1"), node("n2", "r1"), *map(pod_group, names)]
    for one in names:
        member = pod(f"{one}-0")
        member["metadata"]["labels"] = {"pod-group.scheduling.sigs.k8s.io": one}
        bodies.append(member)
    file = tmp_path / "group.yaml"
    file.write_text(yaml.safe_dump_all(bodies))

    def told(command: str, *options: str) -> Any:
        ask = [command, "-f", str(file), "--server", service, "-o", "json", *options]
        assert main(ask) == 0
        return json.loads(capsys.readouterr().out)

    explained = told("explain", "--gang", f"ml/{name}")
    assert (explained["gang"], explained["placed"]) == (f"ml/{name}", False)
    assert explained["reasons"]
    assert told("capacity", "--gang", f"ml/{name}")["copies"] == {"value": 0, "bound": 0}
    both = ["--without", f"ml/{name}", "--without", "ml/second"]
    assert told("plan", *both)["podGangs"] == []


def test_what_is_wrong_with_either_answer_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (one := tmp_path / "one.json").write_text("[]")
    other = tmp_path / "other.json"
    assert main(["diff", str(one), str(other)]) == 2
    told = capsys.readouterr().err
    assert f"{one}: is not an answer" in told
    assert f"{other}: cannot be read" in told
    one.write_text('{"podGangs": [], "bindings": 5}')
    other.write_text('{"podGangs": [], "objective": [{"tier": "admitted", "value": NaN}]}')
    assert main(["diff", str(one), str(other)]) == 2
    told = capsys.readouterr().err
    assert f"{one}: is not an answer: bindings must be a list" in told
    assert f"{other}: is not valid JSON: NaN is not a number" in told
