"""How long what runs in queues of KAI is safe from preemption and from reclaim."""

from __future__ import annotations

from tests.kubernetes.build import gang, group, kai_queue, node, only_gang, pod, queues


def test_a_running_gang_is_safe_for_the_time_of_the_nearest_queue() -> None:
    running = [
        node("n1"),
        pod("a", nodeName="n1", labels={"kai.scheduler/queue": "leaf"}),
        gang(podgroups=[group("w", "a")]),
    ]
    running[1]["status"]["startTime"] = "2026-01-01T00:00:00Z"
    sent = only_gang(
        kai_queue("org", preemptMinRuntime="2h", reclaimMinRuntime="90s"),
        kai_queue("leaf", "org", preemptMinRuntime="1h30m"),
        *running,
    )
    assert sent.minimum_run_time.seconds == 5400
    assert not sent.HasField("minimum_run_time_before_reclaim")
    assert sent.start_time.ToJsonString() == "2026-01-01T00:00:00Z"


def test_each_queue_says_how_long_what_it_has_is_safe_from_those_beside_it() -> None:
    found = queues(
        kai_queue("org", reclaimMinRuntime="90s"),
        kai_queue("team", "org"),
        kai_queue("leaf", "team", reclaimMinRuntime="0s"),
        kai_queue("other"),
    )
    assert {
        name: queue.minimum_run_time_before_reclaim.seconds for name, queue in found.items()
    } == {"org": 90, "team": 90, "leaf": 0, "other": 0}
