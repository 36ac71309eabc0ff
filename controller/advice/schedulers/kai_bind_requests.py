"""KAI's BindRequests as its own scheduler writes them: names, owners, labels, and what the pod
receives.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from controller.advice.gpu_groups import shares_gpus
from controller.cluster.gang_state import Body
from placement.advice_marks import KAI_NODE_POOL, MADE_FOR
from placement.kubernetes.pods.shares import Share, read_shares
from placement.kubernetes.values.quantities import QuantityError, amount
from placement.resources import BIND_REQUESTS

_GPU: Final = "nvidia.com/gpu"
#: Instances of a GPU, by their profile.
_MIG: Final = "nvidia.com/mig-"
#: MiB of each GPU of a node.
_GPU_MEMORY: Final = "nvidia.com/gpu.memory"
_LONGEST_LABEL: Final = 63
_MIB: Final = 1 << 20


def bind_request(
    pod: Body,
    node: Body,
    *,
    advice: str,
    gpu_groups: tuple[str, ...] = (),
    tries: int | None = None,
) -> dict[str, Any]:
    """The BindRequest of a pod, named, owned and labelled like KAI's own.

    A pod of whole GPUs, also one of none, gets a number of them; one with shares gets one of each
    of its groups. Without `tries` a request fails for good when it fails once.
    """
    metadata = pod["metadata"]
    name = node["metadata"]["name"]
    labels = {MADE_FOR: advice}
    if len(name) <= _LONGEST_LABEL:
        labels["selected-node"] = name
    if pool := (node["metadata"].get("labels") or {}).get(KAI_NODE_POOL):
        # A scheduler deletes a request whose node it does not know if the request names no pool.
        labels[KAI_NODE_POOL] = pool
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": BIND_REQUESTS.api_version,
        "kind": BIND_REQUESTS.kind,
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {
            "podName": metadata["name"],
            "selectedNode": name,
            **_received(pod, node, gpu_groups),
            **({"backoffLimit": tries} if tries is not None else {}),
        },
    }


def has_failed(request: Body) -> bool:
    """Whether KAI no longer counts a request: it has failed as often as it may."""
    status = request.get("status") or {}
    limit = request["spec"].get("backoffLimit")
    tried = status.get("failedAttempts") or 0
    return status.get("phase") == "Failed" and (limit is None or tried >= limit)


def has_succeeded(request: Body) -> bool:
    """Whether the pod was bound."""
    return (request.get("status") or {}).get("phase") == "Succeeded"


def _received(pod: Body, node: Body, gpu_groups: tuple[str, ...]) -> dict[str, Any]:
    if not shares_gpus(pod):
        gpus = _gpus(pod)
        return {
            "receivedResourceType": "MigInstance" if _asks_for_mig(pod) else "Regular",
            "receivedGPU": {"count": gpus, "portion": "1.00" if gpus else "0.00"},
        }
    share = read_shares({}, pod["metadata"].get("annotations") or {}).share
    return {
        "receivedResourceType": "Fraction",
        "receivedGPU": {"count": len(gpu_groups), "portion": _portion(share, node)},
        "selectedGPUGroups": list(gpu_groups),
    }


def _portion(share: Share | None, node: Body) -> str:
    """The part of each GPU in hundredths, rounded up as KAI does where memory is asked for."""
    if share is None:
        return "1.00"
    if not share.memory_bytes:
        return f"{Decimal(share.compute_milli) / 1000:.2f}"
    text = (node["metadata"].get("labels") or {}).get(_GPU_MEMORY, "")
    size = int(text) * _MIB if text.isascii() and text.isdecimal() else 0
    hundredths = min(100, -(-share.memory_bytes * 100 // size)) if size else 100
    return f"{Decimal(hundredths) / 100:.2f}"


def _gpus(pod: Body) -> int:
    """The whole GPUs of a pod; init containers run before the others, but for sidecars."""

    def asked(container: Body) -> int:
        text = _asked(container).get(_GPU, "0")
        try:
            return amount(_GPU, str(text))
        except QuantityError:
            return 0

    spec = pod["spec"]
    inits = spec.get("initContainers") or ()
    sidecars = [one for one in inits if one.get("restartPolicy") == "Always"]
    together = sum(map(asked, (*sidecars, *(spec.get("containers") or ()))))
    return max([together, *(asked(one) for one in inits if one not in sidecars)])


def _asks_for_mig(pod: Body) -> bool:
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return any(name.startswith(_MIG) for one in containers for name in _asked(one))


def _asked(container: Body) -> dict[str, Any]:
    """What a container asks for: its requests, else its limits."""
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
