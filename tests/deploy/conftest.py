"""The placement service of the controller's tests, and a cluster with all that is deployed."""

import pytest

from tests.cluster.fixtures import Cluster
from tests.controller.conftest import service
from tests.deploy.manifests import manifests

__all__ = ["service"]


@pytest.fixture
def deployed(cluster: Cluster) -> Cluster:
    for body in manifests():
        cluster.api.apply(body)
    return cluster
