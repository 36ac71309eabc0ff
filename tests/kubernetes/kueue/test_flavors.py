"""Quotas of Kueue by flavor, and what is lent to several queues together."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement import v1
from placement.kubernetes.kueue.flavor_choice import _fill
from tests.kubernetes.build import Body, container, node, pod, thing, translated

GPU = "nvidia.com/gpu"
VERSION = "kueue.x-k8s.io/v1beta2"

FLAVORS = [
    thing("ResourceFlavor", VERSION, name, spec={"nodeLabels": {"pool": name}})
    for name in ("spot", "own")
]
NODES = [node(f"n-{name}", labels={"pool": name}) for name in ("spot", "own")]
LOCAL = thing("LocalQueue", VERSION, "lq", namespace="ml", spec={"clusterQueue": "cq"})


def cluster_queue(
    name: str = "cq", cohort: str = "", lends: int | None = None, **quotas: int
) -> Body:
    """`quotas` of GPUs by flavor."""
    lent = {} if lends is None else {"lendingLimit": lends}
    flavors = [
        {"name": flavor, "resources": [{"name": GPU, "nominalQuota": quota, **lent}]}
        for flavor, quota in quotas.items()
    ]
    spec = {"namespaceSelector": {}, "cohortName": cohort, "resourceGroups": [{"flavors": flavors}]}
    return thing("ClusterQueue", VERSION, name, spec=spec)


def workload(name: str, gpus: int, *, priority: int = 0, **spec: Any) -> Body:
    template = {"spec": {"containers": [container(gpu=str(gpus))], **spec}}
    sets = [{"name": "main", "count": 1, "template": template}]
    fields = {"queueName": "lq", "priority": priority, "podSets": sets}
    return thing("Workload", VERSION, name, namespace="ml", spec=fields)


def queues_of(*bodies: Body) -> dict[str, str]:
    gangs = translated(*NODES, *FLAVORS, LOCAL, *bodies).request.gangs
    return {g.name.rpartition("/")[2]: g.queue.removeprefix("queues/") for g in gangs}


def limits(*bodies: Body) -> dict[str, int]:
    """The GPUs of each queue that has a limit of its own."""
    found: v1.ComputePlacementRequest = translated(*NODES, *bodies).request
    return {
        q.name.removeprefix("queues/"): q.limit["gpus"]
        for q in found.snapshot.queues
        if "gpus" in q.limit
    }


def kept(*bodies: Body) -> dict[str, int]:
    """The GPUs that queues keep for themselves."""
    found: v1.ComputePlacementRequest = translated(*NODES, *bodies).request
    return {q.name.removeprefix("queues/"): q.kept["gpus"] for q in found.snapshot.queues if q.kept}


def test_a_queue_borrows_only_of_flavors_that_it_offers() -> None:
    found = limits(cluster_queue("a", "all", spot=4), cluster_queue("b", "all", spot=2, own=8))
    assert found["cohort-all_spot"] == 6
    assert found["cohort-all_own"] == 8
    assert found["cohort-all"] == 14
    assert "a_own" not in found


def test_workloads_take_the_first_flavor_with_quota_by_priority() -> None:
    queue = cluster_queue(spot=8, own=8)
    found = queues_of(queue, workload("a", 6), workload("b", 4, priority=1), workload("c", 4))
    assert found == {"a": "cq_own", "b": "cq_spot", "c": "cq_spot"}


def test_a_flavor_whose_nodes_are_full_is_not_taken() -> None:
    queue = cluster_queue(spot=8, own=8)
    hog = pod("hog", nodeName="n-spot", containers=[container(gpu="12")])
    assert queues_of(queue, workload("a", 6), hog) == {"a": "cq_own"}


def test_a_flavor_whose_nodes_have_too_few_gpus_each_is_not_taken() -> None:
    queue = cluster_queue(spot=8, own=8)
    hogs = [
        pod(f"hog-{name}", nodeName=name, containers=[container(gpu="5")])
        for name in ("n-spot", "more-spot")
    ]
    more = node("more-spot", labels={"pool": "spot"})
    assert queues_of(queue, workload("a", 5), more, *hogs) == {"a": "cq_own"}


def test_a_workload_without_room_keeps_no_flavor_from_others() -> None:
    queue = cluster_queue(spot=16, own=8)
    found = queues_of(queue, workload("a", 12, priority=1), workload("b", 8))
    assert found == {"a": "cq_spot", "b": "cq_spot"}


def test_pods_of_a_workload_are_counted_on_the_nodes_of_a_flavor() -> None:
    queue = cluster_queue(spot=16, own=16)
    most = [node(f"more-{name}", labels={"pool": name}) for name in ("spot", "own")]
    several = workload("a", 5)
    several["spec"]["podSets"][0]["count"] = 2
    found = queues_of(queue, *most, several, workload("b", 3), workload("c", 4))
    assert found == {"a": "cq_spot", "b": "cq_spot", "c": "cq_own"}


def test_quota_that_a_workload_holds_is_used_in_its_flavor() -> None:
    assigned = [{"name": "main", "count": 1, "flavors": {GPU: "spot"}, "resourceUsage": {GPU: "6"}}]
    held = workload("held", 6)
    held["status"] = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": assigned},
        "conditions": [{"type": "Admitted", "status": "True"}],
    }
    queue = cluster_queue(spot=8, own=8)
    assert queues_of(queue, held, workload("a", 4)) == {"a": "cq_own"}
    runs = pod(
        "held-0", labels={"kueue.x-k8s.io/queue-name": "lq"}, nodeName="n-spot",
        metadata={"annotations": {"kueue.x-k8s.io/workload": "held"}},
        containers=[container(gpu="6")],
    )  # fmt: skip
    for more in ([], [runs]):
        sent = translated(*NODES, *FLAVORS, LOCAL, queue, held, *more).request.snapshot.queues
        assert {q.name: dict(q.used) for q in sent if q.used} == {"queues/cq_spot": {"gpus": 6}}


def test_pods_take_flavors_whose_labels_they_select() -> None:
    queue = cluster_queue(spot=8, own=8)
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["spot"]}]}
                ]
            }
        }
    }
    assert queues_of(queue, workload("a", 1, nodeSelector={"pool": "own"})) == {"a": "cq_own"}
    assert queues_of(queue, workload("a", 1, affinity=affinity)) == {"a": "cq_own"}


@pytest.mark.parametrize(
    ("tolerations", "effect", "takes"),
    [
        ([], "NoSchedule", False),
        ([], "PreferNoSchedule", True),
        ([{"operator": "Exists"}], "NoSchedule", True),
        ([{"key": "spot", "operator": "Exists"}], "NoExecute", True),
        ([{"key": "own", "operator": "Exists"}], "NoExecute", False),
        ([{"key": "spot", "value": "yes"}], "NoSchedule", True),
        ([{"key": "spot", "value": "no"}], "NoSchedule", False),
        ([{"key": "spot", "value": "yes", "effect": "NoExecute"}], "NoSchedule", False),
        ([{"key": "own", "value": "yes"}, {"key": "spot", "value": "yes"}], "NoSchedule", True),
    ],
)
def test_a_flavor_with_taints_is_taken_by_those_who_tolerate_them(
    tolerations: list[Body], effect: str, takes: bool
) -> None:
    """Whether the pods do so themselves or Kueue adds what the flavor says."""
    taint = {"key": "spot", "value": "yes", "effect": effect}
    spec = {"nodeLabels": {"pool": "spot"}, "nodeTaints": [taint]}
    queue = cluster_queue(spot=8, own=8)
    for own, added in ((tolerations, []), ([], tolerations)):
        flavor = thing("ResourceFlavor", VERSION, "spot", spec={**spec, "tolerations": added})
        asking = workload("a", 1, tolerations=own)
        found = translated(*NODES, flavor, FLAVORS[1], LOCAL, queue, asking).request.gangs[0]
        assert found.queue == ("queues/cq_spot" if takes else "queues/cq_own")


@pytest.mark.parametrize(
    ("terms", "takes"),
    [
        pytest.param([("In", ["spot"])], True, id="the label of the flavor"),
        pytest.param([("NotIn", ["spot"])], False, id="another label"),
        pytest.param([("In", ["own"]), ("Exists", [])], True, id="one of two terms is enough"),
        pytest.param([("In", ["own"]), ("In", ["gone"])], False, id="no term"),
    ],
)
def test_a_flavor_is_taken_where_one_term_of_the_affinity_holds(
    terms: list[tuple[str, list[str]]], takes: bool
) -> None:
    """What terms say of other labels does not count."""
    elsewhere = {"key": "zone", "operator": "In", "values": ["gone"]}
    entries = [
        {"matchExpressions": [{"key": "pool", "operator": o, "values": v}, elsewhere]}
        for o, v in terms
    ]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": entries}
        }
    }
    found = queues_of(cluster_queue(spot=8, own=8), workload("a", 1, affinity=affinity))
    assert (found["a"] == "cq_spot") is takes


def test_pods_that_no_flavor_takes_are_refused() -> None:
    elsewhere = workload("a", 1, nodeSelector={"pool": "gone"})
    found = translated(*NODES, *FLAVORS, LOCAL, cluster_queue(spot=8, own=8), elsewhere).request
    (why,) = found.gangs[0].unsupported
    assert why.startswith("ClusterQueue cq: pods that no flavor takes")


def test_what_queues_do_not_lend_they_keep() -> None:
    """Of 8 GPUs each "c" and "d" lend 2, so that "a" and "b" have 12 together."""
    bodies = [cluster_queue("a", "all", x=4), cluster_queue("b", "all", x=4)]
    bodies += [cluster_queue(name, "all", lends=2, x=8) for name in "cd"]
    assert limits(*bodies) == {"cohort-all": 12}
    assert kept(*bodies) == {"c": 6, "d": 6}


def test_a_cohort_keeps_of_what_is_lent_to_it() -> None:
    """The one below has 1 of its own, 4 of "a" and 2 of "b", and lends 3 of these."""
    quota = {"name": GPU, "nominalQuota": 1, "lendingLimit": 3}
    groups = [{"flavors": [{"name": "x", "resources": [quota]}]}]
    below = thing("Cohort", VERSION, "below", spec={"parentName": "all", "resourceGroups": groups})
    inside = [cluster_queue("a", "below", x=4), cluster_queue("b", "below", lends=2, x=3)]
    beside = cluster_queue("c", "all", x=4)
    assert limits(below, beside, *inside) == {"cohort-all": 7}
    assert kept(below, beside, *inside) == {"b": 1, "cohort-below": 4}


def test_a_flavor_of_which_a_queue_keeps_enough_has_quota_left() -> None:
    """All that "cq" has of "spot" it keeps, and nothing else of it is left."""
    bodies = [cluster_queue("cq", "all", lends=0, spot=4, own=4), cluster_queue("b", "all", spot=0)]
    assert queues_of(*bodies, workload("w", 4), workload("x", 4)) == {"w": "cq_spot", "x": "cq_own"}


def test_a_workload_asks_for_what_its_pods_request_as_the_kubelet_counts_it() -> None:
    """Limits count only where nothing is requested; what the pod itself and its sidecars need
    counts, too.
    """
    queue = cluster_queue(spot=8, own=8)
    for flavor, cpus in zip(queue["spec"]["resourceGroups"][0]["flavors"], (10, 20), strict=True):
        flavor["resources"].append({"name": "cpu", "nominalQuota": cpus})
    burst = container(gpu="1")
    burst["resources"]["requests"] = {"cpu": "8"}
    burst["resources"]["limits"] = {"cpu": "16", GPU: "1"}
    sidecar = {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "4"}}}

    def asking(**spec: Any) -> dict[str, str]:
        one = workload("a", 1)
        one["spec"]["podSets"][0]["template"]["spec"] = {"containers": [burst], **spec}
        return queues_of(queue, one)

    assert asking() == {"a": "cq_spot"}
    assert asking(initContainers=[sidecar]) == {"a": "cq_own"}
    assert asking(overhead={"cpu": "4"}) == {"a": "cq_own"}


def test_a_workload_takes_of_a_quota_of_pods() -> None:
    queue = cluster_queue(spot=8, own=8)
    for flavor in queue["spec"]["resourceGroups"][0]["flavors"]:
        flavor["resources"].append({"name": "pods", "nominalQuota": 1})
    assert queues_of(queue, workload("a", 1), workload("b", 1)) == {"a": "cq_spot", "b": "cq_own"}


@given(st.lists(st.integers(0, 9), max_size=5), st.integers(0, 4), st.integers(0, 9))
def test_pods_fill_the_fullest_nodes_one_by_one(free: list[int], each: int, pods: int) -> None:
    """Nodes with as much free are counted together, and pods of a node, too."""
    left, all_placed = [*free], True
    for _ in range(pods if each else 0):
        able = [n for n in left if n >= each]
        all_placed = bool(able)
        if not all_placed:
            break
        left[left.index(min(able))] -= each
    counted = Counter(free)
    assert _fill(counted, each, pods) is all_placed
    if all_placed:
        assert +counted == Counter(left)


def test_nodes_that_are_closed_and_pods_that_have_ended_do_not_count() -> None:
    queue = cluster_queue(spot=8, own=8)
    done = pod("done", nodeName="n-spot", phase="Succeeded", containers=[container(gpu="8")])
    assert queues_of(queue, workload("a", 8), done) == {"a": "cq_spot"}
    closed = node("n-spot", labels={"pool": "spot"})
    closed["spec"] = {"unschedulable": True}
    bodies = [closed, NODES[1], *FLAVORS, LOCAL, queue, workload("a", 8)]
    assert translated(*bodies).request.gangs[0].queue == "queues/cq_own"


def test_all_pod_sets_take_one_flavor_that_each_of_them_may_take() -> None:
    """The first flavor would do for one of the sets alone."""
    both = workload("a", 1)
    picky = {"spec": {"containers": [container(gpu="1")], "nodeSelector": {"pool": "own"}}}
    both["spec"]["podSets"].append({"name": "other", "count": 1, "template": picky})
    queue = cluster_queue(spot=8, own=8)
    assert queues_of(queue, both) == {"a": "cq_own"}
    torn = workload("a", 1, nodeSelector={"pool": "spot"})
    torn["spec"]["podSets"].append({"name": "other", "count": 1, "template": picky})
    assert queues_of(queue, torn) == {"a": "cq"}
