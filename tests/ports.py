"""Ports for servers that must be found at a number known beforehand, or at the same one again.

A port that was free a moment ago may be taken now: the kernel gives it to any program that asks for
some port. Here it stays ours, even while nothing listens on it.
"""

from __future__ import annotations

import socket

#: Bound until this process ends. Who binds such a port by its number may still listen on it,
#: as both allow the address to be used again, which all our servers do.
_held: list[socket.socket] = []


def reserve() -> int:
    """A port of loopback on which nobody listens, and that nobody else is given."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    port: int = holder.getsockname()[1]
    return port
