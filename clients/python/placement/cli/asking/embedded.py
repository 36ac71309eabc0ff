"""The solver service inside this process, for a command line without a server.

It is the same service as the one that is deployed, and the command talks to it over gRPC. It starts
in a thread, so its solver process warms up while the input is read. It listens on the loopback
interface only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from placement_service.api.server import Server

#: Seconds for the service to start, and for its solver, on a busy machine.
_READY, _WARM = 120.0, 30.0


class StartError(Exception):
    """The service did not start."""


class Embedded:
    """A service inside this process that is starting, or has started."""

    def __init__(self, starting: Future[tuple[Server, int]]) -> None:
        self._starting = starting

    def address(self) -> str:
        """Waits until a question may be asked, whose time begins then. Raises `StartError`."""
        try:
            server, port = self._starting.result()
        except ModuleNotFoundError as error:
            raise StartError(
                f"{error.name} is not installed; ask a service with --server,"
                " or, in a checkout of it: pip install ."
            ) from error
        except Exception as error:
            raise StartError(str(error)) from error
        if not server.wait_until_ready(_READY):
            raise StartError(f"its process was not ready after {_READY:g} s")
        return f"127.0.0.1:{port}"

    def wait_until_warm(self) -> None:
        """Waits until a search may begin at once, so that its time is not spent on starting."""
        self.address()
        self._starting.result()[0].wait_until_warm(_WARM)


@contextmanager
def serving(*, time_limit: float) -> Iterator[Embedded]:
    """Run the service while the block runs, which begins at once.

    The service allows time limits of so many seconds.
    """
    with ThreadPoolExecutor(max_workers=1) as threads:
        starting = threads.submit(_start, time_limit)
        try:
            yield Embedded(starting)
        finally:
            _stop(starting)


def _start(time_limit: float) -> tuple[Server, int]:
    # Its log lines are for operators; users of the command want answers.
    logging.getLogger("placement_service").addHandler(_errors_only())
    # Only here, because importing it takes a while and `--server` needs none of it.
    from pydantic import ValidationError

    from placement_service.api.server import make_server
    from placement_service.api.settings import faults, inside_another_process

    try:
        settings = inside_another_process(time_limit=time_limit, metrics_port=0)
    except ValidationError as error:
        raise StartError("; ".join(faults(error).splitlines())) from error
    server = make_server(settings)
    return server, server.start()


def _errors_only() -> logging.Handler:
    handler = logging.StreamHandler()
    handler.setLevel(logging.ERROR)
    handler.setFormatter(logging.Formatter("placementctl: the service: %(message)s"))
    return handler


def _stop(starting: Future[tuple[Server, int]]) -> None:
    """Stop a service that runs, even if nobody waited for its start."""
    if starting.cancel() or starting.exception() is not None:
        return
    starting.result()[0].stop(0)
