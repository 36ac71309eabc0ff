"""The command and the service, loaded once for all tests of the command in this process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from placement.testing import serve
from tests.cli.command import Call, run
from tests.cli.warm import warm


@pytest.fixture(scope="session")
def call() -> Iterator[Call]:
    """`run` of a command that is loaded already."""
    with warm() as command:
        yield partial(run, command=command)


@pytest.fixture(scope="session")
def service() -> Iterator[str]:
    """Where the real service listens: one for all, for each takes seconds to load its solver."""
    with serve() as address:
        yield address
