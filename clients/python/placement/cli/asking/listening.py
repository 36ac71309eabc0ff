"""Whether anybody is at an address, whatever it speaks."""

from __future__ import annotations

import socket
from typing import Final

_SECONDS: Final = 1.0


def listens(server: str) -> bool:
    """Whether a connection to HOST:PORT is accepted; false for sockets of the file system."""
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS):
            return True
    except (OSError, ValueError):
        return False
