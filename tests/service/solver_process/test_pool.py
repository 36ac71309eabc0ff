"""Solver processes: real ones, with engines that misbehave (see `engines`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from placement_service.entities.progress import Switch
from placement_service.entities.request import Policy
from placement_service.entities.solution import Limit, Solution
from placement_service.formulation.formulate import formulate
from placement_service.formulation.problem import Problem
from placement_service.heuristic.first_answer import first_answer
from placement_service.solver_process import pool as pool_module
from tests.processes import is_running
from tests.service.questions import snapshot
from tests.service.solver_process.pools import pool_with, search
from tests.waiting import LONG, wait_until

#: Seconds for what must come within them: a machine that stands still for longer than the
#: first ones gets more.
EVER_MORE = (3.0, 6.0, 24.0)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return formulate(snapshot(), Policy())


@pytest.fixture(scope="module")
def start(problem: Problem) -> Solution:
    return first_answer(problem)


def nodes_of(solution: Solution) -> set[int]:
    return {a.node for a in solution.assignments}


def test_the_engines_last_word_comes_back(problem: Problem, start: Solution) -> None:
    with pool_with("moving") as pool:
        found = search(pool, problem, start)
    assert nodes_of(found.solution) == {2}
    assert found.limit is Limit.NONE
    assert found.peak_memory_bytes > 0


def test_a_process_is_used_again(problem: Problem, start: Solution) -> None:
    with pool_with("moving") as pool:
        search(pool, problem, start)
        before = pool.process_ids()
        search(pool, problem, start)
        assert pool.process_ids() == before


def test_an_engine_that_keeps_its_deadline_has_its_last_word(
    problem: Problem, start: Solution
) -> None:
    with pool_with("patient") as pool:
        for seconds in EVER_MORE:
            assert pool.wait_until_ready(LONG)
            found = search(pool, problem, start, seconds=seconds)
            if found.limit is Limit.NONE:
                break
    assert (nodes_of(found.solution), found.limit) == ({2}, Limit.NONE)


def test_an_engine_that_ignores_its_deadline_is_replaced(
    problem: Problem, start: Solution, caplog: pytest.LogCaptureFixture
) -> None:
    with pool_with("stubborn") as pool:
        reported: list[Solution] = []
        for seconds in EVER_MORE:
            assert pool.wait_until_ready(LONG)
            (before,) = pool.process_ids()
            found = search(pool, problem, start, seconds=seconds, reported=reported)
            assert found.limit is Limit.TIME
            if reported:
                break
        assert found.solution == reported[-1], "the best one reported is the answer"
        assert nodes_of(found.solution) == {2}
        assert pool.wait_until_ready(LONG)
        assert before not in pool.process_ids()
    assert not is_running(before)
    assert set(caplog.messages) == {"the solver process did not stop in time and is replaced"}


@pytest.mark.parametrize(
    ("engine", "want_nodes"),
    [
        pytest.param("dying", {2}, id="after it reported something better"),
        pytest.param("failing", {0}, id="an exception, before it reported anything"),
    ],
)
def test_a_crash_leaves_the_best_answer_so_far(
    problem: Problem, start: Solution, engine: str, want_nodes: set[int]
) -> None:
    assert nodes_of(start) == {0}
    with pool_with(engine) as pool:
        found = search(pool, problem, start)
        assert found.limit is Limit.SOLVER_LOST
        assert nodes_of(found.solution) == want_nodes
        assert search(pool, problem, start).limit is Limit.SOLVER_LOST, "another one took over"


def test_the_traceback_of_an_engine_comes_back(problem: Problem, start: Solution) -> None:
    with pool_with("failing") as pool:
        assert "a defect of the engine" in search(pool, problem, start).failure


def test_kill_9_in_the_middle_of_a_search_ends_it_at_once(
    problem: Problem, start: Solution, caplog: pytest.LogCaptureFixture
) -> None:
    with pool_with("stubborn") as pool:
        assert pool.wait_until_ready(LONG)

        def kill(solution: Solution) -> None:
            os.kill(pool.process_ids()[0], signal.SIGKILL)

        found = pool.search(problem, start, deadline=time.monotonic() + 10 * LONG, report=kill)
        assert pool.wait_until_ready(LONG)
    assert caplog.messages == ["the solver process ended by SIGKILL; another one starts"]
    assert found.limit is Limit.SOLVER_LOST
    assert nodes_of(found.solution) == {2}


def test_a_process_that_died_while_idle_is_replaced_before_the_next_search(
    problem: Problem, start: Solution, caplog: pytest.LogCaptureFixture
) -> None:
    with pool_with("moving") as pool:
        assert pool.wait_until_ready(LONG)
        (first,) = pool.process_ids()
        os.kill(first, signal.SIGKILL)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)

        found = search(pool, problem, start)

        assert nodes_of(found.solution) == {2}
        assert first not in pool.process_ids()
    assert caplog.messages == ["the solver process ended by SIGKILL; another one starts"]


def test_a_process_killed_with_its_last_word_is_not_used_again(
    problem: Problem, start: Solution
) -> None:
    """A caller may leave in the moment in which the search ends."""
    switch = Switch()
    with pool_with("moving") as pool:
        pool.search(
            problem,
            start,
            deadline=time.monotonic() + LONG,
            interrupter=_LeavesAtTheEnd(switch),
            report=lambda solution: None,
        )

        found = search(pool, problem, start)

    assert found.limit is Limit.NONE
    assert nodes_of(found.solution) == {2}


class _LeavesAtTheEnd:
    """An interrupter that interrupts as late as it can."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch

    @property
    def interrupted(self) -> bool:
        return self._switch.interrupted

    @contextmanager
    def calling(self, callback: Callable[[], None], /) -> Iterator[None]:
        with self._switch.calling(callback):
            yield
            if callback.__name__ == "kill":
                self._switch.interrupt()


