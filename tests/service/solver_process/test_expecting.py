"""A solver process that gets the problem before the first answer is there."""

from __future__ import annotations

import dataclasses
import os
import signal
import time

import pytest

from placement_service.entities.request import Policy
from placement_service.entities.solution import Limit, Solution
from placement_service.formulation.formulate import formulate
from placement_service.formulation.problem import Problem
from placement_service.heuristic.first_answer import first_answer
from placement_service.solver_process.pool import SolverPool
from tests.scenario import Scenario
from tests.service.preparing_engine import ENDLESS_NODES, UNLUCKY_NODES
from tests.service.solver_process.pools import pool_with, search
from tests.waiting import LONG, wait_until

PREPARING = "tests.service.preparing_engine:search"


def problem_of(nodes: int) -> Problem:
    asked = Scenario(" ".join(f"x{i}=8" for i in range(nodes))).gang("g", pods=1, gpus=8)
    return formulate(asked.snapshot(), Policy())


def phase(pool: SolverPool, problem: Problem) -> str:
    return search(pool, problem, first_answer(problem)).solution.phase


def late() -> float:
    return time.monotonic() + LONG


def test_the_engine_gets_what_was_prepared() -> None:
    problem = problem_of(3)
    with pool_with(PREPARING) as pool:
        assert pool.wait_until_ready(LONG)
        with pool.expecting(problem, deadline=late()):
            assert phase(pool, problem) == "prepared 3 nodes, asked 3"
        assert phase(pool, problem) == "nothing prepared, asked 3"


def test_what_prepares_knows_when_the_search_is_waited_for() -> None:
    problem = problem_of(ENDLESS_NODES)
    with pool_with(PREPARING) as pool:
        assert pool.wait_until_ready(LONG)
        told: list[Solution] = []
        with pool.expecting(problem, deadline=late()):
            found = search(pool, problem, first_answer(problem), reported=told)
        assert found.solution.phase == "prepared 4 nodes, asked 4"
        # It may say what it knows before the search begins.
        assert [solution.phase for solution in told] == ["told"]


def test_a_problem_that_is_not_searched_leaves_nothing_behind() -> None:
    with pool_with(PREPARING) as pool:
        assert pool.wait_until_ready(LONG)
        before = pool.process_ids()
        with pool.expecting(problem_of(ENDLESS_NODES), deadline=late()):
            pass
        assert phase(pool, problem_of(3)) == "nothing prepared, asked 3"
        assert pool.process_ids() == before


def test_the_search_of_another_problem_hears_nothing_of_one_that_was_dropped() -> None:
    problem, other = problem_of(ENDLESS_NODES), problem_of(3)
    told: list[Solution] = []
    with pool_with(PREPARING) as pool:
        assert pool.wait_until_ready(LONG)
        for _ in range(5):
            with pool.expecting(problem, deadline=late()):
                time.sleep(0.05)
            search(pool, other, first_answer(other), reported=told)
    assert not told


def test_another_problem_is_not_answered_with_the_one_that_was_expected() -> None:
    """The process that waits for one problem is not free for another."""
    expected, other = problem_of(3), problem_of(1)
    with pool_with(PREPARING) as pool:
        assert pool.wait_until_ready(LONG)
        with pool.expecting(expected, deadline=late()):
            found = search(pool, other, first_answer(other), seconds=0.2)
            assert (found.limit, found.solution) == (Limit.TIME, first_answer(other))
        assert phase(pool, other) == "nothing prepared, asked 1"


def test_what_cannot_be_prepared_is_searched_without() -> None:
    problem = problem_of(UNLUCKY_NODES)
    with pool_with(PREPARING) as pool:
        assert pool.wait_until_ready(LONG)
        with pool.expecting(problem, deadline=late()):
            assert phase(pool, problem) == f"nothing prepared, asked {UNLUCKY_NODES}"


@pytest.mark.parametrize("engine", ["moving", PREPARING])
def test_without_a_free_process_nothing_is_expected(engine: str) -> None:
    problem = problem_of(3)
    with pool_with(engine) as pool, pool.expecting(problem, deadline=late()):
        assert pool.wait_until_ready(LONG)
        assert search(pool, problem, first_answer(problem)).limit is Limit.NONE


def test_a_process_that_dies_meanwhile_is_replaced() -> None:
    problem = problem_of(3)
    with pool_with(PREPARING) as pool:
        assert pool.wait_until_ready(LONG)
        (process,) = pool.process_ids()
        with pool.expecting(problem, deadline=late()):
            os.kill(process, signal.SIGKILL)
            wait_until(lambda: ended(process), "the end of the process")
            assert phase(pool, problem) == "nothing prepared, asked 3"
        assert process not in pool.process_ids()


def ended(process: int) -> bool:
    """Whether a child has ended; it is left to be waited for."""
    how = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process, how) is not None


class Unreadable(Problem):
    """A problem that the solver process has no memory to read."""

    def __reduce__(self) -> tuple[object, ...]:
        return raise_memory_error, ()


class Unsendable(Problem):
    """A problem that cannot be sent."""

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("cannot be sent")


def raise_memory_error() -> None:
    raise MemoryError


def turned_into(kind: type[Problem], problem: Problem) -> Problem:
    fields = {f.name: getattr(problem, f.name) for f in dataclasses.fields(Problem) if f.init}
    return kind(**fields)


def test_a_problem_that_cannot_be_read_disturbs_no_other() -> None:
    problem, unreadable = problem_of(3), turned_into(Unreadable, problem_of(3))
    with pool_with(PREPARING) as pool:
        assert pool.wait_until_ready(LONG)
        before = pool.process_ids()
        with pool.expecting(unreadable, deadline=late()):
            found = search(pool, unreadable, first_answer(problem))
            assert found.limit is Limit.SOLVER_LOST
            assert "could not be read" in found.failure
        with pool.expecting(unreadable, deadline=late()):
            pass
        assert phase(pool, problem) == "nothing prepared, asked 3"
        assert pool.process_ids() == before


def test_a_problem_that_cannot_be_sent_leaves_the_pool_whole() -> None:
    problem = problem_of(3)
    with pool_with(PREPARING) as pool:
        assert pool.wait_until_ready(LONG)
        unsendable = turned_into(Unsendable, problem)
        with pytest.raises(TypeError), pool.expecting(unsendable, deadline=late()):
            pass
        assert phase(pool, problem) == "nothing prepared, asked 3"
