"""What all tests share: surroundings that are the same everywhere, how hypothesis searches, and a
real cluster for those who ask.
"""

from __future__ import annotations

import gc
import os
import re

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.cluster.fixtures"]

# What a machine sets for its people and programs: proxies, credentials, colours, sizes of terminals
# and what gRPC logs. Tests that are about these set them; before all imports, as gRPC reads some
# when it is loaded.
_OF_THE_MACHINE = re.compile(
    r"(?i:.*_proxy)|GRPC_.*|KUBE(CONFIG|RNETES_.*)|(FORCE_|NO_|CLI)COLOR.*|COLUMNS|LINES"
)
for _name in [name for name in os.environ if _OF_THE_MACHINE.fullmatch(name)]:
    del os.environ[_name]
# What such programs write to is no terminal, of whatever kind this one is.
os.environ["TERM"] = "xterm"

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
