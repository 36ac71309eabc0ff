"""Threads in which solvers work beside the search, which would only wait for one of them."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from placement_service.cp_sat.linear_model import Question, Solved


class SolverThreads(ThreadPoolExecutor):
    """Solves so many questions at once. As a context it ends when all are solved: they have limits
    of their own.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count, thread_name_prefix="solver")
        self._count = count
        self._begun: set[Future[Solved]] = set()

    def begin(self, question: Question) -> Future[Solved]:
        """Begins to solve a question as soon as a thread is idle."""
        future = self.submit(question)
        self._begun.add(future)
        return future

    @property
    def idle(self) -> int:
        """So many threads have nothing to do."""
        self._begun = {f for f in self._begun if not f.done()}
        return max(0, self._count - len(self._begun))
