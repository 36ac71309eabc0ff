"""An exported instance, translated back, is the same question."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bench.export import kubernetes_list
from bench.instances import Instance, Value
from placement.kubernetes import translate
from placement.kubernetes.objects import Objects
from placement_service.api.wire import requests
from placement_service.entities.request import Effect, PodGang, PodSet, Snapshot, Taint, Toleration

EXPORTED: list[tuple[str, dict[str, Value]]] = [
    ("tiny", {}),
    ("sets", {"gangs": 20, "load": 0.2}),
    ("pools", {"blocks": 3, "gangs": 40}),
    ("nvl72", {"gangs": 4, "filled": 0.5}),
    ("wide", {"pods": 4}),
    ("preempt", {"blocks": 2, "racks": 2, "gangs": 3}),
]


def there_and_back(snapshot: Snapshot) -> Snapshot:
    objects = json.loads(json.dumps(kubernetes_list(snapshot)))
    return requests.parse_request(translate(Objects.of([objects])).request).snapshot


def without_words(gang: PodGang) -> PodGang:
    """The gang without names of scopes and labels of pods, which mean nothing to the question."""

    def bare(pods: PodSet) -> PodSet:
        return replace(pods, template=replace(pods.template, labels={}))

    return replace(
        gang,
        groups=tuple(replace(g, pod_sets=tuple(map(bare, g.pod_sets))) for g in gang.groups),
        packing_scopes=tuple(replace(s, name="") for s in gang.packing_scopes),
    )


@pytest.mark.parametrize(("family", "params"), EXPORTED)
def test_an_exported_instance_asks_the_same(family: str, params: dict[str, Value]) -> None:
    snapshot = Instance(family, params).snapshot()
    back = there_and_back(snapshot)
    assert back.nodes == snapshot.nodes
    assert [without_words(g) for g in back.gangs] == [without_words(g) for g in snapshot.gangs]
    assert back.running_pods == snapshot.running_pods


def test_what_has_no_counterpart_is_refused() -> None:
    snapshot = Instance("tiny").snapshot()
    gang = snapshot.gangs[0]
    group = gang.groups[0]
    (pods,) = group.pod_sets
    tolerant = replace(pods.template, tolerations=(Toleration("", True, "", None),))
    group = replace(group, pod_sets=(replace(pods, template=tolerant),))
    with pytest.raises(ValueError, match="tolerations"):
        kubernetes_list(replace(snapshot, gangs=(replace(gang, groups=(group,)),)))


def test_taints_and_cordons_are_exported() -> None:
    snapshot = Instance("tiny").snapshot()
    first, *others = snapshot.nodes
    first = replace(first, taints=(Taint("a", "b", Effect.NO_SCHEDULE),), unschedulable=True)
    back = there_and_back(replace(snapshot, nodes=(replace(first, ready=False), *others)))
    assert back.nodes[0] == replace(first, ready=False)


@pytest.mark.parametrize(("family", "params"), EXPORTED)
def test_no_group_config_has_the_name_of_a_group(family: str, params: dict[str, Value]) -> None:
    """Schedulers make a sub-group of each, and refuse two of one name."""
    for item in kubernetes_list(Instance(family, params).snapshot())["items"]:
        if item["kind"] == "PodGang":
            spec = item["spec"]
            names = [g["name"] for g in spec["podgroups"]]
            names += [c["name"] for c in spec.get("topologyConstraintGroupConfigs", ())]
            assert len(names) == len(set(names))
