"""Objects of dynamic resource allocation, and how pods claim what they offer."""

from __future__ import annotations

from typing import Any

from tests.kubernetes.build import (
    Body,
    thing,
)

DRA = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


def devices(where: str, *attributes: Body, **spec: Any) -> Body:
    entries = [
        {"name": f"d{i}", "attributes": {k: _typed(v) for k, v in own.items() if k != "memory"},
         "capacity": {"memory": {"value": own["memory"]}} if "memory" in own else {}}
        for i, own in enumerate(attributes)
    ]  # fmt: skip
    return thing(
        "ResourceSlice", DRA, f"slice-{where}",
        spec={"driver": DRIVER, "nodeName": where, "devices": entries,
              "pool": {"name": where, "generation": 1, "resourceSliceCount": 1}, **spec},
    )  # fmt: skip


def _typed(value: object) -> Body:
    names = {bool: "bool", int: "int", str: "string"}
    return {names[type(value)]: value}


def cel(*expressions: str) -> list[Body]:
    return [{"cel": {"expression": e}} for e in expressions]


def device_class(name: str = "gpu", *expressions: str) -> Body:
    return thing("DeviceClass", DRA, name, spec={"selectors": cel(*expressions)})


def asks(*requests: Body, **more: Any) -> Body:
    return {"devices": {"requests": list(requests), **more}}


def exactly(name: str = "gpu", count: int = 1, *expressions: str, **more: Any) -> Body:
    inside = {"deviceClassName": name, "count": count, "selectors": cel(*expressions), **more}
    return {"name": "r", "exactly": inside}


def template(name: str, *requests: Body, **more: Any) -> Body:
    return thing(
        "ResourceClaimTemplate", DRA, name, namespace="ml", spec={"spec": asks(*requests, **more)}
    )


def claim(name: str, *requests: Body, given: Any = None, where: str = "n1") -> Body:
    status: Body = {}
    if given is not None:
        results = [{"request": "r", "driver": DRIVER, "pool": where, "device": d} for d in given]
        selector = {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": [where]}]}]}  # fmt: skip
        status = {"allocation": {"devices": {"results": results}, "nodeSelector": selector}}
    return thing("ResourceClaim", DRA, name, namespace="ml", spec=asks(*requests), status=status)


def claims(*templates: str, named: str = "") -> list[Body]:
    uses = [{"name": f"c{i}", "resourceClaimTemplateName": t} for i, t in enumerate(templates)]
    return uses + ([{"name": "named", "resourceClaimName": named}] if named else [])


def attribute(name: str) -> str:
    return f'device.attributes["{DRIVER}"].{name}'


def domain(name: str, channel: str) -> Body:
    spec = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": channel}}}
    return thing("ComputeDomain", "resource.nvidia.com/v1beta1", name, namespace="ml", spec=spec)
