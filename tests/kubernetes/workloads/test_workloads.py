"""Workloads of other controllers, planned before they are applied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placement import v1
from placement.kubernetes import Objects, load, translate
from tests.kubernetes.build import (
    Body,
    container,
    gang,
    group,
    node,
    pod,
    problems,
    request,
    said,
    thing,
    translated,
)
from tests.shared_inputs import found

REQUIRED = "kueue.x-k8s.io/podset-required-topology"


def pod_template(gpus: str = "1", **notes: str) -> Body:
    return {
        "metadata": {"labels": {"app": "x"}, "annotations": notes},
        "spec": {"containers": [container(gpu=gpus)]},
    }


def shape(sent: v1.PodGang) -> list[tuple[str, int, int]]:
    return [(g.name, g.min_replicas, sum(len(s.pods) for s in g.pod_sets)) for g in sent.groups]


def gangs(*bodies: Body) -> dict[str, v1.PodGang]:
    return {g.name.rpartition("/")[2]: g for g in request(node(), *bodies).gangs}


def only(*bodies: Body) -> v1.PodGang:
    (sent,) = gangs(*bodies).values()
    return sent


def job_set(**metadata: Any) -> Body:
    job = {
        "spec": {"parallelism": 4, "completions": 3, "template": pod_template(**{REQUIRED: "rack"})}
    }
    jobs = [{"name": "w", "replicas": 2, "template": job}]
    return thing(
        "JobSet",
        "jobset.x-k8s.io/v1alpha2",
        "js",
        namespace="ml",
        metadata=metadata,
        spec={"replicatedJobs": jobs},
    )


def test_domains_of_a_level_are_paths_in_kueues_topology() -> None:
    """Rack r1 of one block and rack r1 of another are two."""
    nodes = [
        node(name, labels={"block": block, "rack": "r1"})
        for name, block in (("n0", "a"), ("n1", "b"))
    ]
    topology = thing(
        "Topology",
        "kueue.x-k8s.io/v1beta2",
        "default",
        spec={"levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]},
    )
    plain = request(*nodes, job_set()).gangs[0].packing_scopes[0]
    assert plain.required_level == "rack"
    sent = request(*nodes, topology, job_set())
    key = sent.gangs[0].packing_scopes[0].required_level
    assert [one.labels[key] for one in sent.snapshot.nodes] == ["a.r1", "b.r1"]


def test_a_job_set_is_a_gang_with_a_group_for_every_job() -> None:
    sent = only(job_set())
    assert shape(sent) == [("w-0", 3, 3), ("w-1", 3, 3)]
    # To Kueue all jobs of a replicated job are one pod set.
    assert [(s.required_level, list(s.groups)) for s in sent.packing_scopes] == [
        ("rack", ["w-0", "w-1"])
    ]


def test_a_class_of_kueue_says_how_urgent_a_workload_is() -> None:
    """As its Workload will, whatever the priority of its pods."""
    label = "kueue.x-k8s.io/priority-class"
    urgent = thing("WorkloadPriorityClass", "kueue.x-k8s.io/v1beta2", "urgent", value=7)
    asked = job_set(labels={label: "urgent"})
    of_pods = asked["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    of_pods["priority"] = 3
    assert only(urgent, asked).priority == 7
    found_ = translated(node(), asked)
    assert found_.request.gangs[0].priority == 3
    text = "WorkloadPriorityClass urgent is not in the input: that of its pods counts"
    assert said(found_.warnings)[0] == f"JobSet ml/js: metadata.labels[{label}]: {text}"


def test_an_exclusive_topology_is_refused_by_name() -> None:
    key = "alpha.jobset.sigs.k8s.io/exclusive-topology"
    assert list(only(job_set(annotations={key: "rack"})).unsupported) == [f"annotation {key}"]
    of_some = job_set()
    of_some["spec"]["replicatedJobs"][0]["template"]["metadata"] = {"annotations": {key: "rack"}}
    assert list(only(of_some).unsupported) == [f"annotation {key} of w"]


def test_every_replica_of_a_leader_worker_set_is_a_gang() -> None:
    inside = {"size": 3, "leaderTemplate": pod_template("2"), "workerTemplate": pod_template()}
    found_ = gangs(
        thing(
            "LeaderWorkerSet",
            "leaderworkerset.x-k8s.io/v1",
            "l",
            namespace="ml",
            spec={"replicas": 2, "leaderWorkerTemplate": inside},
        )
    )
    assert {name: shape(g) for name, g in found_.items()} == {
        f"l-{i}": [("leader", 1, 1), ("worker", 2, 2)] for i in range(2)
    }
    leader = found_["l-0"].groups[0].pod_sets[0].template
    assert leader.requests.extended["nvidia.com/gpu"] == 2


def rbg(*, together: bool, roles: list[Body], **spec: Any) -> Body:
    notes = {"rbg.workloads.x-k8s.io/group-gang-scheduling": "true"} if together else {}
    return thing(
        "RoleBasedGroup",
        "workloads.x-k8s.io/v1alpha2",
        "r",
        namespace="ml",
        metadata={"annotations": notes},
        spec={"roles": roles, **spec},
    )


def test_roles_run_together_only_where_that_is_said() -> None:
    roles = [
        {"name": "router", "replicas": 2, "standalonePattern": {"template": pod_template()}},
        {
            "name": "decode",
            "replicas": 1,
            "leaderWorkerPattern": {"size": 2, "template": pod_template()},
        },
    ]
    instances = [("decode-0-leader", 1, 1), ("decode-0-worker", 1, 1)]
    assert shape(only(rbg(together=True, roles=roles))) == [
        ("router-0", 1, 1),
        ("router-1", 1, 1),
        *instances,
    ]
    assert {n: shape(g) for n, g in gangs(rbg(together=False, roles=roles)).items()} == {
        "r-router-0": [("router-0", 1, 1)],
        "r-router-1": [("router-1", 1, 1)],
        "r-decode-0": instances,
    }


def test_patches_and_references_make_the_template_of_a_role() -> None:
    patch = {"spec": {"containers": [container(gpu="4")]}}
    roles = [
        {
            "name": "d",
            "leaderWorkerPattern": {
                "size": 2,
                "templateRef": {"name": "base"},
                "leaderTemplatePatch": patch,
            },
        }
    ]
    sent = only(
        rbg(
            together=True, roles=roles, roleTemplates=[{"name": "base", "template": pod_template()}]
        )
    )
    gpus = [g.pod_sets[0].template.requests.extended["nvidia.com/gpu"] for g in sent.groups]
    assert gpus == [4, 1]
    lost = rbg(
        together=True,
        roles=[{"name": "d", "leaderWorkerPattern": {"templateRef": {"name": "gone"}}}],
    )
    assert (
        "spec.roles[0].leaderWorkerPattern.templateRef.name",
        "there is no role template gone",
    ) in {p[1:] for p in problems(lost)}


def kueue(active: bool = True, **status: Any) -> Body:
    sets = [
        {
            "name": "main",
            "count": 4,
            "minCount": 3,
            "template": pod_template(),
            "topologyRequest": {"preferred": "rack"},
        }
    ]
    return thing(
        "Workload",
        "kueue.x-k8s.io/v1beta2",
        "w",
        namespace="ml",
        spec={"podSets": sets, "priority": 7, "active": active},
        status=status,
    )


def test_a_workload_of_kueue_that_waits_is_a_gang() -> None:
    sent = only(kueue())
    assert (shape(sent), sent.priority) == ([("main", 3, 4)], 7)
    assert [s.preferred_level for s in sent.packing_scopes] == ["rack"]
    assert list(only(kueue(active=False)).unsupported) == ["spec.active: false"]
    admitted = kueue(conditions=[{"type": "Admitted", "status": "True"}])
    assert gangs(admitted) == {}


def test_a_workload_of_kueue_runs_where_flavors_of_its_queue_let_it() -> None:
    def flavor(name: str, **spec: Any) -> Body:
        return thing("ResourceFlavor", "kueue.x-k8s.io/v1beta2", name, spec=spec)

    def queue(*groups: dict[str, list[str]]) -> Body:
        quota = [
            {
                "flavors": [
                    {"name": f, "resources": [{"name": r, "nominalQuota": 9} for r in resources]}
                    for f, resources in group.items()
                ]
            }
            for group in groups
        ]
        spec = {"resourceGroups": quota}
        return thing("ClusterQueue", "kueue.x-k8s.io/v1beta2", "cq", spec=spec)

    local = thing(
        "LocalQueue", "kueue.x-k8s.io/v1beta2", "lq", namespace="ml", spec={"clusterQueue": "cq"}
    )
    waiting = kueue()
    waiting["spec"]["queueName"] = "lq"
    toleration = {"key": "spot", "operator": "Exists"}
    flavors = [
        flavor("h100", nodeLabels={"gpu": "h100"}),
        flavor("a100", nodeLabels={"gpu": "a100"}, tolerations=[toleration]),
        flavor("zone", nodeLabels={"zone": "z", "gpu": "a100"}),
        flavor("anywhere"),
    ]

    def terms(*groups: dict[str, list[str]]) -> list[list[tuple[str, list[str]]]]:
        template = only(waiting, local, queue(*groups), *flavors).groups[0].pod_sets[0].template
        return [
            [(r.key, list(r.values)) for r in term.match_expressions]
            for term in template.required_node_affinity.terms
        ]

    gpus = ["nvidia.com/gpu"]
    assert terms({"h100": gpus}) == [[("gpu", ["h100"])]]
    # One of each group, on nodes that there may be; of resources that pods ask for.
    both = terms({"h100": ["pods"], "a100": ["pods"]}, {"a100": gpus}, {"zone": ["cpu", "pods"]})
    assert both == [[("gpu", ["a100"]), ("zone", ["z"])]]
    assert terms({"h100": ["example.com/nic"]}) == []
    # Some flavor is everywhere, or not in the input.
    assert terms({"h100": ["pods"], "anywhere": ["pods"]}, {"gone": gpus}) == []
    assert terms({"gone": gpus}) == []


def volcano_job(least: int, *tasks: Body, **spec: Any) -> Body:
    return thing(
        "Job",
        "batch.volcano.sh/v1alpha1",
        "v",
        namespace="ml",
        spec={"minAvailable": least, "tasks": list(tasks), **spec},
    )


def task(name: str, replicas: int, **more: Any) -> Body:
    return {"name": name, "replicas": replicas, "template": pod_template(), **more}


def test_tasks_of_volcano_are_groups_unless_fewer_may_run_of_all() -> None:
    tasks = task("a", 2), task("b", 3, minAvailable=1)
    assert shape(only(volcano_job(3, *tasks))) == [("a", 2, 2), ("b", 1, 3)]
    assert shape(only(volcano_job(2, *tasks))) == [("pods", 2, 5)]
    split = volcano_job(2, task("a", 2, partitionPolicy={"totalPartitions": 2}))
    assert list(only(split).unsupported) == ["spec.tasks[0].partitionPolicy"]


def test_pods_name_their_volcano_pod_group() -> None:
    notes = {"scheduling.k8s.io/group-name": "pg", "volcano.sh/task-spec": "ps"}
    pg = thing(
        "PodGroup",
        "scheduling.volcano.sh/v1beta1",
        "pg",
        namespace="ml",
        spec={"minMember": 2, "minTaskMember": {"ps": 1, "worker": 1}},
    )
    members = [
        pod("a", metadata={"annotations": notes}),
        pod("b", metadata={"annotations": {**notes, "volcano.sh/task-spec": "worker"}}),
    ]
    assert shape(only(pg, *members)) == [("ps", 1, 1), ("worker", 1, 1)]
    del pg["spec"]["minTaskMember"]
    assert shape(only(pg, *members)) == [("pods", 2, 2)]


def plain() -> list[Body]:
    job = {"parallelism": 2, "template": pod_template()}
    return [
        thing("Job", "batch/v1", "j", namespace="ml", spec=job),
        thing(
            "Deployment",
            "apps/v1",
            "d",
            namespace="ml",
            spec={"replicas": 3, "template": pod_template()},
        ),
    ]


def test_plain_workloads_are_gangs_only_on_request() -> None:
    objects = Objects.of([node(), *plain()])
    quiet = translate(objects)
    assert not quiet.request.gangs
    assert any("Deployment (apps): 1 left out" in w for w in said(quiet.warnings))
    asked = translate(objects, plain_gangs=True).request.gangs
    assert [shape(g) for g in asked] == [[("pod", 2, 2)], [("pod", 3, 3)]]


def test_a_name_that_the_server_ends_is_a_name() -> None:
    job = plain()[0]
    job["metadata"] = {"generateName": "tas-"}
    (sent,) = translate(Objects.of([node(), job]), plain_gangs=True).request.gangs
    assert sent.name == "namespaces/default/podgangs/tas"


def test_a_workload_whose_pods_are_there_is_left_to_them() -> None:
    labels = {"leaderworkerset.sigs.k8s.io/name": "l"}
    there = thing(
        "LeaderWorkerSet",
        "leaderworkerset.x-k8s.io/v1",
        "l",
        namespace="ml",
        spec={"leaderWorkerTemplate": {"workerTemplate": pod_template()}},
    )
    assert list(gangs(there, pod("l-0", labels=labels), gang(podgroups=[group("w", "l-0")]))) == [
        "g"
    ]


def test_too_many_pods_are_a_problem() -> None:
    huge = plain()[1]
    huge["spec"]["replicas"] = 10**6
    with pytest.raises(Exception, match="makes more than 200,000 pods"):
        translate(Objects.of([huge]), plain_gangs=True)


@pytest.mark.parametrize(
    "path", [*found("data/rbg/*.yaml"), *found("data/kueue/examples-tas/sample-job-*.yaml")]
)
def test_published_examples_are_gangs(path: Path) -> None:
    sent = translate(load([str(path)]), plain_gangs=True).request
    assert sent.gangs
    assert all(shape(g) for g in sent.gangs)
