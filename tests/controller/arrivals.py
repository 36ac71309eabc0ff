"""Advice beside a scheduler that is alive: gangs arrive and end, and both sides are killed.

    python -m tests.controller.arrivals --advise kube-scheduler --seconds 3600

A share of the gangs waits for advice; the others go to the scheduler alone, on the same nodes.
kube-scheduler is the real one, KAI and koord-scheduler are stand-ins. Every tenth of a second all
pods are read: on no node may they ask for more than it has. The controller is killed with
`kill -9` again and again, and so is kube-scheduler. Once nothing arrives any more there is room for
all that wait: each gang has to run and to end. Then nothing may be held, and no advised gang may be
half bound. Prints what happened; the exit status is 1 when something was wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from placement.advice_marks import GANG, GATE, KAI_HOLD, KAI_NODE_POOL
from placement.cli.releasing import releases
from placement.cluster import Cluster
from placement.testing import serve
from tests.cluster import binaries
from tests.cluster.api import NAMESPACES, NODES, PODS, Api, Body
from tests.cluster.apiserver import ApiServer
from tests.cluster.build import node, pod_spec
from tests.cluster.koord_scheduler import KoordScheduler
from tests.cluster.scheduler import KubeScheduler
from tests.cluster.schedulers import (
    BIND_REQUESTS,
    KAI_POD_GROUPS,
    KaiBinder,
    KaiScheduler,
    free_gpus,
    install_kinds,
)

ADVISED: Final = "arrivals-advised"
_NAMESPACE: Final = "arrivals"
_SCHEDULERS: Final = {
    "kube-scheduler": "default-scheduler",
    "kai": "kai-scheduler",
    "koordinator": "koord-scheduler",
}
_GPUS: Final = 8
_LOOK: Final = 0.1
#: Seconds from what KAI's scheduler sees to what it writes.
_CYCLE: Final = 1.0


@dataclass
class Figures:
    """What happened."""

    arrived: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    looks: int = 0
    double_booked: set[tuple[str, frozenset[str]]] = field(default_factory=set)
    half_bound: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)

    @property
    def is_wrong(self) -> bool:
        return bool(self.double_booked or self.half_bound or self.held or self.waiting)

    def lines(self) -> Iterator[str]:
        """The figures for people."""
        yield f"gangs arrived    {dict(self.arrived)}"
        yield f"ran and ended    {dict(self.ended)}"
        yield f"kills            {dict(self.kills)}"
        yield f"looks            {self.looks}"
        yield f"double booked    {len(self.double_booked)}"
        yield f"half bound       {len(self.half_bound)} {self.half_bound[:5]}"
        yield f"still held       {len(self.held)} {self.held[:5]}"
        yield f"still waiting    {len(self.waiting)} {self.waiting[:5]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs once; the exit status."""
    parser = argparse.ArgumentParser(prog="tests.controller.arrivals", description=__doc__)
    parser.add_argument("--advise", choices=sorted(_SCHEDULERS), default="kube-scheduler")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--every", type=float, default=0.5, help="seconds between two arrivals")
    parser.add_argument("--kill-every", type=float, default=15.0, help="seconds between two kills")
    parser.add_argument("--share", type=float, default=0.5, help="of the gangs that is advised")
    parser.add_argument(
        "--kai-hold", choices=("gate", "label"), default="gate", help="how KAI's gangs wait"
    )
    parser.add_argument(
        "--drain", type=float, default=180.0, help="seconds for all to end, after the last arrival"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        server = ApiServer(binaries.ensure(), Path(directory))
        server.start()
        try:
            server.install_crds()
            figures = _Arrivals(server, Path(directory), options).run()
        finally:
            server.stop()
    print("\n".join(figures.lines()))
    return int(figures.is_wrong)


class _Arrivals:
    def __init__(self, server: ApiServer, directory: Path, options: argparse.Namespace) -> None:
        self._server = server
        self._directory = directory
        self._options = options
        self._api: Api = server.api()
        self._rng = random.Random(options.seed)
        self._figures = Figures()
        #: When a gang that is whole ends.
        self._ends: dict[str, float] = {}

    def run(self) -> Figures:
        api, options = self._api, self._options
        install_kinds(api)
        api.create(NAMESPACES, {"metadata": {"name": _NAMESPACE}})
        api.create_all(NODES, [node(f"n{i:03}", gpus=_GPUS) for i in range(options.nodes)])
        with ExitStack() as stack:
            address = stack.enter_context(serve())
            schedulers = [stack.enter_context(one) for one in self._schedulers()]
            controller = self._start_controller(address)
            begin = time.monotonic()
            arrives = kill = begin
            while (now := time.monotonic()) < begin + options.seconds:
                if now >= arrives:
                    self._arrive()
                    arrives = now + options.every
                if now >= kill + options.kill_every:
                    kill = now
                    controller = self._kill(controller, schedulers, address)
                self._look()
                time.sleep(_LOOK)
            end = time.monotonic() + options.drain
            while self._look() and time.monotonic() < end:
                time.sleep(_LOOK)
            # Advice that was followed has yet to be marked as ended.
            time.sleep(5.0)
            controller.terminate()
            controller.wait(60)
            self._judge()
        return self._figures

    def _schedulers(self) -> list[Any]:
        match self._options.advise:
            case "kai":
                return [KaiBinder(self._api), KaiScheduler(self._api, cycle=_CYCLE)]
            case "koordinator":
                return [KoordScheduler(self._api)]
        program = binaries.ensure_scheduler()
        return [KubeScheduler(program, self._server.kubeconfig(), self._directory)]

    def _start_controller(self, address: str) -> subprocess.Popen[bytes]:
        settings = {
            "MODE": "advise",
            "ADVISE": f'["{self._options.advise}"]',
            "ADVICE_TTL": "20",
            "ADVICE_TIMEOUT": "0",
            "SERVICE": address,
            "KUBECONFIG": str(self._server.kubeconfig()),
            "HTTP_HOST": "127.0.0.1",
            "HTTP_PORT": "0",
            "LEADER_ELECTION": "false",
            "TIME_LIMIT": "2",
            "LOG_LEVEL": "WARNING",
        }
        ours = {k: v for k, v in os.environ.items() if not k.startswith("PLACEMENT_")}
        return subprocess.Popen(
            [sys.executable, "-m", "controller"],
            env={**ours, **{f"PLACEMENT_CONTROLLER_{k}": v for k, v in settings.items()}},
        )

    def _kill(
        self, controller: subprocess.Popen[bytes], schedulers: list[Any], address: str
    ) -> subprocess.Popen[bytes]:
        if isinstance(schedulers[0], KubeScheduler) and self._rng.random() < 0.4:
            schedulers[0].stop()
            schedulers[0].start()
            self._figures.kills["kube-scheduler"] += 1
            return controller
        controller.kill()
        controller.wait()
        self._figures.kills["controller"] += 1
        return self._start_controller(address)

    def _arrive(self) -> None:
        """A gang that waits for advice, or one for the scheduler alone."""
        advised = self._rng.random() < self._options.share
        kind = "advised" if advised else "alone"
        name = f"g{self._figures.arrived.total():05}"
        self._figures.arrived[kind] += 1
        count, gpus = self._rng.randint(2, 5), self._rng.choice((1, 2, 4, 8))
        if not advised and self._options.advise != "kai":
            # These two place pods one by one: a gang of theirs might never be whole.
            count = 1
        scheduler = _SCHEDULERS[self._options.advise]
        labelled = self._options.advise == "kai" and self._options.kai_hold == "label"
        gated = advised and not labelled
        annotations = {"pod-group-name": name} if self._options.advise == "kai" else {GANG: name}
        if self._options.advise == "kai":
            self._api.create(KAI_POD_GROUPS, _pod_group(name, count, held=advised and labelled))
        spec = {
            **pod_spec(gpus=gpus, cpu="10m", memory="1Mi"),
            "schedulerName": scheduler,
            **({"schedulingGates": [{"name": GATE}]} if gated else {}),
        }
        metadata = {
            "namespace": _NAMESPACE,
            "labels": {"gang": name, "size": str(count), ADVISED: str(advised).lower()},
            "annotations": annotations if advised or self._options.advise == "kai" else {},
        }
        pods = [
            {"metadata": {**metadata, "name": f"{name}-{i}"}, "spec": spec} for i in range(count)
        ]
        self._api.create_all(PODS, pods)

    def _look(self) -> bool:
        """Looks at all pods, ends gangs that have run; whether any is left."""
        figures = self._figures
        figures.looks += 1
        pods = self._api.items(PODS, _NAMESPACE)
        nodes = self._api.items(NODES)
        for name, free in free_gpus(nodes, pods).items():
            if free < 0:
                there = (p["metadata"]["name"] for p in pods if p["spec"].get("nodeName") == name)
                figures.double_booked.add((name, frozenset(there)))
        now = time.monotonic()
        for name, gang in _by_gang(pods).items():
            labels = gang[0]["metadata"]["labels"]
            if all(p["spec"].get("nodeName") for p in gang) and len(gang) == int(labels["size"]):
                end = self._ends.setdefault(name, now + self._rng.uniform(2.0, 8.0))
                if now >= end:
                    self._delete(name, gang)
                    kind = "advised" if labels[ADVISED] == "true" else "alone"
                    figures.ended[kind] += 1
        return bool(pods)

    def _delete(self, name: str, gang: Sequence[Body]) -> None:
        """Ends a gang, and what its pods own: there is no garbage collector here."""
        for pod in gang:
            self._api.delete(PODS, pod["metadata"]["name"], _NAMESPACE, grace=0)
        if self._options.advise == "kai":
            self._api.delete(KAI_POD_GROUPS, name, _NAMESPACE)
            for pod in gang:
                request = self._api.find(BIND_REQUESTS, pod["metadata"]["name"], _NAMESPACE)
                if request is not None:
                    self._api.delete(BIND_REQUESTS, pod["metadata"]["name"], _NAMESPACE)

    def _judge(self) -> None:
        pods = self._api.items(PODS, _NAMESPACE)
        for name, gang in _by_gang(pods).items():
            bound = sum(bool(pod["spec"].get("nodeName")) for pod in gang)
            if bound < len(gang):
                self._figures.waiting.append(name)
            if gang[0]["metadata"]["labels"][ADVISED] == "true" and 0 < bound < len(gang):
                self._figures.half_bound.append(name)
        with _connected(self._server) as cluster:
            self._figures.held = [str(one) for one in releases(cluster)]


def _by_gang(pods: Sequence[Body]) -> dict[str, list[Body]]:
    gangs: dict[str, list[Body]] = {}
    for pod in pods:
        gangs.setdefault(pod["metadata"]["labels"]["gang"], []).append(pod)
    return gangs


def _pod_group(name: str, count: int, *, held: bool) -> Body:
    return {
        "apiVersion": KAI_POD_GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": _NAMESPACE,
            "labels": {KAI_NODE_POOL: KAI_HOLD} if held else {},
        },
        "spec": {"minMember": count},
    }


@contextmanager
def _connected(server: ApiServer) -> Iterator[Cluster]:
    cluster = Cluster.connect(kubeconfig=str(server.kubeconfig()))
    try:
        yield cluster
    finally:
        cluster.close()


if __name__ == "__main__":
    sys.exit(main())
