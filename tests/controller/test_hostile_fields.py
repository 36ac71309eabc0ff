"""Objects whose fields are as long and as odd as the API server takes them."""

from __future__ import annotations

import pytest

from tests.cluster.api import PODS
from tests.cluster.build import node
from tests.cluster.fixtures import Cluster
from tests.controller.conftest import Start
from tests.controller.gang_facts import add_gang, scheduled


@pytest.mark.usefixtures("witness")
def test_what_has_the_longest_name_is_bound_or_told_why(cluster: Cluster, start: Start) -> None:
    """Names are also long beside a sign with which no name may end."""
    fits, waits = (f"{name * 199}-{name * 51}" for name in "ab")
    long = ".".join(["n" * 63] * 3 + ["n" * 61])
    cluster.add_nodes(node(long, labels={"kubernetes.io/hostname": "n"}))
    add_gang(cluster, fits, pods=1, gpus=8)
    add_gang(cluster, waits, pods=1, gpus=9)
    start()
    cluster.wait_until(lambda: cluster.bound() == {f"{fits}-0": long}, "the one that fits is bound")
    told = {fits, waits, f"{waits}-0"}
    cluster.wait_until(
        lambda: {event["involvedObject"]["name"] for event in cluster.events()} == told,
        "an event tells of each",
    )


@pytest.mark.usefixtures("witness")
def test_a_gang_that_nobody_can_read_keeps_no_other_waiting(cluster: Cluster, start: Start) -> None:
    cluster.add_nodes(node("n0"))
    junk = "\u2603" * 80_000
    notes = {"gpu-fraction": junk, "gpu-memory": junk[:1000]}
    add_gang(cluster, "odd", pods=1)
    cluster.api.merge(PODS, "odd-0", {"metadata": {"annotations": notes}}, cluster.namespace)
    add_gang(cluster, "sound", pods=1)
    start()
    cluster.wait_until(lambda: list(cluster.bound()) == ["sound-0"], "the sound one is bound")
    cluster.wait_until(
        lambda: scheduled(cluster, "odd").get("reason") == "Unsupported", "the odd one is told why"
    )
