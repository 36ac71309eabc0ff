"""Answers are taken by those who asked, as soon as they are there and somebody waits."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from placement_service.cp_sat.linear_model import Solved
from placement_service.search.victims.solver_threads import SolverThreads
from tests.waiting import LONG

NOTHING = Solved(None, None)


class Slow:
    """A question that is not solved before somebody says so."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.answer = Solved(None, 1)

    def __call__(self) -> Solved:
        self.go.wait(LONG)
        return self.answer


def test_each_answer_goes_to_who_asked() -> None:
    taken: list[tuple[str, Solved]] = []
    slow = Slow()
    with SolverThreads(2) as threads:
        first = threads.begin(slow, lambda found: taken.append(("slow", found)))
        threads.begin(lambda: NOTHING, lambda found: taken.append(("quick", found)))
        assert threads.owed is first
        threads.take()
        assert taken == [("quick", NOTHING)]
        assert threads.owed is first
        slow.go.set()
        threads.take()
        assert taken[1:] == [("slow", slow.answer)]
        assert threads.owed is None
        # With nothing to take it waits for nothing.
        threads.take()


def test_nobody_waits_for_an_answer_when_something_else_is_solved() -> None:
    slow = Slow()
    solved: Future[Solved] = Future()
    solved.set_result(NOTHING)
    taken: list[Solved] = []
    with SolverThreads(1) as threads:
        threads.begin(slow, taken.append)
        threads.take(until=solved)
        assert not taken
        slow.go.set()
        threads.take()
        assert taken == [slow.answer]


def test_what_nobody_takes_is_not_owed() -> None:
    slow = Slow()
    with SolverThreads(2) as threads:
        assert threads.idle == 2
        found = threads.begin(slow)
        assert threads.owed is None
        assert threads.idle == 1
        slow.go.set()
        assert found.result() is slow.answer
        assert threads.idle == 2
