"""BindRequests say of GPUs what KAI's own say: its binder notes it on the pod."""

from __future__ import annotations

import pytest

from controller.advice.schedulers.kai_bind_requests import bind_request
from tests.cluster.api import Body


def asks(kind: str = "requests", **amounts: str) -> Body:
    names = {"gpus": "nvidia.com/gpu", "mig": "nvidia.com/mig-1g.10gb", "cpu": "cpu"}
    return {"resources": {kind: {names[name]: amount for name, amount in amounts.items()}}}


@pytest.mark.parametrize(
    ("spec", "kind", "count", "portion"),
    [
        pytest.param({"containers": [asks(gpus="2")]}, "Regular", 2, "1.00", id="whole GPUs"),
        pytest.param(
            {"containers": [asks("limits", gpus="2"), asks(gpus="1")]},
            "Regular",
            3,
            "1.00",
            id="limits are requests",
        ),
        pytest.param({"containers": [asks(cpu="1")]}, "Regular", 0, "0.00", id="none"),
        pytest.param({"containers": [asks(mig="2")]}, "MigInstance", 0, "0.00", id="instances"),
        pytest.param(
            {"containers": [asks(gpus="1")], "initContainers": [asks(gpus="2")]},
            "Regular",
            2,
            "1.00",
            id="an init container is over by then",
        ),
        pytest.param(
            {
                "containers": [asks(gpus="1")],
                "initContainers": [{**asks(gpus="2"), "restartPolicy": "Always"}],
            },
            "Regular",
            3,
            "1.00",
            id="a sidecar is not",
        ),
    ],
)
def test_what_a_pod_receives(spec: Body, kind: str, count: int, portion: str) -> None:
    pod = {"metadata": {"name": "p", "namespace": "ml", "uid": "u"}, "spec": spec}
    made = bind_request(pod, {"metadata": {"name": "n"}}, advice="1")["spec"]
    assert made["receivedResourceType"] == kind
    assert made["receivedGPU"] == {"count": count, "portion": portion}
    assert "selectedGPUGroups" not in made
