"""Three workloads that people describe when they ask for hierarchical gangs, bound for real.

A disaggregated model in two replicas, an agents' pipeline of unlike parts, and an MPI job
with a leader that needs no GPU. The shapes are those of the stories in Koordinator's
proposal for inference orchestration; the objects are Grove's.
"""

from __future__ import annotations

from collections import defaultdict

from tests.cluster.build import clique, clique_set, node, pack, topology_binding
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.controller.conftest import Start
from tests.controller.gangs import scheduled

BLOCK = "example.com/block"


def blocks(cluster: Cluster, grove: GroveStandIn, *sizes: int) -> None:
    """Blocks b0, b1 ... of so many nodes with 8 GPUs each, named b0-0, b0-1 ..."""
    topology = topology_binding("default", block=BLOCK)
    cluster.api.apply(topology)
    grove.apply(topology)
    cluster.add_nodes(
        *(
            node(f"b{block}-{index}", labels={BLOCK: f"b{block}"})
            for block, size in enumerate(sizes)
            for index in range(size)
        )
    )


def nodes_by_gang(cluster: Cluster) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for pod in cluster.pods():
        if one := pod["spec"].get("nodeName"):
            found[pod["metadata"]["labels"]["grove.io/podgang"]].add(one)
    return dict(found)


def test_each_replica_of_a_disaggregated_model_gets_a_block_of_its_own(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    # 2 x 4 and 4 x 4 GPUs are 24: three nodes, all of a block. The third block has too few.
    blocks(cluster, grove, 3, 3, 2)
    grove.apply(
        clique_set(
            "deepseek",
            clique("prefill", 2, gpus=4),
            clique("decode", 4, gpus=4),
            replicas=2,
            constraint=pack(required="block", topology="default"),
            namespace=cluster.namespace,
        )
    )
    start()
    grove.start()
    cluster.wait_until(lambda: len(cluster.bound()) == 12, "both replicas are bound")
    gangs = nodes_by_gang(cluster)
    assert sorted(map(sorted, gangs.values())) == [
        ["b0-0", "b0-1", "b0-2"],
        ["b1-0", "b1-1", "b1-2"],
    ]


def test_a_pipeline_of_unlike_parts_runs_whole_or_not_at_all(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    def pipeline(name: str) -> None:
        grove.apply(
            clique_set(
                name,
                clique("router", 1, gpus=0),
                clique("planner", 2, gpus=2),
                clique("worker", 4, gpus=4),
                clique("judge", 2, gpus=2),
                namespace=cluster.namespace,
            )
        )

    # 2 x 2 + 4 x 4 + 2 x 2 GPUs are 24: one pipeline fills three nodes of four.
    blocks(cluster, grove, 4)
    pipeline("first")
    start()
    grove.start()
    cluster.wait_until(lambda: len(cluster.bound()) == 9, "the first pipeline is bound")
    pipeline("second")
    cluster.wait_until(
        lambda: scheduled(cluster, "second-0").get("status") == "False", "the second one waits"
    )
    assert set(nodes_by_gang(cluster)) == {"first-0"}
    cluster.add_nodes(node("more-0"), node("more-1"))
    cluster.wait_until(lambda: len(cluster.bound()) == 18, "the second one is bound as well")


def test_a_leader_without_gpu_goes_where_its_workers_are(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    # Eight workers of 4 GPUs need four nodes of one block; only the second has them.
    blocks(cluster, grove, 3, 4)
    grove.apply(
        clique_set(
            "mpi",
            clique("leader", 1, gpus=0),
            clique("worker", 8, gpus=4),
            constraint=pack(required="block", topology="default"),
            namespace=cluster.namespace,
        )
    )
    start()
    grove.start()
    cluster.wait_until(lambda: len(cluster.bound()) == 9, "leader and workers are bound")
    assert {name.split("-")[0] for name in cluster.bound().values()} == {"b1"}
