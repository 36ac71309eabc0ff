"""Which nodes a pod may use: capacity, selectors, taints, host ports.

Solved by the real engine on the smallest cluster where the rule bites. Each test solves the same
question without the rule and with it, or differs in one number; a comment derives the optimum.
All answers must be proven.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from tests.scenario import Group, Scenario


class TestCapacity:
    def test_fragments_do_not_add_up(self) -> None:
        # Two nodes with 4 free GPUs each do not hold a pod of 8.
        Scenario("x1=4/8 x2=4/8").gang("a", pods=1, gpus=8).place().expect(placed=[])
        Scenario("x1=4/8 x2=4/8").gang("a", pods=2, gpus=4).place().expect(placed=["a"])

    def test_every_resource_counts(self) -> None:
        # GPUs for four, cores for three: 64 / 20.
        groups = Group("w", pods=4, gpus=2, cpus=20, min=1)
        Scenario("x1=8").gang("a", groups).place().expect(new={"a": 3}, extra=2)

    def test_mixed_sizes_fill_a_node_exactly(self) -> None:
        # 5 + 3 = 8 on each of two nodes; 5 + 5 or 3 + 3 would waste.
        scenario = Scenario("x1=8 x2=8")
        for name, gpus in (("a", 3), ("b", 3), ("c", 5), ("d", 5)):
            scenario = scenario.gang(name, pods=1, gpus=gpus)
        scenario.place().expect(placed=["a", "b", "c", "d"], admitted=16)


class TestNodeRules:
    GANG = Group("w", pods=1, gpus=8)

    @pytest.mark.parametrize(
        "closed",
        [
            pytest.param({"cordoned": True}, id="cordoned"),
            pytest.param({"ready": False}, id="not ready"),
            pytest.param({"taints": ["gpu"]}, id="tainted"),
            pytest.param({"ports": [80]}, id="port in use"),
        ],
    )
    def test_a_closed_node_is_not_used(self, closed: dict[str, object]) -> None:
        group = replace(self.GANG, ports=(80,))
        Scenario("x1=8").gang("a", group).place().expect(placed=["a"])
        scenario = Scenario("x1=8").node("x1", **closed).gang("a", group)  # type: ignore[arg-type]
        scenario.place().expect(placed=[])

    def test_a_toleration_opens_a_tainted_node(self) -> None:
        group = replace(self.GANG, tolerate=("gpu",))
        Scenario("x1=8").node("x1", taints=["gpu"]).gang("a", group).place().expect(placed=["a"])

    def test_a_node_selector_chooses(self) -> None:
        cluster = Scenario("x1=8 x2=8").node("x2", labels={"model": "new"})
        group = replace(self.GANG, select={"model": "new"})
        cluster.gang("a", group).place().expect(nodes={"a": {"x2": 1}})

    def test_picky_gangs_get_the_nodes_they_need(self) -> None:
        # "any" fits both nodes, "new" only x2: "any" must take x1.
        cluster = Scenario("x1=8 x2=8").node("x2", labels={"model": "new"})
        picky = replace(self.GANG, select={"model": "new"})
        scenario = cluster.gang("any", self.GANG).gang("new", picky)
        scenario.place().expect(nodes={"any": {"x1": 1}, "new": {"x2": 1}})

    def test_one_host_port_per_node(self) -> None:
        ports = Group("w", pods=2, gpus=1, ports=(80,))
        Scenario("x1=8").gang("a", ports).place().expect(placed=[])
        Scenario("x1=8 x2=8").gang("a", ports).place().expect(nodes={"a": {"x1": 1, "x2": 1}})

    def test_of_many_host_ports_one_in_use_closes_a_node(self) -> None:
        ports = Group("w", pods=2, gpus=1, ports=tuple(range(80, 90)))
        other = Group("o", pods=1, gpus=1, ports=(85,))
        cluster = Scenario("x1=8 x2=8 x3=8").node("x2", ports=[87])
        cluster.gang("a", ports).place().expect(nodes={"a": {"x1": 1, "x3": 1}})
        cluster.gang("a", ports).gang("b", other).place().expect(nodes={"b": {"x2": 1}})

    def test_ports_that_are_taken_together_are_one_column(self) -> None:
        ports = Group("w", pods=1, gpus=1, ports=tuple(range(80, 90)))
        other = Group("o", pods=1, gpus=1, ports=(85, 99))
        scenario = Scenario("x1=8 x2=8").node("x2", ports=[99])
        scenario = scenario.gang("a", ports).gang("b", other)
        problem = formulate(scenario.snapshot(), Policy())
        named = [name for name in problem.columns if "host port" in name]
        assert named == ["TCP host port 80", "TCP host port 85", "TCP host port 99"]
