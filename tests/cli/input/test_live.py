"""`placementctl` on a live cluster: a real API server, which it only reads."""

from __future__ import annotations

import json
import signal
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from placement.cli.input.live import of_scheduler, on_nodes_that_are_there
from placement.cli.status import GangStatus, as_json, as_table, statuses
from placement.kubernetes import Objects, translate
from placement.kubernetes.schema import kinds
from placement.resources import ALSO_PLANNED_FROM, PLANNED_FROM
from tests.cli.command import Call
from tests.cli.foreground import IN_THE_FOREGROUND
from tests.cluster.api import POD_GANGS, PODS
from tests.cluster.build import clique, clique_set, node
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.kubernetes import build
from tests.waiting import LONG


def test_plan_live_answers_for_what_waits_and_changes_nothing(
    call: Call, cluster: Cluster, grove: GroveStandIn
) -> None:
    cluster.add_nodes(node("a", gpus=4))
    grove.apply(clique_set("g", clique("worker", 2, gpus=2), namespace=cluster.namespace))
    grove.settle()
    before = [cluster.api.items(kind) for kind in (PODS, POD_GANGS)]
    kubeconfig = str(cluster.kubeconfig())
    done = call("plan", "--live", "--kubeconfig", kubeconfig, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert {binding["node"] for binding in answer["bindings"]} == {"a"}
    assert [gang["placed"] for gang in answer["podGangs"]] == [True]
    assert before == [cluster.api.items(kind) for kind in (PODS, POD_GANGS)]
    other = call("plan", "--live", "--kubeconfig", kubeconfig, "--scheduler-name", "kube",
                "-o", "json")  # fmt: skip
    assert json.loads(other.stdout)["podGangs"] == []


def test_status_counts_and_gives_reasons(call: Call, cluster: Cluster, grove: GroveStandIn) -> None:
    grove.apply(clique_set("g", clique("worker", 2), namespace=cluster.namespace))
    grove.settle()
    done = call("status", "--kubeconfig", str(cluster.kubeconfig()), "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    (gang,) = json.loads(done.stdout)["podGangs"]
    assert (gang["name"], gang["pods"], gang["bound"], gang["minimum"]) == ("g-0", 2, 0, 2)
    assert gang["scheduled"] == "Unknown"
    assert "g-0" in call("status", "--kubeconfig", str(cluster.kubeconfig())).stdout


def test_an_interrupt_ends_a_watch_without_a_complaint(
    cluster: Cluster, grove: GroveStandIn
) -> None:
    grove.apply(clique_set("g", clique("worker", 2), namespace=cluster.namespace))
    grove.settle()
    watch = ["status", "--watch", "-o", "name", "--kubeconfig", str(cluster.kubeconfig())]
    with subprocess.Popen(
        [*IN_THE_FOREGROUND, *watch], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"%s/g-0\n" % cluster.namespace.encode()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=LONG)
    assert (process.returncode, stderr) == (0, b"")


def test_a_cluster_that_is_not_reached_ends_with_three(call: Call, tmp_path: Path) -> None:
    for command in ("status", "plan --live"):
        done = call(*command.split(), "--kubeconfig", str(tmp_path / "none"))
        assert done.returncode == 3
        assert "the cluster could not be read" in done.stderr
        assert str(tmp_path / "none") in done.stderr
        assert "Traceback" not in done.stderr


def test_a_live_cluster_is_asked_for_every_kind_that_is_read_but_those_that_make_others() -> None:
    asked = {
        (resource.api_version.rpartition("/")[0], resource.kind)
        for resource in (*PLANNED_FROM, *ALSO_PLANNED_FROM)
    }
    made_of = {"PodCliqueSet", "JobSet", "LeaderWorkerSet", "RoleBasedGroup"}
    plain = {kind.name for kind in kinds.PLAIN}
    left = {(kind.group, kind.name) for kind in kinds.KINDS} - asked
    assert {name for _, name in left} == made_of | plain


def test_files_and_a_live_cluster_do_not_go_together(call: Call) -> None:
    assert call("plan", "--live", "-f", "x").returncode == 2
    assert call("plan").returncode == 2


def test_only_pods_of_the_scheduler_wait() -> None:
    bodies = [
        build.node(),
        build.pod("ours", schedulerName="us"),
        build.pod("theirs", schedulerName="them"),
        build.pod("runs", schedulerName="them", nodeName="n1"),
        build.gang("g", podgroups=[build.group("w", "ours")]),
        build.gang("h", podgroups=[build.group("w", "theirs")]),
    ]
    left = [body["metadata"]["name"] for body in of_scheduler(bodies, "us")]
    assert left == ["n1", "ours", "runs", "g"]


def test_what_runs_of_others_counts_in_the_queue_that_its_gang_names() -> None:
    """The gang itself is not part of the question."""
    labels = {"kai.scheduler/queue": "team", "kai.scheduler/preemptibility": "non-preemptible"}
    bodies = [
        build.node(),
        build.kai_queue("team", limit=2),
        build.pod("runs", nodeName="n1", containers=[build.container(gpu="2")]),
        build.gang("g", podgroups=[build.group("w", "runs")]),
    ]
    bodies[-1]["metadata"]["labels"] = labels
    (queue,) = translate(Objects.of(of_scheduler(bodies, "us"))).request.snapshot.queues
    assert (queue.used["gpus"], queue.used_not_preemptible["gpus"]) == (2, 2)


def test_a_pod_on_a_node_that_is_gone_does_not_count() -> None:
    bodies = [build.node("n1"), *(build.pod(n, nodeName=n) for n in ("n1", "n2")), build.pod("w")]
    left = [body["metadata"]["name"] for body in on_nodes_that_are_there(bodies)]
    assert left == ["n1", "n1", "w"]


def waiting() -> GangStatus:
    conditions = [{"type": "Scheduled", "status": "False", "reason": "R", "message": "too small"}]
    status = {"phase": "Pending", "conditions": conditions}
    made = {"creationTimestamp": "2026-01-31T12:00:00Z"}
    gang = build.gang("g", status=status, metadata=made, podgroups=[build.group("w", "a", "b")])
    (found,) = statuses([build.pod("a", nodeName="n1"), gang])
    return found


def test_a_status_holds_what_was_written_and_what_is_there() -> None:
    assert waiting() == GangStatus(
        "ml", "g", "Pending", "False", "R", "too small", 2, 1, 1, None, "2026-01-31T12:00:00Z"
    )


def test_the_table_says_why_a_gang_waits() -> None:
    text = as_table([waiting()], now=datetime(2026, 1, 31, 15, 20, tzinfo=UTC), width=80)
    assert text.splitlines()[2].split()[-1] == "3h20m"
    assert "\n\nml/g: R\n" in text
    assert "too small" in text
    assert as_table([]) == "There is no PodGang.\n"


def test_json_has_the_names_of_kubernetes() -> None:
    (gang,) = as_json([waiting()])["podGangs"]
    assert gang["placementScore"] is None
    assert gang["bound"] == 1


def test_the_table_is_whole_in_80_columns() -> None:
    gang = replace(
        waiting(), namespace="serving", name="chat-0-prefill-leader-12", message="x " * 99
    )
    lines = as_table([gang], width=80).splitlines()
    assert "serving/chat-0-prefill-leader-12" in lines[2]
    assert max(map(len, lines)) <= 80
    assert all(line.startswith("  x") for line in lines[5:])
