"""Queues of all schedulers: limits, guarantees, membership, and what runs there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from placement.kubernetes.queues import UNLIMITED
from tests.kubernetes.build import (
    Body,
    container,
    gang,
    group,
    kai_queue,
    node,
    only_gang,
    pod,
    problems,
    queues,
    said,
    thing,
    translated,
)

QUOTA = "quota.scheduling.koordinator.sh/"


def quota(name: str, *, namespace: str = "ml", parent: str = "", **spec: Any) -> Body:
    labels = {f"{QUOTA}parent": parent} if parent else {}
    return thing(
        "ElasticQuota", "scheduling.sigs.k8s.io/v1alpha1", name, namespace=namespace,
        metadata={"labels": labels}, spec=spec,
    )  # fmt: skip


def test_parts_of_gpus_count() -> None:
    found = queues(
        kai_queue("q", limit=7.5, quota=0.29), quota("k", max={"koordinator.sh/gpu": 150})
    )
    assert dict(found["q"].limit) == {"gpus": 7, "milligpus": 500}
    assert found["q"].guaranteed["milligpus"] == 290
    assert dict(found["k"].limit) == {"gpus": 1, "milligpus": 500}


def test_shares_that_run_outside_gangs_count_with_their_part() -> None:
    label = {"kai.scheduler/queue": "q"}
    found = queues(
        node("n1"), kai_queue("q", limit=8),
        *(pod(name, labels=label, nodeName="n1", containers=[container(cpu="1")],
              metadata={"annotations": {"gpu-fraction": "0.75"}})
          for name in ("a", "b")),
    )  # fmt: skip
    assert dict(found["q"].used) == {"gpus": 1, "milligpus": 500, "cpu": 2000}


@pytest.mark.parametrize(("known", "used"), [(True, 750), (False, 3000)])
def test_shares_in_bytes_that_run_outside_gangs_count_as_of_the_smallest_gpu(
    known: bool, used: int
) -> None:
    """20 GiB and twice 20 GiB are three quarters of one with 80 GiB, and whole ones of unknown."""
    label = {"kai.scheduler/queue": "q"}
    listed = [
        {
            "type": "gpu",
            "minor": i,
            "health": True,
            "resources": {"koordinator.sh/gpu-memory": size},
        }
        for i, size in enumerate(("80Gi", "141Gi"))
    ]
    device = thing("Device", "scheduling.koordinator.sh/v1alpha1", "n1", spec={"devices": listed})
    found = queues(
        node("n1"), kai_queue("q", limit=8), *([device] if known else []),
        pod("a", labels=label, nodeName="n1", containers=[container(cpu="1")],
            metadata={"annotations": {"gpu-memory": "20480"}}),
        pod("b", labels=label, nodeName="n1", containers=[container(cpu="1")],
            metadata={"annotations": {"gpu-memory": "20480", "gpu-fraction-num-devices": "2"}}),
    )["q"].used  # fmt: skip
    assert 1000 * found["gpus"] + found["milligpus"] == used


@pytest.mark.parametrize(
    ("value", "hint"),
    [("8", "; leave out its quotes"), ("7.5", "; leave out its quotes"), ("500m", "")],
)
def test_a_number_in_quotes_is_no_number(value: str, hint: str) -> None:
    ((*_, message),) = problems(kai_queue("q", limit=value))
    assert message == f"must be a number, not {value}{hint}"


@pytest.mark.parametrize("value", ["8", -2, True, float("nan")])
def test_what_is_no_amount_is_a_problem(value: object) -> None:
    ((_, field, _),) = problems(kai_queue("q", limit=value))
    assert field == "spec.resources.gpu.limit"


def test_elastic_quotas_count_gpus_together_and_name_their_parent() -> None:
    found = queues(
        quota("org", max={"koordinator.sh/gpu": "1600", "nvidia.com/gpu": "8"}),
        quota("team", parent="org", min={"cpu": "1500m", "memory": "1Gi"}, max={"rdma/hca": "3"}),
    )
    assert dict(found["org"].limit) == {"gpus": 8}
    assert found["team"].parent == "queues/org"
    assert dict(found["team"].guaranteed) == {"cpu": 1500, "memory": 2**30}
    assert dict(found["team"].limit) == {"rdma/hca": 3}


def test_what_is_not_kept_free_for_a_queue_is_warned_of() -> None:
    lends = quota("lends", min={"cpu": "4"})
    keeps = quota("keeps", min={"cpu": "4"})
    keeps["metadata"]["labels"][f"{QUOTA}allow-lent-resource"] = "false"
    reserves = volcano_queue("reserves", guarantee={"resource": {"cpu": 2}})
    warned = [
        one for one in said(translated(lends, keeps, reserves).warnings) if "kept free" in one
    ]
    assert [one.partition(":")[0] for one in warned] == ["Queue reserves", "ElasticQuota ml/keeps"]


def test_a_minimum_above_the_maximum_is_warned_of() -> None:
    spec: dict[str, Any] = {"min": {"cpu": "5", "memory": "1Gi"}, "max": {"cpu": "4"}}
    assert "ElasticQuota ml/q: spec.min.cpu: is more than max: max holds" in said(
        translated(quota("q", **spec)).warnings
    )
    assert not any("more than max" in one for one in said(translated(quota("q", max={})).warnings))


def test_a_quota_larger_than_can_be_counted_limits_nothing() -> None:
    """So koord-scheduler writes the quotas that it makes itself: 2^63 / 5."""
    found = queues(quota("koordinator-default-quota", max={"cpu": "1844674407370955161"}))
    assert dict(found["koordinator-default-quota"].limit) == {"cpu": UNLIMITED}


@pytest.mark.parametrize(
    ("named", "want"),
    [('["web", "ml"]', "queues/shared"), ('["web"]', "queues/koordinator-default-quota"),
     ("web, ml", "queues/koordinator-default-quota")],
)  # fmt: skip
def test_a_quota_names_the_namespaces_that_are_in_it(named: str, want: str) -> None:
    shared = quota("shared", namespace="kube-system")
    shared["metadata"]["annotations"] = {f"{QUOTA}namespaces": named}
    known = [shared, quota("koordinator-default-quota", namespace="kube-system")]
    assert only_gang(*known, *gang_in({})).queue == want
    assert only_gang(*known, quota("ml"), *gang_in({})).queue == "queues/ml"
    told = " ".join(said(translated(*known, *gang_in({})).warnings))
    assert ("is not a list of names in JSON" in told) == (named == "web, ml")


def test_a_quota_of_parts_of_pieces_allows_the_whole_ones() -> None:
    """Kubernetes takes any quantity there."""
    found = queues(quota("q", min={"nvidia.com/gpu": "500m"}, max={"nvidia.com/gpu": "1500m"}))
    assert (dict(found["q"].guaranteed), dict(found["q"].limit)) == ({"gpus": 0}, {"gpus": 1})


def cluster_queue(name: str, cohort: str = "", resources: Body | None = None) -> Body:
    flavor = {
        "name": "default",
        "resources": [{"name": k, **v} for k, v in (resources or {}).items()],
    }
    return thing(
        "ClusterQueue", "kueue.x-k8s.io/v1beta2", name,
        spec={"cohortName": cohort, "resourceGroups": [{"flavors": [flavor]}]},
    )  # fmt: skip


def test_a_cluster_queue_borrows_within_its_cohort() -> None:
    gpu = "nvidia.com/gpu"
    found = queues(
        cluster_queue("alone", "", {gpu: {"nominalQuota": 4}}),
        cluster_queue("a", "all", {gpu: {"nominalQuota": "8", "borrowingLimit": 2}}),
        cluster_queue("b", "all", {gpu: {"nominalQuota": 16}, "cpu": {"nominalQuota": "4"}}),
    )
    assert dict(found["alone"].limit) == {"gpus": 4}
    assert (dict(found["a"].limit), dict(found["a"].guaranteed)) == ({"gpus": 10}, {"gpus": 8})
    assert (dict(found["b"].limit), found["b"].parent) == ({}, "queues/cohort-all")
    assert dict(found["cohort-all"].limit) == {"gpus": 24, "cpu": 4000}


def cohort(name: str, parent: str = "", **quotas: Any) -> Body:
    resources = [{"name": "nvidia.com/gpu", **quotas}] if quotas else []
    return thing(
        "Cohort", "kueue.x-k8s.io/v1beta2", name,
        spec={"parentName": parent, "resourceGroups": [{"flavors": [{"resources": resources}]}]},
    )  # fmt: skip


def test_a_cluster_queue_borrows_from_cohorts_beside_its_own() -> None:
    """Of 8 + 16 + 4 GPUs "left" may borrow 6; what is in it may use all of that."""
    gpu = "nvidia.com/gpu"
    found = queues(
        cohort("root", nominalQuota=4),
        cohort("left", "root", nominalQuota=0, borrowingLimit=6),
        cohort("right", "root"),
        cluster_queue("a", "left", {gpu: {"nominalQuota": 8}}),
        cluster_queue("b", "right", {gpu: {"nominalQuota": 16}}),
    )
    assert dict(found["a"].limit) == dict(found["b"].limit) == {}
    assert dict(found["cohort-left"].limit) == {"gpus": 14}
    assert dict(found["cohort-left"].guaranteed) == {"gpus": 8}
    assert dict(found["cohort-right"].limit) == {}
    assert dict(found["cohort-root"].limit) == {"gpus": 28}
    assert found["cohort-left"].parent == "queues/cohort-root"


def test_what_is_not_lent_is_for_nobody_else() -> None:
    gpu = "nvidia.com/gpu"
    found = queues(
        cluster_queue("a", "all", {gpu: {"nominalQuota": 8}}),
        cluster_queue("b", "all", {gpu: {"nominalQuota": 8, "lendingLimit": 2}}),
        cluster_queue(
            "c", "all", {gpu: {"nominalQuota": 4, "lendingLimit": 0, "borrowingLimit": 0}}
        ),
    )
    assert dict(found["cohort-all"].limit) == {"gpus": 10}
    assert [dict(found[name].kept) for name in "abc"] == [{}, {"gpus": 6}, {"gpus": 4}]
    assert [dict(found[name].limit) for name in "abc"] == [{}, {}, {"gpus": 4}]


def volcano_queue(name: str, **spec: Any) -> Body:
    return thing("Queue", "scheduling.volcano.sh/v1beta1", name, spec=spec)


def test_a_volcano_queue_is_limited_by_its_capability_and_guaranteed_what_it_deserves() -> None:
    gpu = "nvidia.com/gpu"
    found = queues(
        volcano_queue("org", parent="root", capability={gpu: "64", "cpu": "500m"}),
        volcano_queue("team", parent="org", deserved={gpu: 8}, guarantee={"resource": {gpu: 2}}),
        volcano_queue("kept", guarantee={"resource": {gpu: 2}}),
        volcano_queue("both", deserved={gpu: 2}, guarantee={"resource": {gpu: 4, "cpu": 2}}),
    )
    assert (dict(found["org"].limit), found["org"].parent) == ({"gpus": 64, "cpu": 500}, "")
    assert (dict(found["team"].guaranteed), found["team"].parent) == ({"gpus": 8}, "queues/org")
    assert dict(found["kept"].guaranteed) == {"gpus": 2}
    assert dict(found["both"].guaranteed) == {"gpus": 4, "cpu": 2000}


def test_a_pod_group_of_volcano_names_its_queue() -> None:
    group_of_volcano = thing(
        "PodGroup", "scheduling.volcano.sh/v1beta1", "v", namespace="ml",
        spec={"minMember": 1, "queue": "team"},
    )  # fmt: skip
    member = pod("a", annotations={"scheduling.k8s.io/group-name": "v"})
    assert only_gang(volcano_queue("team"), node(), group_of_volcano, member).queue == "queues/team"


def volcano_pod_group(**spec: Any) -> list[Body]:
    """A PodGroup with its pod."""
    made = thing(
        "PodGroup", "scheduling.volcano.sh/v1beta1", "v", namespace="ml",
        spec={"minMember": 1, **spec},
    )  # fmt: skip
    return [node(), made, pod("a", annotations={"scheduling.k8s.io/group-name": "v"})]


def volcano_job(**spec: Any) -> list[Body]:
    tasks = [{"name": "w", "replicas": 1, "template": {"spec": {"containers": [container()]}}}]
    made = thing("Job", "batch.volcano.sh/v1alpha1", "v", namespace="ml")
    return [node(), {**made, "spec": {"tasks": tasks, **spec}}]


@pytest.mark.parametrize("made", [volcano_pod_group, volcano_job])
def test_a_gang_of_volcano_that_names_no_queue_is_in_the_default_one(
    made: Callable[..., list[Body]],
) -> None:
    assert only_gang(volcano_queue("default"), *made()).queue == "queues/default"
    assert only_gang(volcano_queue("team"), *made()).queue == ""


@pytest.mark.parametrize("made", [volcano_pod_group, volcano_job])
def test_a_queue_of_volcano_that_is_not_open_takes_no_new_gang(
    made: Callable[..., list[Body]],
) -> None:
    def refused(state: str) -> list[str]:
        queue = {**volcano_queue("team"), "status": {"state": state}}
        return list(only_gang(queue, *made(queue="team")).unsupported)

    assert refused("Open") == refused("") == []
    assert refused("Closing") == ["Queue team: status.state Closing"]


def gang_in(labels: Body, **pod_labels: str) -> list[Body]:
    return [
        node(),
        pod("a", labels=pod_labels),
        gang(podgroups=[group("w", "a")], metadata={"labels": labels}),
    ]


@pytest.mark.parametrize(
    ("labels", "pod_labels", "want"),
    [
        ({"kai.scheduler/queue": "x"}, {"kai.scheduler/queue": "y"}, "queues/x"),
        ({}, {"kai.scheduler/queue": "y"}, "queues/y"),
        ({}, {f"{QUOTA}name": "z"}, "queues/z"),
        ({"kai.scheduler/queue": "unknown"}, {}, "queues/unknown"),
        ({}, {}, "queues/ml"),
    ],
)
def test_a_gang_says_its_queue_before_its_pods_and_its_namespace(
    labels: Body, pod_labels: dict[str, str], want: str
) -> None:
    known = [kai_queue("x"), kai_queue("y"), quota("z"), quota("ml"), quota(
        "koordinator-default-quota", namespace="koordinator-system")]  # fmt: skip
    assert only_gang(*known, *gang_in(labels, **pod_labels)).queue == want


def test_a_gang_whose_waiting_pods_name_several_queues_is_refused() -> None:
    def of(labels: Body, **spec: Any) -> list[str]:
        pods = [pod(name, labels={f"{QUOTA}name": name}, **spec) for name in ("a", "b")]
        whole = gang(podgroups=[group("w", "a", "b")], metadata={"labels": labels})
        return list(only_gang(node("n1"), quota("a"), quota("b"), *pods, whole).unsupported)

    assert of({}) == ["pods in several queues: a, b"]
    assert of({}, nodeName="n1") == []
    assert of({f"{QUOTA}name": "a"}) == []


@pytest.mark.parametrize("how", ["PodGroup", "annotations"])
def test_each_pod_of_koordinator_is_in_its_own_quota(how: str) -> None:
    mine, label = "gang.scheduling.koordinator.sh/", f"{QUOTA}name"

    def of(*quotas: str, **spec: Any) -> Any:
        notes = {f"{mine}name": "g", f"{mine}min-available": "2"}
        bodies = [
            pod(name, labels={label: q} if q else {}, metadata={"annotations": notes}, **spec)
            for name, q in zip("xyz", quotas, strict=False)
        ]
        if how == "PodGroup":
            # Its own label says nothing.
            version = "scheduling.sigs.k8s.io/v1alpha1"
            metadata = {"labels": {label: "a"}}
            spec_of_group = {"minMember": 2}
            bodies.append(
                thing("PodGroup", version, "g", namespace="ml", metadata=metadata,
                      spec=spec_of_group)
            )  # fmt: skip
        default = quota("koordinator-default-quota", namespace="koordinator-system")
        return translated(node("n1"), quota("a"), quota("b"), default, *bodies)

    def refused(*quotas: str) -> list[str]:
        return list(of(*quotas).request.gangs[0].unsupported)

    assert refused("a", "b") == ["pods in several queues: a, b"]
    assert refused("a", "") == ["pods in several queues: a, koordinator-default-quota"]
    assert refused("b", "b") == []
    assert of("b", "b").request.gangs[0].queue == "queues/b"
    assert of("", "").request.gangs[0].queue == "queues/koordinator-default-quota"
    # As where a quota is not there.
    assert of("gone", "").request.gangs[0].queue == "queues/koordinator-default-quota"
    runs = of("a", "b", nodeName="n1")
    assert list(runs.request.gangs[0].unsupported) == []
    assert said(runs.warnings) == (
        "PodGroup ml/g: its pods name several queues (a, b): all that run count in a",
    )


def test_a_queue_of_kai_does_not_serve_the_namespace_of_its_name() -> None:
    assert only_gang(kai_queue("ml"), *gang_in({})).queue == ""


def test_a_local_queue_leads_to_its_cluster_queue() -> None:
    local = thing(
        "LocalQueue", "kueue.x-k8s.io/v1beta2", "user", namespace="ml",
        spec={"clusterQueue": "cq"},
    )  # fmt: skip
    sent = only_gang(cluster_queue("cq"), local, *gang_in({"kueue.x-k8s.io/queue-name": "user"}))
    assert sent.queue == "queues/cq"


def test_without_any_queue_in_the_input_it_is_said_and_not_checked() -> None:
    translation = translated(*gang_in({"kai.scheduler/queue": "x"}))
    assert translation.request.gangs[0].queue == ""
    assert said(translation.warnings) == (
        "queue x: the input holds no queue, so no limit of queues is checked",
    )


@pytest.mark.parametrize(
    "resource", ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe", "nvidia.com/mig-1g.10gb"]
)
def test_gpus_of_all_names_that_run_outside_gangs_are_in_use(resource: str) -> None:
    lone = pod(
        "lone",
        labels={"kai.scheduler/queue": "q"},
        nodeName="n1",
        containers=[container(**{resource: "2"})],
    )
    found = queues(node("n1"), kai_queue("q", limit=8), lone)
    assert found["q"].used["gpus"] == 2


def test_what_runs_outside_gangs_is_in_use_and_members_are_not_counted_twice() -> None:
    label = {"kai.scheduler/queue": "q"}
    found = queues(
        node("n1"), kai_queue("q", limit=8), kai_queue("other"),
        pod("lone", labels=label, nodeName="n1", containers=[container(gpu="2", cpu="1")]),
        pod("fixed", labels={**label, "kai.scheduler/preemptibility": "non-preemptible"},
            nodeName="n1"),
        pod("waits", labels=label),
        pod("member", labels=label, nodeName="n1"),
        gang(podgroups=[group("w", "member")]),
    )  # fmt: skip
    assert dict(found["q"].used) == {"gpus": 3, "cpu": 1000}
    assert dict(found["q"].used_not_preemptible) == {"gpus": 1}
    assert dict(found["other"].used) == {}


@pytest.mark.parametrize("fixed", [True, False])
def test_a_member_that_is_being_deleted_is_in_use_in_the_queue_of_its_gang(fixed: bool) -> None:
    labels = {"kai.scheduler/queue": "q"}
    if fixed:
        labels["kai.scheduler/preemptibility"] = "non-preemptible"
    found = queues(
        node("n1"), kai_queue("q", limit=8),
        pod("leaves", nodeName="n1", containers=[container(gpu="2")],
            metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        gang(podgroups=[group("w", "leaves")], metadata={"labels": labels}),
    )  # fmt: skip
    assert dict(found["q"].used) == {"gpus": 2}
    assert dict(found["q"].used_not_preemptible) == ({"gpus": 2} if fixed else {})


def test_a_queue_above_itself_is_a_problem_and_a_lost_parent_a_warning() -> None:
    found = problems(kai_queue("a", "b"), kai_queue("b", "a"))
    assert found
    assert all("is above itself" in message for _, _, message in found)
    translation = translated(kai_queue("a", "gone"))
    assert translation.request.snapshot.queues[0].parent == ""
    assert "Queue a: its parent gone is not in the input: taken as a root" in said(
        translation.warnings
    )


def test_only_the_root_of_koordinator_may_be_missing_in_silence() -> None:
    translation = translated(quota("a", parent="koordinator-root-quota"), quota("b", parent="gone"))
    assert [one for one in said(translation.warnings) if "taken as a root" in one] == [
        "ElasticQuota ml/b: its parent gone is not in the input: taken as a root"
    ]


def test_one_name_for_two_queues_is_a_problem() -> None:
    assert problems(kai_queue("q"), quota("q")) == [
        ("ElasticQuota ml/q", "", "Queue q has the same name")
    ]
