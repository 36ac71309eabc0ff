"""The real kube-scheduler, beside the real API server."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import urllib3
import yaml

from tests.ports import reserve

_START_SECONDS: Final = 60.0


class KubeScheduler:
    """kube-scheduler with its defaults, and a client fast enough for tests; runs while the
    block runs. `arguments` are further flags."""

    def __init__(self, program: Path, kubeconfig: Path, directory: Path, *arguments: str) -> None:
        self._program = program
        self._port = reserve()
        self._log = directory / "kube-scheduler.log"
        self._config = directory / "kube-scheduler.yaml"
        self._config.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "clientConnection": {
                        "kubeconfig": str(kubeconfig),
                        "qps": 5000,
                        "burst": 5000,
                    },
                    "leaderElection": {"leaderElect": False},
                }
            )
        )
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it and waits until it is healthy. Raises AssertionError with its last words."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(self._program),
                    f"--config={self._config}",
                    "--bind-address=127.0.0.1",
                    f"--secure-port={self._port}",
                    # Or it looks for a file that only a control plane has.
                    "--authentication-skip-lookup=true",
                    *self._arguments,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "GOMAXPROCS": "2"},
                start_new_session=True,
            )
        until = time.monotonic() + _START_SECONDS
        while not self._is_healthy():
            assert self._process.poll() is None, self._log.read_text()[-2000:]
            assert time.monotonic() < until, self._log.read_text()[-2000:]
            time.sleep(0.2)

    def stop(self) -> None:
        """Ends it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _is_healthy(self) -> bool:
        try:
            answer = urllib3.PoolManager(cert_reqs="CERT_NONE", assert_hostname=False).request(
                "GET", f"https://127.0.0.1:{self._port}/readyz", timeout=1.0, retries=False
            )
        except urllib3.exceptions.HTTPError:
            return False
        return answer.status == 200
