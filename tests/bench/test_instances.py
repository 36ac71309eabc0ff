"""Families are pure functions of a seed, ask what they say, and are valid requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import instances
from bench.families import traces
from bench.families.building import GPU, RACK, WHOLE_TRAY, free_trays
from bench.instances import Instance, Value
from placement_service.api.validation import violations
from placement_service.entities.request import Request, Snapshot

#: Every family, small.
SMALL: list[tuple[str, dict[str, Value]]] = [
    ("tiny", {}),
    ("mix", {"blocks": 2, "racks": 6, "gangs": 12, "load": 1.0}),
    ("sets", {"gangs": 20, "load": 0.2}),
    ("pools", {"blocks": 3, "gangs": 40}),
    ("pools", {"blocks": 3, "gangs": 40, "scattered": 1}),
    ("cpu_shapes", {"blocks": 2, "gangs": 20}),
    ("rack_parts", {"blocks": 2, "gangs": 10}),
    ("shared", {"blocks": 2, "racks": 3, "nodes": 4, "gangs": 12}),
    ("nvl72", {"filled": 0.5}),
    ("grove_scale", {}),
    ("wide", {"pods": 8}),
    ("huge", {"gangs": 50, "load": 0.1}),
    ("preempt", {"blocks": 2, "racks": 2, "gangs": 6}),
    ("reclaim", {"blocks": 2, "racks": 2, "gangs": 6}),
    ("repack", {"blocks": 2, "racks": 2, "gangs": 6}),
    ("boards", {"nodes": 20, "gangs": 12, "nics": 2}),
    ("ragged", {"gangs": 10, "blocks": 1, "load": 0.5, "serials": 1}),
]

OPENB_NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"n{i},96000,786432,{8 if i < 20 else 0},{'V100' if i < 20 else ''}\n" for i in range(24)
)
OPENB_PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n" + "".join(
    f"p{i},4000,16384,{gpus},{share}\n"
    for i, (gpus, share) in enumerate([(1, 1000), (1, 400), (0, 0), (2, 1000)] * 30)
)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with traces of the real form, made up."""
    (tmp_path / "openb_node_list_all_node.csv").write_text(OPENB_NODES)
    (tmp_path / "openb_pod_list_default.csv").write_text(OPENB_PODS)
    (tmp_path / "openb_pod_list_multigpu20.csv").write_text(OPENB_PODS)
    (tmp_path / "node_info_df.csv").write_text(
        "gpu_model,gpu_capacity_num,cpu_num,node_name\n"
        + "".join(f"{'A100' if i % 2 else 'A10'},{8 if i % 2 else 1},128,{i}\n" for i in range(40))
    )
    monkeypatch.setenv(traces.DATA_VARIABLE, str(tmp_path))
    return tmp_path


def asked_trays(snapshot: Snapshot) -> int:
    return sum(
        group.min_replicas
        for gang in snapshot.gangs
        for group in gang.groups
        if group.pod_sets[0].template.requests == WHOLE_TRAY.requests
    )


@pytest.mark.parametrize(("family", "params"), SMALL)
def test_an_instance_is_a_valid_request(family: str, params: dict[str, Value]) -> None:
    assert not list(violations(Request(Instance(family, params).snapshot())))


@pytest.mark.parametrize("family", ["openb", "spot"])
def test_an_instance_of_a_trace_is_a_valid_request(family: str, data: Path) -> None:
    snapshot = Instance(family, {"gangs": 5}).snapshot()
    assert len(snapshot.gangs) == 5
    assert not list(violations(Request(snapshot)))


@pytest.mark.parametrize(("family", "params"), SMALL)
def test_the_same_seed_gives_the_same_snapshot(family: str, params: dict[str, Value]) -> None:
    assert Instance(family, params, 3).snapshot() == Instance(family, params, 3).snapshot()


def test_another_seed_gives_another_snapshot() -> None:
    assert Instance("tiny", {}, 1).snapshot() != Instance("tiny", {}, 2).snapshot()


