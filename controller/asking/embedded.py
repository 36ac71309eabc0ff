"""The placement service inside this process, for clusters too small for a separate one.

The only module of the controller that knows the service; everything else talks gRPC to
it, here over the loopback interface.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Seconds until questions are asked also of a service whose solver is not loaded.
_WARM: Final = 30.0


@contextmanager
def serving(*, time_limit: float) -> Iterator[str]:
    """Run the service while the block runs; yields its address once its solver is loaded: the first
    answer is carried out, and should be as good as others.
    """
    # Only here: a controller with a service elsewhere never loads it.
    from placement_service.api.server import make_server
    from placement_service.api.settings import inside_another_process

    server = make_server(inside_another_process(time_limit=time_limit))
    try:
        port = server.start()
        server.wait_until_warm(_WARM)
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0)
