"""The plot of the growth: what is measured is drawn, and can be drawn again."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench import growth, tables
from bench.instances import Instance
from bench.stages import stages

SIZES = [
    growth.Size(
        nodes=nodes,
        gangs=nodes // 26,
        pods=nodes,
        request_mib=nodes / 4000,
        first=nodes / 20_000,
        total=30.0,
        end="TIME",
        gap=None if nodes > 5000 else 0.01,
        memory={"server": 60.0 + nodes / 100, "solver": 0.0 if nodes > 5000 else 100.0},
        stages={"read": nodes / 50, "first answer": nodes / 20, "together": nodes / 10},
    )
    for nodes in (500, 5000, 50_000)
]


def test_every_size_is_a_point_of_every_curve() -> None:
    root = ET.fromstring(growth.draw(SIZES))
    space = "{http://www.w3.org/2000/svg}"
    curves = [line.attrib["points"].split() for line in root.iter(f"{space}polyline")]
    # Seconds: over gRPC and two stages; memory: the server, and the solver where it was used.
    assert [len(points) for points in curves] == [3, 3, 3, 3, 2]
    texts = {text.text for text in root.iter(f"{space}text")}
    assert {"first answer, gRPC", "read, CPU", "server", "1,000", "100,000"} <= texts


def test_larger_is_further_right_and_higher() -> None:
    root = ET.fromstring(growth.draw(SIZES))
    for line in root.iter("{http://www.w3.org/2000/svg}polyline"):
        points = [tuple(map(float, p.split(","))) for p in line.attrib["points"].split()]
        assert points == sorted(points)
        assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)


def test_what_was_measured_can_be_read_again(tmp_path: Path) -> None:
    growth.write(SIZES, tmp_path / "lines")
    assert growth.read(tmp_path / "lines") == SIZES
    assert "no bound" in tables.size(SIZES[-1])


@pytest.mark.parametrize("nodes", [500, 1000, 100_000])
def test_an_instance_is_as_large_as_asked_and_no_larger(nodes: int) -> None:
    params = growth.instance(nodes).params
    made = int(params["blocks"]) * (int(params["racks"]) * 18 + 8)
    assert 0.7 * nodes <= made <= nodes


def test_stages_add_up() -> None:
    found = {stage.name: stage.milliseconds for stage in stages(Instance("tiny"), runs=1)}
    together = found.pop("together")
    assert together == pytest.approx(sum(found.values()))
    assert {"message to values", "formulate", "first answer", "judge", "write"} <= found.keys()