def test_every_family_is_tested() -> None:
    assert {family for family, _ in SMALL} | {"openb", "spot"} == set(instances.FAMILIES)


@pytest.mark.parametrize("load", [0.5, 1.0, 2.0])
def test_load_is_trays_asked_for_over_trays_free(load: float) -> None:
    snapshot = Instance("mix", {"load": load}).snapshot()
    assert asked_trays(snapshot) / free_trays(snapshot.nodes) == pytest.approx(load, rel=0.1)


def test_a_load_out_of_reach_is_refused() -> None:
    with pytest.raises(ValueError, match="3 gangs ask for"):
        Instance("mix", {"gangs": 3}).snapshot()


def test_the_standard_mix_is_as_large_and_as_free_as_documented() -> None:
    snapshot = Instance("mix").snapshot()
    gpus = [(n.allocatable.get("nvidia.com/gpu", 0), n.free(GPU)) for n in snapshot.nodes]
    assert len(snapshot.nodes) == 5152
    assert sum(total for total, _ in gpus) == 20160
    assert sum(free for _, free in gpus) == pytest.approx(12500, rel=0.05)


def test_scaled_gangs_name_a_base_that_is_there() -> None:
    gangs = Instance("sets", {"gangs": 40, "load": 0.4}).snapshot().gangs
    scaled = [g for g in gangs if g.base_gang]
    assert scaled
    assert {g.base_gang for g in scaled} <= {g.name for g in gangs}


def test_workers_of_nvl72_need_one_rack_and_frontends_do_not() -> None:
    (gang, *_) = Instance("nvl72", {"sizes": "9"}).snapshot().gangs
    (scope,) = gang.packing_scopes
    assert (scope.required_level, scope.groups) == (RACK, ("prefill", "decode"))
    assert sum(g.min_replicas for g in gang.groups) == 10


def test_best_fit_leaves_more_whole_machines_free_than_spread(data: Path) -> None:
    def whole(spread: int) -> int:
        nodes = Instance("openb", {"filled": 0.3, "spread": spread}).snapshot().nodes
        return sum(n.free(GPU) == 8 for n in nodes)

    assert whole(0) > whole(1)


def test_missing_data_is_said_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(traces.DATA_VARIABLE, raising=False)
    with pytest.raises(traces.MissingData, match="PLACEMENT_DATA"):
        Instance("openb").snapshot()
    monkeypatch.setenv(traces.DATA_VARIABLE, str(tmp_path))
    with pytest.raises(traces.MissingData, match="there is no openb_node_list"):
        Instance("openb").snapshot()


def test_words_become_parameters_of_their_type() -> None:
    one = instances.instance("nvl72", {"sizes": "9+10", "gangs": "65", "filled": "0.5"}, 7)
    assert one.params == {"sizes": "9+10", "gangs": 65, "filled": 0.5}
    assert str(one) == "nvl72 sizes=9+10 gangs=65 filled=0.5 #7"


@pytest.mark.parametrize(
    ("family", "words", "message"),
    [
        ("mixed", {}, "no family mixed"),
        ("mix", {"weight": "1"}, "mix takes no weight"),
        ("mix", {"gangs": "many"}, "gangs of mix cannot be 'many'"),
    ],
)
def test_wrong_words_are_refused_by_name(family: str, words: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        instances.instance(family, words)


def test_no_two_ragged_nodes_are_alike_though_the_trays_are_as_free_as_in_the_mix() -> None:
    params: dict[str, Value] = {"gangs": 10, "blocks": 1, "load": 0.5}
    plain, ragged = (Instance(family, params).snapshot() for family in ("mix", "ragged"))
    nodes = ragged.nodes
    assert len({frozenset(n.requested.items()) for n in nodes}) == len(nodes)
    assert {len(n.labels) for n in nodes} <= {24, 25}
    assert free_trays(nodes) == free_trays(plain.nodes)
