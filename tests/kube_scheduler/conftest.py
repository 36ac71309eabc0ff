"""A kube-scheduler for each test, with the API server and the placement service of the session."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.cluster.fixtures import Cluster
from tests.kube_scheduler import program
from tests.ports import reserve
from tests.waiting import wait_until

_STOP_SECONDS: Final = 10.0


class Process:
    """A program with its log, ended with the test."""

    def __init__(
        self, command: list[str], log: Path, environ: dict[str, str] | None = None
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # The service refuses settings that it does not know, as those of tests.
                env={k: v for k, v in os.environ.items() if not k.startswith("PLACEMENT_")}
                | (environ or {}),
                # What it starts is ended with it.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """To the program and all that it started."""
        os.killpg(self._process.pid, number)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def end(self) -> None:
        if self.is_running():
            self.signal(signal.SIGKILL)
        self._process.wait(_STOP_SECONDS)


class Service(Process):
    """The placement service at a port that stays its own."""

    def __init__(self, directory: Path, port: int) -> None:
        self.target = f"127.0.0.1:{port}"
        environ = {"PLACEMENT_HOST": "127.0.0.1", "PLACEMENT_PORT": str(port)}
        # One for each start: a service may be killed and started again.
        log = directory / f"service-{len(list(directory.glob('service-*.log')))}.log"
        super().__init__([sys.executable, "-m", "placement_service"], log, environ)

    def wait_until_ready(self) -> None:
        wait_until(lambda: self._serves() or not self.is_running(), "the service serves")
        assert self.is_running(), self.text()

    def _serves(self) -> bool:
        with grpc.insecure_channel(self.target) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            with suppress(grpc.RpcError):
                answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=1)
                return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
        return False


class Kept:
    """One service for all tests; a test that ends or stops it leaves the next one another."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory = directory
        self._port = port
        self._service: Service | None = None

    def ready(self) -> Service:
        if self._service is None or not self._service.is_running():
            self._service = Service(self._directory, self._port)
        self._service.signal(signal.SIGCONT)
        self._service.wait_until_ready()
        return self._service

    def end(self) -> None:
        if self._service is not None:
            self._service.end()


@pytest.fixture(scope="session")
def port() -> int:
    """Where the service is, when it is."""
    return reserve()


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Kept]:
    made = Kept(tmp_path_factory.mktemp("service"), port)
    yield made
    made.end()


@pytest.fixture
def service(kept: Kept) -> Service:
    return kept.ready()


class Schedulers:
    """Starts kube-schedulers, with the plugin or plain."""

    def __init__(self, cluster: Cluster, directory: Path, port: int) -> None:
        found = program.find()
        if found is None:
            pytest.skip("no kube-scheduler with the plugin: python -m tests.kube_scheduler.program")
        self._program = found
        self._cluster = cluster
        self._directory = directory
        self._port = port

    @contextmanager
    def plain(self, *arguments: str) -> Iterator[Process]:
        with self._running(None, *arguments) as process:
            yield process

    @contextmanager
    def placing(self, **arguments: Any) -> Iterator[Process]:
        """With the plugin, as `scheduler.yaml` of the example sets it up."""
        example = yaml.safe_load((program.MODULE / "scheduler.yaml").read_text())
        (profile,) = example["profiles"]
        profile["pluginConfig"][0]["args"] = {
            "service": f"127.0.0.1:{self._port}",
            **arguments,
        }
        with self._running(example["profiles"]) as process:
            yield process

    @contextmanager
    def placing_pod_groups(self, gates: str, **arguments: Any) -> Iterator[Process]:
        """With both plugins, as `pod-groups.yaml` of the example sets them up."""
        example = yaml.safe_load((program.MODULE / "pod-groups.yaml").read_text())
        (profile,) = example["profiles"]
        for one in profile["pluginConfig"]:
            one["args"] = {"service": f"127.0.0.1:{self._port}", **arguments}
        with self._running(example["profiles"], f"--feature-gates={gates}") as process:
            yield process

    @contextmanager
    def _running(self, profiles: list[Any] | None, *further: str) -> Iterator[Process]:
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            # The defaults, 50 and 100, would be what is measured.
            "clientConnection": {
                "kubeconfig": str(self._cluster.kubeconfig()),
                "qps": 5000,
                "burst": 5000,
            },
            **({} if profiles is None else {"profiles": profiles}),
        }
        file = self._directory / "scheduler.yaml"
        file.write_text(yaml.safe_dump(configuration))
        command = [str(self._program), f"--config={file}", "--secure-port=0", "--v=3", *further]
        process = Process(command, self._directory / "scheduler.log")
        try:
            wait_until(
                lambda: "Handlers synced" in process.text() or not process.is_running(),
                "kube-scheduler is ready",
            )
            assert process.is_running(), process.text()[-3000:]
            yield process
            assert process.is_running(), process.text()[-3000:]
        finally:
            process.end()


@pytest.fixture
def schedulers(cluster: Cluster, tmp_path: Path, port: int) -> Schedulers:
    return Schedulers(cluster, tmp_path, port)
