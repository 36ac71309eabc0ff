"""The placement service inside this process, for clusters too small for a separate one.

The only module of the controller that knows the service; everything else talks gRPC to
it, here over the loopback interface.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

#: Request and answer never leave the machine, so their size does not matter.
_MOST_BYTES = 2**31 - 1


@contextmanager
def serving(*, time_limit: float) -> Iterator[str]:
    """Run the service while the block runs; yields its address."""
    # Only here: a controller with a service elsewhere never loads it.
    from placement_service.api.server import make_server
    from placement_service.api.settings import Settings

    server = make_server(
        Settings(
            host="127.0.0.1",
            port=0,
            max_concurrent=1,
            tls_certificate=None,
            tls_key=None,
            tls_client_ca=None,
            max_message_bytes=_MOST_BYTES,
            max_time_limit=max(time_limit, 1.0),
        )
    )
    try:
        yield f"127.0.0.1:{server.start()}"
    finally:
        server.stop(0)
