"""A cluster on this machine to try things on: a real API server, and nothing that runs.

    python -m tests.cluster --kubeconfig FILE PATH...

PATHs are manifests, files or folders: nodes, pods, PodGangs, topologies, priority classes
are created; PodCliqueSets are taken over by the stand-in for Grove, which makes PodGangs
and pods of them as Grove does. Pods that are bound become Running. FILE is where the
kubeconfig is written; the cluster ends, and all in it, with Ctrl-C.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import threading
from pathlib import Path

from placement.kubernetes import Objects
from placement.kubernetes.files.loading import load
from tests.cluster import binaries
from tests.cluster.api import NAMESPACES, NODES, POD_GANGS, PODS, Api, Body
from tests.cluster.apiserver import ApiServer
from tests.cluster.grove import SCHEDULER, GroveStandIn
from tests.cluster.kubelet import FakeKubelet

_INITIALIZED = {
    "type": "Initialized",
    "status": "True",
    "reason": "PodGangPodsCreated",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def main() -> None:
    """Runs until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, metavar="FILE")
    parser.add_argument("paths", nargs="*", metavar="PATH")
    options = parser.parse_args()
    objects = load(options.paths)
    if objects.problems:
        parser.exit(2, "\n".join(map(str, objects.problems)) + "\n")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with tempfile.TemporaryDirectory() as directory:
        server = ApiServer(binaries.ensure(say=print), Path(directory))
        server.start()
        try:
            server.install_crds()
            options.kubeconfig.write_bytes(server.kubeconfig().read_bytes())
            _live(server.api(), objects, options.kubeconfig, stop)
        finally:
            server.stop()
            options.kubeconfig.unlink(missing_ok=True)


def _live(api: Api, objects: Objects, kubeconfig: Path, stop: threading.Event) -> None:
    grove = GroveStandIn(api)
    kubelet = FakeKubelet(api)
    fill(api, grove, objects)
    grove.start()
    kubelet.start()
    print(f"The cluster is up:\n  export KUBECONFIG={kubeconfig.resolve()}\nCtrl-C ends it.")
    # Not for ever: another thread may take the signal.
    while not stop.wait(0.2):
        pass
    grove.stop()
    kubelet.stop()


def fill(api: Api, grove: GroveStandIn, objects: Objects) -> None:
    """Creates the objects, PodCliqueSets by the stand-in."""
    for namespace in sorted({pod.namespace for pod in (*objects.pods, *objects.pod_clique_sets)}):
        if namespace != "default":
            api.create(NAMESPACES, {"metadata": {"name": namespace}})
    topologies = [dict(one.body) for one in objects.topology_bindings]
    for body in (*(dict(one.body) for one in objects.priority_classes), *topologies):
        api.apply(body)
    api.create_all(NODES, [_node(dict(one.body)) for one in objects.nodes])
    api.create_all(PODS, [_pod(dict(one.body)) for one in objects.pods])
    for gang in objects.pod_gangs:
        api.create(POD_GANGS, dict(gang.body))
        status = {"status": {"phase": "Pending", "conditions": [_INITIALIZED]}}
        api.merge(POD_GANGS, gang.name, status, gang.namespace, "status")
    grove.apply(*topologies, *(dict(one.body) for one in objects.pod_clique_sets))


def _node(body: Body) -> Body:
    """A node as its kubelet would report it; manifests leave out what goes without saying."""
    metadata, status = body["metadata"], body.get("status") or {}
    labels = {"kubernetes.io/hostname": metadata["name"], **(metadata.get("labels") or {})}
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}]
    return {
        **body,
        "metadata": {**metadata, "labels": labels},
        "status": {
            "capacity": status.get("allocatable") or {},
            "conditions": ready,
            **status,
        },
    }


def _pod(body: Body) -> Body:
    """A pod as the API server takes it: every container with an image, and for us to place."""
    spec = body["spec"]
    containers = [{"image": "none", **container} for container in spec["containers"]]
    return {
        **body,
        "spec": {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 0,
            **spec,
            "containers": containers,
        },
    }


if __name__ == "__main__":
    main()
