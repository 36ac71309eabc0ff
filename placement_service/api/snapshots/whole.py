"""A request as a whole, from the requests that its base is made from."""

from __future__ import annotations

from collections.abc import Iterable

from placement.v1 import ComputePlacementRequest, Node, RunningPod


def whole_request(told: Iterable[bytes], request: bytes) -> bytes:
    """The bytes of a request with all nodes and pods, in order of their names, and no base.

    `told` are requests from a whole one on, each based on the one before, the last of them the
    base of `request`. Raises DecodeError when one is none.
    """
    nodes: dict[str, Node] = {}
    pods: dict[str, RunningPod] = {}
    message = ComputePlacementRequest()
    for content in (*told, request):
        message = ComputePlacementRequest.FromString(content)
        if not message.HasField("base"):
            nodes.clear()
            pods.clear()
        for name in message.base.gone_nodes:
            nodes.pop(name, None)
        for name in message.base.gone_pods:
            pods.pop(name, None)
        nodes.update((node.name, node) for node in message.snapshot.nodes)
        pods.update((pod.name, pod) for pod in message.snapshot.pods)
    whole = ComputePlacementRequest()
    whole.CopyFrom(message)
    whole.ClearField("base")
    del whole.snapshot.nodes[:]
    del whole.snapshot.pods[:]
    whole.snapshot.nodes.extend(nodes[name] for name in sorted(nodes))
    whole.snapshot.pods.extend(pods[name] for name in sorted(pods))
    return whole.SerializeToString()