def test_a_process_that_stops_without_ending_does_not_hold_the_answer(
    problem: Problem, start: Solution
) -> None:
    with pool_with("frozen") as pool:
        assert pool.wait_until_ready(LONG)
        found = search(pool, problem, start, seconds=2.0)
        assert (found.solution, found.limit) == (start, Limit.TIME)
        assert pool.wait_until_ready(LONG), "it was replaced"


def test_a_caller_who_leaves_frees_the_process(problem: Problem, start: Solution) -> None:
    with pool_with("stubborn") as pool:
        assert pool.wait_until_ready(LONG)
        switch = Switch()
        found = pool.search(
            problem,
            start,
            deadline=time.monotonic() + 10 * LONG,
            interrupter=switch,
            report=lambda _: threading.Thread(target=switch.interrupt).start(),
        )
        assert nodes_of(found.solution) == {2}
        assert pool.wait_until_ready(LONG)


def test_a_caller_who_left_before_takes_no_process(problem: Problem, start: Solution) -> None:
    with pool_with("moving") as pool:
        assert pool.wait_until_ready(LONG)
        before = pool.process_ids()
        switch = Switch()
        switch.interrupt()
        pool.search(
            problem,
            start,
            deadline=time.monotonic() + LONG,
            interrupter=switch,
            report=lambda _: None,
        )
        assert pool.process_ids() == before


def test_an_engine_that_cannot_be_loaded_makes_nobody_wait(
    problem: Problem, start: Solution
) -> None:
    with pool_with("no_such_module:search") as pool:
        found = search(pool, problem, start, seconds=10 * LONG)
    assert (found.solution, found.limit) == (start, Limit.SOLVER_LOST)


def test_a_process_that_dies_while_booting_is_started_again_at_once(
    problem: Problem, start: Solution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shaky_engine.py").write_text(
        "import os, pathlib\n"
        "deaths = pathlib.Path(__file__).with_name('deaths')\n"
        "if len(deaths.read_text()) < 3:\n"
        "    deaths.write_text(deaths.read_text() + 'x')\n"
        "    os._exit(1)\n"
        "from tests.service.engines import moving\n"
    )
    (tmp_path / "deaths").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pool_with("shaky_engine:moving") as pool:
        assert pool.wait_until_ready(LONG)
        found = search(pool, problem, start)
    assert (tmp_path / "deaths").read_text() == "xxx"
    assert nodes_of(found.solution) == {2}
    # All three pauses together are shorter than a caller's patience.
    assert sum(pool_module.BOOT_PAUSES[:3]) < 1.0
    assert max(pool_module.BOOT_PAUSES) <= 5.0


