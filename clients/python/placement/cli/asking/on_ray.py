"""Traces on the machines of a Ray cluster, one task for each.

Ray (https://docs.ray.io) runs Python on many machines, and starts again what died with one of them.
Every machine needs the program in the version that asks, and starts a service for its trace.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any, Final

import ray
import ray.exceptions

from placement import __version__
from placement.cli.asking.traces import Ending, Trace, run
from placement.cli.failures import Failure, no_answer
from placement.planning.planner import OutOfTime
from placement.planning.simulate import Outcome

#: Seconds between two looks at whether the traces should end.
_PAUSE: Final = 0.5


class _Flag:
    """Tells all machines that their traces should end."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set


def run_on_ray(traces: Sequence[Trace], ending: Ending, *, address: str) -> list[Outcome]:
    """The outcome of each, in their order.

    `address` is what Ray takes: ``auto`` for the cluster that this machine belongs to,
    ``HOST:PORT`` for the one with that head, ``local`` for one of this machine alone.
    Raises `OutOfTime` and `Failure`.
    """
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        raise no_answer(f"Ray at {address}: {error}") from error
    try:
        flag = ray.remote(num_cpus=0)(_Flag).remote()
        task = ray.remote(_run)
        waiting = runs = [task.remote(trace, flag, __version__) for trace in traces]
        told = False
        while waiting:
            # Interrupts are seen in between.
            _, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=_PAUSE)
            if ending.has_begun() and not told:
                flag.set.remote()
                told = True
        outcomes: list[Outcome] = ray.get(runs)
        return outcomes
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, Failure | OutOfTime):
            raise error.cause from None
        raise no_answer(f"a machine of Ray: {error.cause!r}") from error
    except ray.exceptions.RayError as error:
        raise no_answer(f"Ray at {address}: {error}") from error
    finally:
        ray.shutdown()


def _run(trace: Trace, flag: Any, version: str) -> Outcome:
    """Runs on the other machine."""
    if version != __version__:
        raise no_answer(f"a machine of Ray has version {__version__}; {version} asks")
    ending = Ending()
    over = threading.Event()

    def look() -> None:
        while not over.wait(_PAUSE):
            if ray.get(flag.is_set.remote()):
                ending.begin()
                return

    threading.Thread(target=look, name="ending", daemon=True).start()
    try:
        return run(trace, ending)
    finally:
        over.set()
