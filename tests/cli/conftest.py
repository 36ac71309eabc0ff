"""The command, loaded once for all tests of it in this process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.cli.command import Call, run
from tests.cli.warm import warm


@pytest.fixture(scope="session")
def call() -> Iterator[Call]:
    """`run` of a command that is loaded already."""
    with warm() as command:
        yield partial(run, command=command)
