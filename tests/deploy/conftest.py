"""The placement service of the controller's tests."""

from tests.controller.conftest import service

__all__ = ["service"]
