"""`placementctl expand`: what Grove would make, as YAML, JSON and lines for people."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from placement import v1
from placement.testing import scripted_server
from tests.cli.command import Call

NODE = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '8', memory: 8Gi, pods: '110'}}
"""

SET = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: serve, namespace: ml}
spec:
  replicas: 1
  template:
    cliques:
    - name: worker
      spec:
        roleName: worker
        replicas: 2
        podSpec:
          containers: [{name: main, image: example/worker}]
"""


def test_expand_prints_what_grove_would_create(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "set.yaml"
    file.write_text(SET)
    done = call("expand", "-f", str(file))
    assert done.returncode == 0
    made = [(o["kind"], o["metadata"]["name"]) for o in yaml.safe_load_all(done.stdout)]
    assert made == [
        ("PodGang", "serve-0"),
        ("Pod", "serve-0-worker-0"),
        ("Pod", "serve-0-worker-1"),
    ]
    assert "&id" not in done.stdout


def test_expand_prints_json_and_a_line_for_each_gang(call: Call) -> None:
    done = call("expand", "-f", "-", "-o", "json", stdin=SET)
    kinds = [one["kind"] for one in json.loads(done.stdout)["items"]]
    assert kinds == ["PodGang", "Pod", "Pod"]
    assert call("expand", "-f", "-", "-o", "json", stdin=done.stdout).stderr == (
        "placementctl: warning: there is no PodCliqueSet to expand\n"
    )
    done = call("expand", "-f", "-", "-o", "table", stdin=SET)
    assert done.stdout == "ml/serve-0  serve-0-worker 2 (min 2)\n"


def test_what_expand_prints_can_be_planned(call: Call, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(NODE)
    expanded = call("expand", "-f", "-", stdin=SET).stdout
    with scripted_server(lambda _: [v1.Placement()]) as server:
        done = call("plan", "-f", str(nodes), "-", "--server", server.address, stdin=expanded)
    assert done.returncode == 0
    gangs = [g.name.rsplit("/", 1)[1] for g in server.calls[0].request.gangs]
    assert gangs == ["serve-0"]


def test_expand_tells_every_problem(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "set.yaml"
    file.write_text(SET.replace("replicas: 1", "replicas: -1"))
    done = call("expand", "-f", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{file}: PodCliqueSet ml/serve: spec.replicas" in done.stderr


def test_expand_says_when_there_is_nothing_to_expand(call: Call) -> None:
    done = call("expand", "-f", "-", stdin=NODE)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "placementctl: warning: there is no PodCliqueSet to expand\n"
