"""What a pod takes of its node: containers, init containers, sidecars, overhead."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from placement import v1
from placement.kubernetes.pods.podspec import PodSpecReader
from tests.kubernetes.build import (
    container,
    template,
)


def requests(**spec: Any) -> dict[str, int]:
    facts = PodSpecReader().read({"containers": [{}], **spec})
    assert not facts.findings
    assert facts.requests["pods"] == 1
    return {k: v for k, v in facts.requests.items() if k != "pods"}


def cpu(amount: str, **more: Any) -> dict[str, Any]:
    return {**container(cpu=amount), **more}


def test_containers_add_up() -> None:
    assert requests(containers=[cpu("1"), cpu("500m"), {}]) == {"cpu": 1500}


def test_a_limit_stands_in_for_a_missing_request() -> None:
    both = {"resources": {"limits": {"cpu": "4", "nvidia.com/gpu": 8}, "requests": {"cpu": "1"}}}
    assert requests(containers=[both]) == {"cpu": 1000, "nvidia.com/gpu": 8}


def test_a_request_of_zero_is_a_request() -> None:
    zero = {"resources": {"limits": {"cpu": "4"}, "requests": {"cpu": "0"}}}
    assert requests(containers=[zero]) == {}


def test_of_init_containers_only_the_largest_counts_and_only_above_the_containers() -> None:
    assert requests(containers=[cpu("2")], initContainers=[cpu("3"), cpu("1")]) == {"cpu": 3000}
    assert requests(containers=[cpu("4")], initContainers=[cpu("3"), cpu("1")]) == {"cpu": 4000}


def test_sidecars_run_beside_the_containers_and_the_init_containers_after_them() -> None:
    # The moments: sidecar 1 + containers 2 = 3, and init 4 + sidecar 1 = 5.
    sidecar = cpu("1", restartPolicy="Always")
    assert requests(containers=[cpu("2")], initContainers=[sidecar, cpu("4")]) == {"cpu": 5000}
    # Before the sidecar, the init container runs alone: 4; later 3.
    assert requests(containers=[cpu("2")], initContainers=[cpu("4"), sidecar]) == {"cpu": 4000}
    # Two sidecars and a container: 1 + 1 + 2.
    assert requests(containers=[cpu("2")], initContainers=[sidecar, sidecar]) == {"cpu": 4000}


def test_overhead_comes_on_top() -> None:
    assert requests(containers=[cpu("2")], overhead={"cpu": "250m", "memory": "1Ki"}) == {
        "cpu": 2250,
        "memory": 1024,
    }


def test_requests_of_the_whole_pod_replace_those_of_its_containers() -> None:
    assert requests(
        containers=[container(cpu="2", memory="1Ki", gpu="1")],
        resources={"requests": {"cpu": "5", "nvidia.com/gpu": "7"}},
        overhead={"cpu": "1"},
    ) == {"cpu": 6000, "memory": 1024, "nvidia.com/gpu": 1}


def test_a_limit_of_the_whole_pod_counts_where_nothing_is_requested() -> None:
    assert requests(
        containers=[container(cpu="2")], resources={"limits": {"cpu": "5", "memory": "1Ki"}}
    ) == {"cpu": 2000, "memory": 1024}


def test_amounts_reach_the_wire_in_their_units() -> None:
    sent = template(
        containers=[
            {
                "resources": {
                    "requests": {
                        "cpu": "1500m",
                        "memory": "1Gi",
                        "ephemeral-storage": "1M",
                        "hugepages-1Gi": "2Gi",
                        "nvidia.com/gpu": "8",
                    }
                }
            }
        ]
    ).requests
    assert sent == v1.Resources(
        cpu_millis=1500,
        memory_bytes=2**30,
        ephemeral_storage_bytes=10**6,
        pod_count=1,
        extended={"hugepages-1Gi": 2**31, "nvidia.com/gpu": 8},
    )


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=4),
)
def test_requests_are_the_largest_sum_of_what_runs_at_one_moment(
    mains: list[int], inits: list[tuple[int, bool]]
) -> None:
    """An oracle that plays the start of a pod moment by moment."""
    sidecars, moments = 0, [0]
    for need, is_sidecar in inits:
        moments.append(sidecars + need)
        sidecars += need if is_sidecar else 0
    moments.append(sidecars + sum(mains))
    got = requests(
        containers=[cpu(str(n)) for n in mains],
        initContainers=[cpu(str(n), restartPolicy="Always" if s else None) for n, s in inits],
    )
    assert got.get("cpu", 0) == 1000 * max(moments)
