"""The cluster to try things on holds what the manifests say."""

from __future__ import annotations

from pathlib import Path

import yaml

from placement.kubernetes.files.loading import load
from tests.cluster.__main__ import fill
from tests.cluster.build import clique, clique_set
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.kubernetes import build


def test_manifests_become_a_cluster(cluster: Cluster, grove: GroveStandIn, tmp_path: Path) -> None:
    bodies = [
        build.node("n1"),
        build.priority_class("high", 9),
        build.pod("runs", nodeName="n1", containers=[{"name": "main"}]),
        build.pod("waits", containers=[{"name": "main"}]),
        build.gang("g", podgroups=[build.group("w", "waits")]),
    ]
    cluster.namespace += "-filled"
    text = yaml.safe_dump_all(bodies).replace("namespace: ml", f"namespace: {cluster.namespace}")
    (tmp_path / "all.yaml").write_text(text)
    sets = clique_set("s", clique("worker", 2), namespace=cluster.namespace)
    sets |= {"apiVersion": "grove.io/v1alpha1"}
    (tmp_path / "sets.yaml").write_text(yaml.safe_dump(sets))
    fill(cluster.api, grove, load([str(tmp_path)]))
    grove.settle()
    assert cluster.bound() == {"runs": "n1"}
    assert {pod["spec"]["schedulerName"] for pod in cluster.pods()} == {"placement-service"}
    assert cluster.gangs().keys() == {"g", "s-0"}
    assert (cluster.condition("g", "Initialized") or {})["status"] == "True"
