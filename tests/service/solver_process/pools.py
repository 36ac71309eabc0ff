"""Pools of one solver process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from placement_service.entities.solution import Solution
from placement_service.formulation.problem import Problem
from placement_service.solver_process.pool import Found, SolverPool
from tests.waiting import LONG


@contextmanager
def pool_with(engine: str, *, memory_bytes: int = 0) -> Iterator[SolverPool]:
    name = engine if ":" in engine else f"tests.service.engines:{engine}"
    pool = SolverPool(1, engine=name, memory_bytes=memory_bytes)
    try:
        yield pool
    finally:
        pool.close()


def search(
    pool: SolverPool,
    problem: Problem,
    start: Solution,
    *,
    seconds: float = LONG,
    reported: list[Solution] | None = None,
) -> Found:
    return pool.search(
        problem,
        start,
        deadline=time.monotonic() + seconds,
        report=(reported if reported is not None else []).append,
    )
