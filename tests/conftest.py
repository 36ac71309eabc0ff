"""What all tests share: how hypothesis searches, and a real cluster for those who ask."""

from __future__ import annotations

import gc

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.cluster.fixtures"]

# Machines that run tests are shared, and a slow one is no bug.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples each time: a test fails by what was changed, and not by chance.
settings.register_profile("usual", _PATIENT, derandomize=True, max_examples=60)
# Other examples each time, to find unexpected cases.
settings.register_profile("thorough", _PATIENT, derandomize=False, max_examples=2000)
settings.register_profile("exhaustive", _PATIENT, derandomize=False, max_examples=10_000)
settings.load_profile("usual")


def pytest_collection_finish() -> None:
    # Thousands of tests and all modules stay to the end: garbage collection need not look at them.
    gc.freeze()
