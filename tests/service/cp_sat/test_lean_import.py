"""OR-tools is loaded without pandas, and nobody else misses it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.waiting import LONG

ENGINE = "import placement_service.search.engine"
LOADED = "import sys; print(any(name.partition('.')[0] == 'pandas' for name in sys.modules))"
SERIES = "import pandas; print(pandas.Series([1, 2]).sum())"
#: Whether CP-SAT and the program mean the same.
SAME = "from ortools.sat.python import cp_model; print(cp_model.pd is pandas)"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ([ENGINE, LOADED], "False"),
        ([ENGINE, SERIES, SAME], "3\nFalse"),
        ([SERIES, ENGINE, SAME], "3\nTrue"),
    ],
    ids=["nobody wants it", "wanted later", "wanted before"],
)
def test_pandas_is_loaded_for_those_who_want_it(program: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(program)],
        capture_output=True,
        check=True,
        text=True,
        timeout=LONG,
    )
    assert done.stdout.strip() == said
