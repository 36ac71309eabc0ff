"""What gangs are worth, said twice: by the formulation and by the judge."""

from __future__ import annotations

import pytest

from placement_service.entities.request import (
    CPU,
    MEMORY,
    PODS,
    BoundPod,
    Node,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.formulation.gang_value import UNITS_PER_GPU, cluster_totals, gang_value
from placement_service.judge.gang_value import gang_values

POLICY = Policy()
GPU = "nvidia.com/gpu"

CLUSTER = tuple(
    Node(f"nodes/n{i}", allocatable={CPU: 64_000, MEMORY: 1 << 40, GPU: 8, PODS: 110})
    for i in range(100)
)


def gang(*groups: PodGroup, name: str = "g") -> PodGang:
    return PodGang(f"namespaces/a/podGangs/{name}", groups)


def group(minimum: int, *requests: dict[str, int], running: int = 0) -> PodGroup:
    """Groups of which every kind of pod waits, and so many of the first kind run."""
    sets = [
        PodSet(
            PodTemplate(r),
            (Pod(f"namespaces/a/pods/{i}"),),
            tuple(BoundPod(f"namespaces/a/pods/r{k}", "nodes/n0") for k in range(running)),
        )
        for i, r in enumerate(requests)
    ]
    return PodGroup("w", minimum, tuple(sets))


def value(*gangs: PodGang) -> list[int]:
    """The values on which both agree."""
    snapshot = Snapshot(CLUSTER, gangs)
    ours = [gang_value(g, POLICY, cluster_totals(snapshot)) for g in gangs]
    theirs = gang_values(snapshot, POLICY)
    assert ours == [theirs[g.name] for g in gangs]
    return ours


def test_the_whole_minimum_counts_though_a_part_of_it_runs() -> None:
    assert value(gang(group(4, {GPU: 8}, running=3))) == [32 * UNITS_PER_GPU]


def test_a_group_of_which_all_pods_run_counts() -> None:
    runs = PodGroup(
        "w", 1, (PodSet(PodTemplate({GPU: 8}), (), (BoundPod("namespaces/a/pods/r", "nodes/n0"),)),)
    )
    waits = group(1, {GPU: 4})
    assert value(gang(runs, waits)) == [12 * UNITS_PER_GPU]


@pytest.mark.parametrize(
    ("resource", "want"),
    [
        ("nvidia.com/mig-1g.10gb", 142_000),
        ("nvidia.com/mig-3g.40gb", 428_000),
        ("nvidia.com/mig-7g.80gb", 1_000_000),
        ("nvidia.com/mig-99g.1gb", 1_000_000),
        ("nvidia.com/mig-odd", 1_000),
    ],
)
def test_a_mig_device_counts_its_slices(resource: str, want: int) -> None:
    assert value(gang(group(1, {resource: 1}))) == [want]


def test_the_least_of_unlike_pods_counts() -> None:
    assert value(gang(group(2, {GPU: 8}, {GPU: 2}))) == [4 * UNITS_PER_GPU]


def test_gangs_without_gpus_are_told_apart_by_what_they_ask_for() -> None:
    values = value(*(gang(group(1, {CPU: n}), name=str(n)) for n in (8_000, 9_000, 12_000)))
    assert len(set(values)) == 3
    assert values == sorted(values)


def test_all_gangs_without_gpus_that_fit_are_less_than_one_gpu() -> None:
    whole = [
        gang(group(100, {CPU: 64_000}), name="cpu"),
        gang(group(100, {MEMORY: 1 << 40}), name="memory"),
    ]
    assert sum(value(*whole)) < UNITS_PER_GPU


def test_a_gang_that_asks_for_nothing_counts_one_unit() -> None:
    assert value(gang(group(1, {PODS: 1}))) == [1]


def test_a_cluster_of_nothing_has_no_shares() -> None:
    snapshot = Snapshot((), (gang(group(1, {CPU: 1})),))
    assert gang_value(snapshot.gangs[0], POLICY, cluster_totals(snapshot)) == 1
    assert list(gang_values(snapshot, POLICY).values()) == [1]
