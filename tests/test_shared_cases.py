"""Questions with known answers, asked of the real command and judged from outside.

The cases and their judge, ``tools/check_plan.py``, live outside this repository:
in the folder that PLACEMENT_SHARED names, else in ``shared`` beside the checkout.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from placement.testing import serve
from tests.cli.warm import warm
from tests.shared_inputs import SHARED

JUDGE = SHARED / "tools" / "check_plan.py"
CASES = sorted(path.parent for path in SHARED.glob("cases/*/input.yaml"))

NO_CASES = pytest.param(None, marks=pytest.mark.skip(reason="no shared cases on this machine"))


@pytest.fixture(scope="module")
def command() -> Iterator[str]:
    """`placementctl` with one server for all cases, and with more patience than it has by default:
    the machine may be busy."""
    with serve() as server, warm("--server", server, "--time-limit", "60s") as words:
        yield shlex.join(words)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name) for case in CASES] if JUDGE.exists() else [NO_CASES]
)
def test_the_plan_is_judged_right(case: Path, command: str) -> None:
    done = subprocess.run(
        [sys.executable, str(JUDGE), str(case)],
        env={**os.environ, "PLACEMENTCTL": command},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
