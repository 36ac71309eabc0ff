"""Engines that misbehave, for the solver process to load by name.

They stand in for the real engine at the documented border, ``--engine
module:function``; the process, the socket and the pool are real.
"""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from placement_service.entities.solution import Assignment, Solution, Tier, TierName
from placement_service.formulation.problem import Problem

Report = Callable[[Solution], None]

#: The variable with the folder in which `meeting` engines meet.
MEETING: Final = "TESTS_MEETING"


def last_node(problem: Problem, start: Solution) -> Solution:
    """The same plan, with everything on the last node and proven."""
    node = problem.node_count - 1
    tiers = tuple(Tier(t.name, t.value, t.value) for t in start.tiers)
    moved = tuple(a._replace(node=node) for a in start.assignments)
    return replace(start, assignments=moved, tiers=tiers, phase="moved")


def moving(problem: Problem, start: Solution, *, deadline: float, report: Report) -> Solution:
    return last_node(problem, start)


def patient(problem: Problem, start: Solution, *, deadline: float, report: Report) -> Solution:
    """Uses all the time it is given."""
    time.sleep(max(0.0, deadline - time.monotonic()))
    return last_node(problem, start)


def meeting(problem: Problem, start: Solution, *, deadline: float, report: Report) -> Solution:
    """Goes on when two have left something in the folder, of whom one may be the test."""
    folder = Path(os.environ[MEETING])
    (folder / f"{os.getpid()}").touch()
    while len(os.listdir(folder)) < 2:
        time.sleep(0.01)
    return last_node(problem, start)


def stubborn(problem: Problem, start: Solution, *, deadline: float, report: Report) -> Solution:
    """Reports something better, then ignores its deadline."""
    report(replace(last_node(problem, start), tiers=start.tiers))
    time.sleep(600)
    raise AssertionError("still alive")


def dying(problem: Problem, start: Solution, *, deadline: float, report: Report) -> Solution:
    """Reports something better, then crashes as native code does."""
    report(replace(last_node(problem, start), tiers=start.tiers))
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError("still alive")


def patricidal(problem: Problem, start: Solution, *, deadline: float, report: Report) -> Solution:
    """Kills the process that started this one, as the kernel may when memory runs out."""
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)
    raise AssertionError("still alive")


def halting(problem: Problem, start: Solution, *, deadline: float, report: Report) -> Solution:
    """Stops the process that started this one, so that it neither works nor dies."""
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(600)
    raise AssertionError("still alive")


def frozen(problem: Problem, start: Solution, *, deadline: float, report: Report) -> Solution:
    """Stops without ending: the process neither works nor dies."""
    os.kill(os.getpid(), signal.SIGSTOP)
    raise AssertionError("still alive")


def failing(problem: Problem, start: Solution, *, deadline: float, report: Report) -> Solution:
    raise ZeroDivisionError("a defect of the engine")


def overfilling(problem: Problem, start: Solution, *, deadline: float, report: Report) -> Solution:
    """Binds every pod of the first group to the last node, fit or not, and calls it optimal."""
    pods = problem.gangs[0].requirements[0].pending
    node = problem.node_count - 1
    tiers = tuple(Tier(name, 1000.0, 1000.0) for name in TierName)
    return Solution((Assignment(0, 0, 0, node, pods),), tiers, phase="lie")


def inventing(problem: Problem, start: Solution, *, deadline: float, report: Report) -> Solution:
    """Binds more pods than there are."""
    return Solution((Assignment(0, 0, 0, 0, 10**6),), start.tiers, phase="lie")


def boasting(problem: Problem, start: Solution, *, deadline: float, report: Report) -> Solution:
    """The same plan with values and bounds that are not true."""
    tiers = (Tier(TierName.ADMITTED, 999.0, 999.0), *start.tiers[1:])
    return replace(start, tiers=tiers, phase="lie")


def hungry(problem: Problem, start: Solution, *, deadline: float, report: Report) -> Solution:
    """Takes 64 MiB for a moment."""
    block = bytearray(64 * 1024 * 1024)
    block[::4096] = b"x" * len(block[::4096])
    return replace(start, phase=f"{len(block)}")


def enormous(problem: Problem, start: Solution, *, deadline: float, report: Report) -> Solution:
    """Asks for a GiB of address space and does not touch it."""
    return replace(start, phase=f"{len(bytearray(2**30))}")


def collections(objects: int, /, *, deadline: float) -> int:
    """How often garbage is collected while so many objects are made."""
    before = sum(generation["collections"] for generation in gc.get_stats())
    held: list[list[int]] = [[] for _ in range(objects)]
    after = sum(generation["collections"] for generation in gc.get_stats())
    return after - before if held else 0
