"""What an API server says of what is deployed, and what it then changes in pods.

cert-manager's kinds are not there.
"""

from __future__ import annotations

import pytest

from tests.cluster.api import NAMESPACES, PODS, ApiError, Body
from tests.cluster.build import pod_spec
from tests.cluster.fixtures import Cluster
from tests.deploy.manifests import manifests


def test_the_api_server_takes_all_of_it(deployed: Cluster) -> None:
    for body in manifests():
        # Applied once more, it changes nothing and is refused nothing.
        deployed.api.apply(body)


def test_its_pods_are_admitted_under_the_restricted_standard(deployed: Cluster) -> None:
    for body in manifests():
        if body["kind"] == "Deployment":
            metadata = {"name": body["metadata"]["name"], "namespace": "placement-system"}
            spec = body["spec"]["template"]["spec"]
            deployed.api.create(PODS, {"metadata": metadata, "spec": spec})
            deployed.api.delete(PODS, metadata["name"], "placement-system", grace=0)
            with pytest.raises(ApiError, match="restricted"):
                deployed.api.create(
                    PODS, {"metadata": metadata, "spec": {**spec, "hostNetwork": True}}
                )


def test_pods_of_grove_get_our_name_where_it_is_wanted(deployed: Cluster) -> None:
    api = deployed.api

    def name_given(namespace: str, pod: str, labels: Body, **spec: str) -> str:
        made = api.create(
            PODS,
            {
                "metadata": {"name": pod, "namespace": namespace, "labels": labels},
                "spec": {**pod_spec(), **spec},
            },
        )
        api.delete(PODS, pod, namespace, grace=0)
        return str(made["spec"]["schedulerName"])

    wanted = f"{deployed.namespace}-wanted"
    enabled = {"placement-service/enabled": "true"}
    api.create(NAMESPACES, {"metadata": {"name": wanted, "labels": enabled}})
    ours = {"grove.io/podgang": "g-0"}
    deployed.wait_until(
        lambda: name_given(wanted, "a", ours) == "placement-service", "the policy works"
    )
    assert name_given(wanted, "b", {}) == "default-scheduler"
    assert name_given(wanted, "c", ours, schedulerName="kai-scheduler") == "kai-scheduler"
    assert name_given(deployed.namespace, "d", ours) == "default-scheduler"
