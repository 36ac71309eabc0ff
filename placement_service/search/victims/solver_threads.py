"""Threads in which solvers work beside the search, which would only wait for one of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from placement_service.cp_sat.linear_model import Question, Solved


class SolverThreads(ThreadPoolExecutor):
    """Solves so many questions at once. As a context it ends when all are solved: they have limits
    of their own.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count, thread_name_prefix="solver")
        self._count = count
        self._begun: set[Future[Solved]] = set()
        self._takers: dict[Future[Solved], Callable[[Solved], None]] = {}

    def begin(
        self, question: Question, taker: Callable[[Solved], None] | None = None
    ) -> Future[Solved]:
        """Begins to solve a question as soon as a thread is idle. `take` gives the answer to the
        taker.
        """
        future = self.submit(question)
        self._begun.add(future)
        if taker:
            self._takers[future] = taker
        return future

    @property
    def idle(self) -> int:
        """So many threads have nothing to do."""
        self._begun = {f for f in self._begun if not f.done()}
        return max(0, self._count - len(self._begun))

    @property
    def owed(self) -> Future[Solved] | None:
        """The first answer that is still to be taken."""
        return next(iter(self._takers), None)

    def take(self, until: Future[Solved] | None = None) -> None:
        """Waits for an answer that somebody takes, or until something else is solved, and gives
        all that are there to their takers.
        """
        others = [until] if until else []
        for future in wait([*self._takers, *others], return_when=FIRST_COMPLETED).done:
            if taker := self._takers.pop(future, None):
                taker(future.result())
