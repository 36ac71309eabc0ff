"""Measures gangs per second in kube-scheduler, with the plugin and without.

    python -m tests.kube_scheduler.scale [--nodes 200] [--gangs 200] [--plain] [--how killed]

Gangs of eight that just fill nodes of eight GPUs, two nodes a rack, each gang in one rack. Prints
one line of JSON: seconds from the first pod made to the last bound, what the scheduler took, and
how many gangs stayed in one rack. `--how` makes the service silent, slow or killed meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

from tests.cluster import binaries
from tests.cluster.api import PODS
from tests.cluster.apiserver import ApiServer
from tests.cluster.build import node
from tests.cluster.fixtures import Cluster
from tests.kube_scheduler.conftest import Schedulers, Service
from tests.kube_scheduler.gangs import member
from tests.ports import reserve
from tests.waiting import wait_until

_SIZE = 8
_RACK = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--gangs", type=int, default=200)
    parser.add_argument("--plain", action="store_true", help="kube-scheduler alone")
    parser.add_argument("--how", choices=("well", "silent", "slow", "killed"), default="well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        server = ApiServer(binaries.ensure(), Path(scratch) / "apiserver")
        server.start()
        try:
            print(json.dumps(_measured(Cluster(server), Path(scratch), arguments)))
        finally:
            server.stop()


def _measured(
    cluster: Cluster, scratch: Path, arguments: argparse.Namespace
) -> dict[str, float | int | str]:
    port = reserve()
    cluster.add_nodes(
        *(
            node(f"n{i:04}", gpus=8, labels={"rack": f"r{i // _RACK:04}"})
            for i in range(arguments.nodes)
        )
    )
    pods = [
        member(cluster, f"g{gang:04}-{index}", f"g{gang:04}", _SIZE, "rack")
        for index in range(_SIZE)
        for gang in range(arguments.gangs)
    ]
    if arguments.plain:
        for pod in pods:
            del pod["metadata"]["annotations"]
    service = Service(scratch, port)
    service.wait_until_ready()
    schedulers = Schedulers(cluster, scratch, port)
    settings = {"timeout": "5s", "fallbackAfter": "10s"}
    running = schedulers.plain() if arguments.plain else schedulers.placing(**settings)
    if arguments.how == "silent":
        service.signal(signal.SIGSTOP)
    with running as scheduler:
        begin = time.monotonic()
        if arguments.how in ("slow", "killed"):
            threading.Thread(target=_trouble, args=(service, arguments.how), daemon=True).start()
        cluster.api.create_all(PODS, pods)
        made = time.monotonic() - begin
        wait_until(lambda: len(cluster.bound()) == len(pods), "every pod runs", seconds=400)
        took = time.monotonic() - begin
        cpu = _processor(scheduler.pid)
        asked = scheduler.text().count("the placement service answered")
        alone = scheduler.text().count("gangs go without an answer")
    service.end()
    racks: dict[str, set[int]] = {}
    for name, where in cluster.bound().items():
        racks.setdefault(name.partition("-")[0], set()).add(int(where[1:]) // _RACK)
    return {
        "plugin": "none" if arguments.plain else arguments.how,
        "nodes": arguments.nodes,
        "gangs": arguments.gangs,
        "made_seconds": round(made, 1),
        "seconds": round(took, 1),
        "gangs_per_second": round(arguments.gangs / took, 1),
        "scheduler_cpu_seconds": round(cpu, 1),
        "answers": asked,
        "let_go": alone,
        "gangs_in_one_rack": sum(len(used) == 1 for used in racks.values()),
    }


def _trouble(service: Service, how: str) -> None:
    if how == "killed":
        time.sleep(1.5)
        service.end()
        return
    while service.is_running():
        # Runs a tenth of the time.
        for number, seconds in ((signal.SIGSTOP, 0.9), (signal.SIGCONT, 0.1)):
            if service.is_running():
                service.signal(number)
            time.sleep(seconds)


def _processor(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
