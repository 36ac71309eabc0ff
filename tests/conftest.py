"""What all tests share: how hypothesis searches, and a real cluster for those who ask."""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["tests.cluster.fixtures"]

# No deadline for one example: machines that run tests are shared, and a slow one is no bug.
# The rest is what hypothesis finds right for this place.
settings.register_profile("usual", settings(), deadline=None)
settings.register_profile("thorough", settings(), deadline=None, max_examples=2000)
settings.register_profile("exhaustive", settings(), deadline=None, max_examples=10_000)
settings.load_profile("usual")
