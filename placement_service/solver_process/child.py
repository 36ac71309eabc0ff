"""Starts a module of this service as a child process with a socket."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence


def start_child(
    module: str,
    end: socket.socket,
    options: Sequence[str],
    *,
    process_group: int | None = None,
) -> subprocess.Popen[bytes]:
    """Starts ``python -m module --fd N``, where N is the child's end of a socket.

    `process_group` is as for `subprocess.Popen`. Raises OSError.
    """
    # It finds the modules that we find, also those of a caller who changed sys.path, where an
    # empty entry is the working directory.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return subprocess.Popen(
        # -P: nothing in the working directory is one of our packages.
        [sys.executable, "-P", "-m", module, "--fd", str(end.fileno()), *options],
        pass_fds=(end.fileno(),),
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        # Standard output belongs to the program that embeds the server.
        stdout=2,
        process_group=process_group,
    )


def ending(child: subprocess.Popen[bytes]) -> str:
    """How a process ended, of which nobody asked it: an operator may know who did."""
    status = child.wait()
    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"ended with status {status}"
