"""How the controller does at scale, against a real API server.

    python -m tests.controller.scale ...

    --gangs 500 --pods 2 --nodes 100           the shape of Grove's own scale test
    --gangs 200 --pods 8 --nodes 5000 --running 20000    many at once in a large cluster

Prints one JSON line: seconds from the creation of the first gang to the last binding,
requests to the API server, and memory and processor time of each part. All parts share
this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster import binaries
from tests.cluster.api import NAMESPACES, NODES, POD_GANGS, PODS, Api, Body
from tests.cluster.apiserver import ApiServer
from tests.cluster.build import node, pod_spec
from tests.waiting import wait_until

NAMESPACE = "scale"
_RACK = "example.com/rack"
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measures once and prints what was found."""
    options = _options()
    with tempfile.TemporaryDirectory() as directory:
        server = ApiServer(
            binaries.ensure(),
            Path(directory),
            arguments=["--max-requests-inflight=0", "--max-mutating-requests-inflight=0"],
        )
        server.start()
        try:
            server.install_crds()
            print(json.dumps(_measure(server, Path(directory), options)))
        finally:
            server.stop()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gangs", type=int, default=500)
    parser.add_argument("--pods", type=int, default=2, help="pods of each gang")
    parser.add_argument("--gpus", type=int, default=0, help="GPUs of each pod")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--running", type=int, default=0, help="pods that run already")
    parser.add_argument("--rack", type=int, default=0, help="nodes of a rack; gangs need one")
    parser.add_argument("--time-limit", type=float, default=5.0)
    return parser.parse_args()


def _measure(server: ApiServer, directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    api = server.api()
    api.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    started = time.monotonic()
    api.create_all(NODES, _nodes(options))
    api.create_all(PODS, _running(options))
    print(f"filled in {time.monotonic() - started:.0f} s", file=sys.stderr)
    with _processes(server, directory, options) as (controller, service, port):
        wait_until(lambda: _is_ready(port), "the controller is ready", seconds=120)
        time.sleep(2)
        idle = _resident(controller.pid)
        before = _metrics(port)
        processor = {p.pid: _processor(p.pid) for p in (controller, service)}
        server_before = _processor(server.pid)
        started = time.monotonic()
        gangs = [_gang(index, options) for index in range(options.gangs)]
        api.create_all(
            PODS, [pod for index in range(options.gangs) for pod in _pods(index, options)]
        )
        api.create_all(POD_GANGS, gangs)
        created = time.monotonic()
        api.each(_initialize(api), gangs)
        initialized = time.monotonic()
        wanted = options.gangs * options.pods
        wait_until(lambda: _bound(port) >= wanted, "all pods are bound", seconds=600)
        bound = time.monotonic()
        wait_until(lambda: _placed(api) >= options.gangs, "all gangs are reported", seconds=120)
        reported = time.monotonic()
        after = _metrics(port)
        return {
            "shape": vars(options),
            "seconds": {
                "create": round(created - started, 2),
                "initialize": round(initialized - created, 2),
                "first_creation_to_last_binding": round(bound - started, 2),
                "initialized_to_last_binding": round(bound - initialized, 2),
                "initialized_to_last_report": round(reported - initialized, 2),
            },
            "api_calls": {
                key: int(after[key] - before.get(key, 0))
                for key in sorted(after)
                if after[key] != before.get(key, 0)
            },
            "memory_mib": {
                "controller_idle": idle,
                "controller": _resident(controller.pid),
                "controller_peak": _resident(controller.pid, "VmHWM"),
                "service": _resident(service.pid),
            },
            "processor_seconds": {
                "controller": round(_processor(controller.pid) - processor[controller.pid], 1),
                "service": round(_processor(service.pid) - processor[service.pid], 1),
                "api_server": round(_processor(server.pid) - server_before, 1),
            },
            "step_seconds": _steps(port),
            "cycles": _count(port, "placement_controller_cycles_total"),
        }


@contextmanager
def _processes(
    server: ApiServer, directory: Path, options: argparse.Namespace
) -> Iterator[tuple[subprocess.Popen[bytes], subprocess.Popen[bytes], int]]:
    service_port, http_port = 50551, 50552
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PLACEMENT_")}
    environment = {**ours, "PLACEMENT_HOST": "127.0.0.1"}
    service = subprocess.Popen(
        [sys.executable, "-m", "placement_service"],
        env={**environment, "PLACEMENT_PORT": str(service_port)},
    )
    settings = {
        "SERVICE": f"127.0.0.1:{service_port}",
        "KUBECONFIG": str(server.kubeconfig()),
        "HTTP_HOST": "127.0.0.1",
        "HTTP_PORT": str(http_port),
        "LEASE_NAMESPACE": NAMESPACE,
        "TIME_LIMIT": str(options.time_limit),
    }
    controller = subprocess.Popen(
        [sys.executable, "-m", "controller"],
        env={
            **environment,
            **{f"PLACEMENT_CONTROLLER_{key}": value for key, value in settings.items()},
        },
    )
    try:
        yield controller, service, http_port
    finally:
        for process in (controller, service):
            process.terminate()
            process.wait(60)


def _nodes(options: argparse.Namespace) -> list[Body]:
    return [
        node(
            f"n{index:05}",
            gpus=8 if options.gpus else 0,
            labels={_RACK: f"r{index // options.rack}"} if options.rack else {},
        )
        for index in range(options.nodes)
    ]


def _running(options: argparse.Namespace) -> list[Body]:
    """Pods such as clusters have: an environment, mounts, probes and labels."""
    busy = pod_spec(gpus=0, cpu="2", memory="4Gi")
    container = busy["containers"][0]
    container["env"] = [{"name": f"VARIABLE_{i}", "value": "value " * 5} for i in range(20)]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    container["livenessProbe"] = {"httpGet": {"path": "/healthz", "port": 8080}}
    return [
        {
            "metadata": {
                "name": f"busy-{index:06}",
                "namespace": NAMESPACE,
                "labels": {"app": f"app-{index % 50}", "pod-index": str(index)},
                "annotations": {"example.com/note": "text " * 40},
            },
            "spec": {
                **busy,
                "volumes": [{"name": "data", "emptyDir": {}}],
                "hostname": f"busy-{index:06}",
                "nodeName": f"n{index % options.nodes:05}",
            },
        }
        for index in range(options.running)
    ]


def _pods(index: int, options: argparse.Namespace) -> list[Body]:
    return [
        {
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                **pod_spec(gpus=options.gpus, cpu="1", memory="1Mi"),
                "schedulerName": "placement-service",
            },
        }
        for name in _names(index, options)
    ]


