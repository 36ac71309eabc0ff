"""The command as a process of its own that begins with everything loaded.

    with warm() as command:
        subprocess.run([*command, "plan", "-f", "cluster.yaml"])

To load the command costs more than most of what tests ask it. So one process loads it and forks
for each call; the process that a test starts hands on its arguments, its surroundings and its
standard streams, and ends with the same status. It does not hand on signals, and streams are those
of a Python that began without a terminal: tests of either start the command itself (`command`).
"""

from __future__ import annotations

import ast
import gc
import importlib
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from placement import cli
from placement.cli.__main__ import ask, end
from tests.cli.command import environment

_CALL: Final = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    socket.send_fds(server, [b" "], [0, 1, 2])
    server.sendall(repr((os.getcwd(), dict(os.environ), sys.argv[2:])).encode())
    server.shutdown(socket.SHUT_WR)
    told = b"".join(iter(lambda: server.recv(16), b""))
sys.exit(int(told))
"""


@contextmanager
def warm(*after: str) -> Iterator[list[str]]:
    """The words that the arguments of `placementctl` are to follow; `after` are added to these."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"{folder}/warm"
        with subprocess.Popen(
            [sys.executable, "-m", "tests.cli.warm", address, *after],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            env=environment(),
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"loaded\n"
            # Neither site-packages nor variables, which take longest to look at.
            yield [sys.executable, "-S", "-E", "-c", _CALL, address]


def _serve(address: str, *after: str) -> int:
    """Fork for each call; return, in such a process, with the status of the command."""
    for module in pkgutil.walk_packages(cli.__path__, f"{cli.__name__}."):
        # One needs Ray, which few have.
        with suppress(ModuleNotFoundError):
            importlib.import_module(module.name)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        gc.freeze()
        # Nobody waits for these processes here.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        print("loaded", flush=True)
        while True:
            ready, _, _ = select.select([listening, sys.stdin], [], [])
            if sys.stdin in ready:
                # It was closed: the caller is done, or dead.
                return 0
            call, _ = listening.accept()
            if os.fork() == 0:
                break
            call.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, _, _ = socket.recv_fds(call, 1, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    told = b"".join(iter(lambda: call.recv(1 << 16), b""))
    folder, variables, arguments = ast.literal_eval(told.decode())
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = ["placementctl", *arguments, *after]
    status = ask()
    call.sendall(str(int(status)).encode())
    # It stays open until this process has ended.
    call.detach()
    return end(status)


if __name__ == "__main__":
    sys.exit(_serve(*sys.argv[1:]))
