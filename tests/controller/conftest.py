"""Controllers against a real API server, and one real placement service for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.composition import Running, running
from controller.runtime.steps import StepObserver, ignored
from controller.settings import Settings
from placement.testing import serve
from tests.cluster.fixtures import Cluster
from tests.controller.cycle_setting import Setting
from tests.controller.witness import Witness
from tests.waiting import LONG

#: Short waits, for the cluster is on this machine, and nobody else uses it; and long ones
#: where time that passes is a reason to do or say something else.
QUICK: dict[str, Any] = {
    "time_limit": 20.0,
    "idle_window": 0.1,
    "longest_window": 1.0,
    "shortest_backoff": 0.2,
    "longest_backoff": 1.0,
    "half_bound_limit": LONG,
    # Reasons would change when a remedy comes; who tests remedies turns them on.
    "remedy_time_limit": 0.0,
    "waiting_notice": LONG,
    "failure_notice": LONG,
    "bind_timeout": LONG,
    "lease_duration": 3 * LONG,
    "renew_deadline": LONG,
    # What is not there comes in no test, and each look costs as much as a change.
    "crd_poll": 3.0,
    "leader_election": False,
    "http_host": "127.0.0.1",
    "http_port": 0,
}

#: One of several replicas, where who leads soon changes.
LEASE: dict[str, Any] = {
    "leader_election": True,
    "lease_namespace": "default",
    "lease_name": "placement-controller",
    "lease_duration": 3.0,
    "renew_deadline": 1.5,
    "renew_period": 0.3,
    "bind_timeout": 1.0,
}

#: Starts a controller that runs to the end of the test; settings differ from `QUICK`.
Start = Callable[..., None]


@pytest.fixture(scope="session")
def service() -> Iterator[str]:
    """The address of a placement service."""
    with serve() as address:
        yield address


@contextmanager
def controller(
    kubeconfig: Path, service: str, *, on_step: StepObserver = ignored, **settings: Any
) -> Iterator[Running]:
    """A controller in this process, while the block runs."""
    given = {**QUICK, "service": service, "kubeconfig": kubeconfig, **settings}
    with running(Settings(**given), on_step=on_step) as controller:
        yield controller
        assert not controller.failed.is_set()


@pytest.fixture
def witness(cluster: Cluster) -> Iterator[Witness]:
    """Judges all that happens, from the first object to the end of the last controller.

    For tests in which nothing fails, and nothing is lost behind the controller's back.
    """
    with Witness(cluster) as judging:
        yield judging


@pytest.fixture
def start(cluster: Cluster, service: str) -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(**settings: Any) -> None:
            kubeconfig = settings.pop("kubeconfig", None) or cluster.kubeconfig()
            address = settings.pop("service", service)
            stack.enter_context(controller(kubeconfig, address, **settings))

        yield begin


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def setting(pool: ThreadPoolExecutor) -> Setting:
    return Setting(pool)