def _names(index: int, options: argparse.Namespace) -> list[str]:
    return [f"g{index:05}-{pod}" for pod in range(options.pods)]


def _gang(index: int, options: argparse.Namespace) -> Body:
    group = {
        "name": "worker",
        "minReplicas": options.pods,
        "podReferences": [{"namespace": NAMESPACE, "name": n} for n in _names(index, options)],
    }
    constraint = {"topologyConstraint": {"packConstraint": {"required": _RACK}}}
    return {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {"name": f"g{index:05}", "namespace": NAMESPACE},
        "spec": {"podgroups": [group], **(constraint if options.rack else {})},
    }


def _initialize(api: Api) -> Any:
    condition = {
        "type": "Initialized",
        "status": "True",
        "reason": "PodGangPodsCreated",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"status": {"phase": "Pending", "conditions": [condition]}}
    return lambda gang: api.merge(POD_GANGS, gang["metadata"]["name"], status, NAMESPACE, "status")


def _placed(api: Api) -> int:
    return sum(
        any(
            c["type"] == "Scheduled" and c["status"] == "True"
            for c in gang.get("status", {}).get("conditions", ())
        )
        for gang in api.items(POD_GANGS)
    )


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _text(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return str(answer.read().decode())


def _metrics(port: int) -> dict[str, float]:
    """Requests to the API server by verb, resource and status."""
    labels = r'method="(\w+)",resource="([^"]+)",status="(\d+)"'
    pattern = rf"placement_controller_api_calls_total\{{{labels}\}} (\S+)"
    return {f"{m} {r} {s}": float(n) for m, r, s, n in re.findall(pattern, _text(port))}


def _steps(port: int) -> dict[str, float]:
    """Seconds spent in each step so far."""
    pattern = r'placement_controller_step_seconds_sum\{step="(\w+)"\} (\S+)'
    return {
        step: round(float(seconds), 2)
        for step, seconds in re.findall(pattern, _text(port))
        if step != "collect" and float(seconds) >= 0.005
    }


def _bound(port: int) -> float:
    return _count(port, r'placement_controller_bindings_total\{result="bound"\}')


def _count(port: int, name: str) -> float:
    found = re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", _text(port), re.MULTILINE)
    return sum(map(float, found))


def _resident(pid: int, field: str = "VmRSS") -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"{field}:\s+(\d+)", text)
    return int(found[1]) // 1024 if found else 0


def _processor(pid: int) -> float:
    """Seconds of processor time of a process and the children that it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


if __name__ == "__main__":
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    main()
