"""Some seconds under fire; `python -m tests.soak` does it for as long as you like."""

from __future__ import annotations

from pathlib import Path

from tests.soak.soak import DISTURBANCES, REQUESTS, soak


def test_a_server_under_fire_stays_right_in_time_and_alive(tmp_path: Path) -> None:
    # The machine that runs tests may stand still for a while.
    figures = soak(tmp_path, seconds=6.0, slack=5.0, pace=0.3)
    told = "\n".join(figures.lines())
    assert figures.codes["OK"], told
    assert figures.requests.keys() >= REQUESTS, told
    assert figures.disturbances.keys() >= DISTURBANCES, told
    assert figures.deaths == 0, told
    assert figures.faults == [], told
    assert figures.late == [], told
    assert figures.memory_after < figures.memory_before + 200 * 2**20, told
