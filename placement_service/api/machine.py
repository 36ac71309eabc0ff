"""How much of the machine this process may use, and how to give back memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

#: Where a container finds its share of the processors, and of memory (cgroup v2).
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_MEMORY = Path("/sys/fs/cgroup/memory.max")

#: Cores that a request keeps busy: one for the solver, one for all else.
CORES_PER_REQUEST = 2

#: Bytes of memory to have for each request.
MEMORY_PER_REQUEST = 2**30

#: The most requests at once by default: each keeps two processes warm.
MOST_CONCURRENT = 8


def cores(quota: Path = _QUOTA) -> float:
    """Cores that this process may use, by its affinity and the limit of its container."""
    available = float(len(os.sched_getaffinity(0)))
    try:
        share, period = quota.read_text().split()
        return available if share == "max" else min(available, int(share) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return available


def memory(limit: Path = _MEMORY) -> int:
    """Bytes of memory that this process may use: the machine's, or those of its container."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(available, int(limit.read_text()))
    except (OSError, ValueError):
        return available


def concurrent_requests() -> int:
    """Requests that the machine can compute at once, at least one."""
    by_cores, by_memory = int(cores() // CORES_PER_REQUEST), memory() // MEMORY_PER_REQUEST
    return max(1, min(by_cores, by_memory, MOST_CONCURRENT))


def give_back_memory() -> None:
    """Gives freed memory back to the system; otherwise the C library keeps it."""
    # Other C libraries have no such call.
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