def test_a_pool_recovers_when_no_process_can_be_started_for_a_while(
    problem: Problem, start: Solution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "BOOT_PAUSES", (0.05,))
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pool_with("moving") as pool:
        lost = search(pool, problem, start)
        monkeypatch.undo()
        assert pool.wait_until_ready(LONG)

        found = search(pool, problem, start)

    assert lost.limit is Limit.SOLVER_LOST
    assert nodes_of(found.solution) == {2}


def test_without_a_free_process_the_start_is_the_answer_at_the_deadline(
    problem: Problem, start: Solution
) -> None:
    with pool_with("stubborn") as pool:
        assert pool.wait_until_ready(LONG)
        taken = threading.Event()
        switch = Switch()
        other = threading.Thread(
            target=lambda: pool.search(
                problem,
                start,
                deadline=time.monotonic() + 10 * LONG,
                interrupter=switch,
                report=lambda _: taken.set(),
            )
        )
        other.start()
        assert taken.wait(LONG)
        found = search(pool, problem, start, seconds=0.2)
        assert (found.solution, found.limit) == (start, Limit.TIME)
        switch.interrupt()
        other.join(LONG)
        assert not other.is_alive()


def test_the_peak_memory_is_that_of_the_search(problem: Problem, start: Solution) -> None:
    with pool_with("hungry") as pool:
        assert search(pool, problem, start).peak_memory_bytes > 64 * 1024 * 1024


def test_a_memory_limit_ends_the_search_and_not_the_service(
    problem: Problem, start: Solution
) -> None:
    limit = address_space_of_a_worker() + 2**29
    with pool_with("enormous", memory_bytes=limit) as pool:
        found = search(pool, problem, start)
    assert (found.solution, found.limit) == (start, Limit.SOLVER_LOST)
    assert "MemoryError" in found.failure


def test_closing_ends_all_processes() -> None:
    with pool_with("moving") as pool:
        assert pool.wait_until_ready(LONG)
        pids = pool.process_ids()
    assert pids
    assert not any(map(is_running, pids))


def test_closing_ends_a_search_that_runs(problem: Problem, start: Solution) -> None:
    with pool_with("stubborn") as pool:
        found = pool.search(
            problem,
            start,
            deadline=time.monotonic() + 10 * LONG,
            report=lambda _: pool.close(),
        )
    assert found.limit is Limit.SOLVER_LOST


def test_the_process_ends_when_its_server_is_gone() -> None:
    """Also when the server had no chance to say goodbye."""
    server = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import time; from placement_service.solver_process.pool import SolverPool;"
            "pool = SolverPool(engine='tests.service.engines:moving');"
            "pool.wait_until_ready(60); print(pool.process_ids()[0], flush=True);"
            "time.sleep(600)",
        ],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        text=True,
    )
    assert server.stdout is not None
    pid = int(server.stdout.readline())
    assert is_running(pid)
    server.kill()
    server.wait()
    server.stdout.close()
    wait_until(lambda: not is_running(pid), "the solver process ends")


def test_garbage_is_not_collected_during_a_short_search() -> None:
    def collections(objects: int) -> object:
        deadline = time.monotonic() + LONG
        return pool.call("tests.service.engines:collections", objects, deadline=deadline)

    with pool_with("moving") as pool:
        assert collections(100_000) == 0
        assert collections(300_000) == 1


def address_space_of_a_worker() -> int:
    with pool_with("moving") as pool:
        assert pool.wait_until_ready(LONG)
        lines = Path(f"/proc/{pool.process_ids()[0]}/status").read_text().splitlines()
    (peak,) = (line for line in lines if line.startswith("VmPeak:"))
    return int(peak.split()[1]) * 1024
