"""A server of the soak's own, and all its processes seen from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import grpc

from tests.certificates import issue
from tests.ports import reserve


class Served:
    """A server with TLS on the loopback interface, as long as the block lasts."""

    def __init__(self, folder: Path, *, processes: int) -> None:
        """`folder` gets its certificates and its log; `processes` compute at once."""
        self.port = reserve()
        self._folder = folder
        issue(folder, "server")
        self._ca = (folder / "ca.crt").read_bytes()
        self._processes = processes

    def __enter__(self) -> Self:
        ours = {k: v for k, v in os.environ.items() if not k.startswith("PLACEMENT_")}
        with (self._folder / "server.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "placement_service"],
                stderr=log,
                env={
                    **ours,
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    "PLACEMENT_PORT": str(self.port),
                    "PLACEMENT_TLS_CERTIFICATE": str(self._folder / "server.crt"),
                    "PLACEMENT_TLS_KEY": str(self._folder / "server.key"),
                    "PLACEMENT_MAX_CONCURRENT": str(self._processes),
                    "PLACEMENT_MAX_PENDING": "8",
                    "PLACEMENT_ARRIVAL_TIMEOUT": "3",
                },
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ended_well(self) -> bool:
        """Ends it as Kubernetes does; whether it was alive, and ended without complaint."""
        if not self.alive:
            return False
        self.process.terminate()
        return self.process.wait(60) == 0

    @contextmanager
    def channel(self) -> Iterator[grpc.Channel]:
        """A connection of its own."""
        options = (
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", -1),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 500),
        )
        credentials = grpc.ssl_channel_credentials(self._ca)
        with grpc.secure_channel(f"localhost:{self.port}", credentials, options) as channel:
            yield channel

    def processes(self) -> list[int]:
        """The server, its compute processes and their solvers."""
        found = [self.process.pid]
        for pid in found:
            with suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    found += map(int, (task / "children").read_text().split())
        return found

    def memory(self) -> int:
        """Bytes of resident memory of all of them that are not shared."""
        total = 0
        for pid in self.processes():
            with suppress(OSError):
                for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                    if line.startswith(("Private_Clean:", "Private_Dirty:")):
                        total += int(line.split()[1]) * 1024
        return total

    def settled_memory(self) -> int:
        """The same, once it neither shrinks nor grows."""
        end = time.monotonic() + 5
        last, now = 0, self.memory()
        while abs(now - last) > 2**22 and time.monotonic() < end:
            time.sleep(0.3)
            last, now = now, self.memory()
        return now
