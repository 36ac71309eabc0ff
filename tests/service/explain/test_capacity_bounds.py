"""Counts of pods that fit are never too small, and right where they are said to be exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from placement_service.entities.request import CPU, Node, Policy
from placement_service.explain.capacity_bounds import Headroom, Kinds, Needs
from placement_service.explain.node_reasons import NodeRules
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.residual_capacity import ResidualCapacity
from tests.drawing import GPU
from tests.scenario import Group, Scenario

#: GPUs and CPUs, of a pod or free on a node.
Amounts = tuple[int, int]


@st.composite
def groups(draw: st.DrawFn) -> list[Group]:
    """Groups of pods of one or two kinds, of which all or all but one have to run."""
    found = []
    for name in ("v", "w")[: draw(st.sampled_from([2, 2, 1]))]:
        first, *others = (
            Group(
                name,
                pods=draw(st.integers(1, 3)),
                gpus=draw(st.integers(0, 3)),
                cpus=draw(st.integers(1, 3)),
            )
            for _ in range(draw(st.sampled_from([1, 1, 2])))
        )
        total = first.pods + sum(kind.pods for kind in others)
        least = max(1, total - draw(st.integers(0, 1)))
        found.append(replace(first, min=least, others=tuple(others)))
    return found


racks = st.lists(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=3),
    min_size=1,
    max_size=2,
)


def fitting(needs: Needs, nodes: Sequence[Node]) -> int:
    """The most of the missing pods that fit some nodes, by trying all ways."""
    pods: list[tuple[int, Amounts]] = []
    for i, need in enumerate(needs):
        for kind, there in need.kinds:
            asks = kind.template.requests
            pods += [(i, (asks.get(GPU, 0), asks.get(CPU, 0)))] * there

    @cache
    def most(at: int, left: tuple[Amounts, ...], missing: tuple[int, ...]) -> int:
        if at == len(pods):
            return 0
        group, (gpus, cpus) = pods[at]
        best = most(at + 1, left, missing)
        if not missing[group]:
            return best
        fewer = tuple(n - (i == group) for i, n in enumerate(missing))
        for i, (g, c) in enumerate(left):
            if g >= gpus and c >= cpus:
                after = (*left[:i], (g - gpus, c - cpus), *left[i + 1 :])
                best = max(best, 1 + most(at + 1, after, fewer))
        return best

    free = tuple((node.free(GPU), node.free(CPU)) for node in nodes)
    return most(0, free, tuple(need.missing for need in needs))


@given(racks, groups())
def test_no_more_pods_fit_than_are_counted(
    drawn: Sequence[Sequence[Amounts]], several: list[Group]
) -> None:
    drawing: list[str] = []
    cores: dict[str, int] = {}
    for r, inside in enumerate(drawn):
        drawing.append(" ".join(f"n{r}{i}={gpus}" for i, (gpus, _) in enumerate(inside)))
        cores |= {f"n{r}{i}": cpus for i, (_, cpus) in enumerate(inside)}
    scenario = Scenario(" | ".join(drawing)).gang("a", *several)
    for name, cpus in cores.items():
        scenario = scenario.node(name, cpus=cpus)
    snapshot = scenario.snapshot()
    problem = formulate(snapshot, Policy())
    kinds = Kinds(snapshot, problem, NodeRules(snapshot))
    headroom = Headroom(kinds, ResidualCapacity(problem))
    [gang] = problem.gangs
    needs = kinds.needs(gang, range(len(gang.demands)))
    assert sum(need.missing for need in needs) == sum(g.min or 0 for g in several)
    company = frozenset(d.pod_class for d in gang.demands)
    rack_of = [r for r, inside in enumerate(drawn) for _ in inside]
    everywhere = np.zeros(len(rack_of), dtype=np.int64)
    for of, count in ((everywhere, 1), (np.array(rack_of), len(drawn))):
        counted = headroom.most_within(needs, of, count, company).tolist()
        for domain, number in enumerate(counted):
            nodes = [n for n, d in zip(snapshot.nodes, of.tolist(), strict=True) if d == domain]
            fit = fitting(needs, nodes)
            assert number >= fit
            if headroom.exact(needs):
                assert number == fit
            assert headroom.packed(needs, np.flatnonzero(of == domain)) <= fit
