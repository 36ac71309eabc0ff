"""Plain pods of gangs, as the plugin reads them."""

from __future__ import annotations

from tests.cluster.api import Body
from tests.cluster.build import pod_spec
from tests.cluster.fixtures import Cluster

GANG = "placement-service/gang"
SIZE = "placement-service/gang-minimum"
REQUIRED = "placement-service/required-level"


def member(cluster: Cluster, name: str, gang: str, size: int, level: str = "") -> Body:
    """A plain pod of a gang."""
    annotations = {GANG: gang, SIZE: str(size)} | ({REQUIRED: level} if level else {})
    return {
        "metadata": {"name": name, "namespace": cluster.namespace, "annotations": annotations},
        "spec": pod_spec(gpus=1),
    }
