"""A trace under one policy, run by a service of its own, here or elsewhere."""

from __future__ import annotations

import threading
from typing import NamedTuple

from placement.cli.asking.asking import Asker, asking
from placement.cli.failures import wrong_input
from placement.cli.options.options import Service
from placement.planning.simulate import Job, Outcome, simulate
from placement.v1 import ComputePlacementRequest, Policy


class Trace(NamedTuple):
    """What to run; may be sent to another machine."""

    request: ComputePlacementRequest
    jobs: tuple[Job, ...]
    policy: Policy
    service: Service


class Ending:
    """Ends traces early, from any thread."""

    def __init__(self) -> None:
        self._now = threading.Event()
        self._askers: list[Asker] = []

    def begin(self) -> None:
        """Ends all traces, with the best answer so far to their present questions."""
        self._now.set()
        for asker in self._askers:
            asker.finish()

    def has_begun(self) -> bool:
        return self._now.is_set()

    def reaches(self, asker: Asker) -> None:
        """Lets a question that is under way end early, too."""
        self._askers.append(asker)
        if self.has_begun():
            asker.finish()


def run(trace: Trace, ending: Ending) -> Outcome:
    """The trace whole, or until it is ended. Raises `OutOfTime` and `Failure`."""
    with asking(trace.service) as asker:
        ending.reaches(asker)
        try:
            return simulate(
                trace.request,
                trace.jobs,
                trace.policy,
                ask=lambda asked: asker.ask(asked, trace.service.time_limit),
                stops=ending.has_begun,
            )
        except OverflowError as error:
            raise wrong_input("--jobs: the trace goes on beyond the year 9999") from error
