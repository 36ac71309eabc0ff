"""Configurations: what is priced is the best set of parts that fits, and its nodes exist."""

from __future__ import annotations

import random
from itertools import permutations, product

import numpy as np
import pytest

from bench.families.building import RACK, Part, gang, node, resources
from placement_service.bounds.configurations import (
    ConfigurationParameters,
    Configurations,
    configurations,
)
from placement_service.bounds.counting import Counting
from placement_service.entities.request import PodTemplate, Policy, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.one_gang.domain_facts import Topology

#: Cores and GiB of what is free on a node, and of what a pod asks for.
NODES = ((96, 96), (96, 96), (32, 96), (96, 32), (8, 8))
PODS = ((16, 16), (64, 16), (16, 64), (64, 64))


def unlike(rng: random.Random, parameters: ConfigurationParameters) -> Configurations | None:
    """Parts of up to four shapes over three racks of up to four unlike nodes."""
    nodes = [
        node(f"n{r}{i}", {RACK: f"r{r}"}, resources(*rng.choice(NODES), 8, pods=9), {})
        for r in range(3)
        for i in range(rng.randint(1, 4))
    ]
    gangs = [
        gang(
            f"g{i}",
            [
                Part(f"w{k}", PodTemplate(resources(*rng.choice(PODS), 8)), rng.randint(1, 3), True)
                for k in range(2)
            ],
        )
        for i in range(4)
    ]
    problem = formulate(Snapshot(tuple(nodes), tuple(gangs)), Policy())
    return configurations(Counting(Topology(problem)), parameters)


def fit(found: Configurations, domain: int, parts: tuple[int, ...]) -> bool:
    """Whether each unit of some parts can have a node of its own, by trying all ways."""
    units = [
        found.kinds[k].shape for k, n in enumerate(parts) for _ in range(n * found.kinds[k].size)
    ]
    nodes = found.counting.topology.inside(found.level, domain).tolist()
    return len(units) <= len(nodes) and any(
        all(found.accepts[shape, at] for shape, at in zip(units, chosen, strict=True))
        for chosen in permutations(nodes, len(units))
    )


@pytest.mark.parametrize("ways", [4000, 1])
def test_a_price_is_that_of_the_best_parts_that_fit_a_domain_together(ways: int) -> None:
    unlike_domains = 0
    for seed in range(12):
        rng = random.Random(seed)
        found = unlike(rng, ConfigurationParameters(ways=ways))
        if found is None:
            continue
        prices = np.array([rng.randint(0, 9) for _ in found.kinds], dtype=np.int64)
        best, columns = found.price(prices)
        for g, signature in enumerate(found.signatures):
            domain = signature.domains[0]
            room = sum(signature.nodes)
            many = [
                range(min(int(most), room // kind.size) + 1)
                for most, kind in zip(found.most, found.kinds, strict=True)
            ]
            fitting = [
                sum(n * int(p) for n, p in zip(parts, prices, strict=True))
                for parts in product(*many)
                if sum(n * k.size for n, k in zip(parts, found.kinds, strict=True)) <= room
                and fit(found, domain, parts)
            ]
            assert best[g] == columns[g] @ prices
            trimmed = found.trim(signature, columns[g], prices)
            assert fit(found, domain, tuple(trimmed.tolist()))
            if signature.fits:
                assert best[g] == max(fitting)
                assert (trimmed == columns[g]).all()
            else:
                # Where less is told apart a domain may only seem to hold more.
                assert best[g] >= max(fitting)
            unlike_domains += sum(n > 0 for n in signature.nodes) > 1
    assert unlike_domains > 5


def test_units_get_nodes_that_accept_them() -> None:
    for seed in range(12):
        rng = random.Random(seed)
        found = unlike(rng, ConfigurationParameters())
        if found is None:
            continue
        domain = found.signatures[0].domains[0]
        units = np.array([rng.randint(0, 2) for _ in found.accepts], dtype=np.int64)
        nodes = found.nodes_of(domain, units)
        ones = tuple(
            sum(int(n) for s, n in enumerate(units) if found.kinds[k] == (s, 1))
            for k in range(len(found.kinds))
        )
        if nodes is None:
            everything_counted = sum(ones) == units.sum()
            assert not (everything_counted and fit(found, domain, ones))
            continue
        given = [n for mine in nodes.values() for n in mine]
        assert len(set(given)) == len(given) == units.sum()
        assert all(found.accepts[s, n] for s, mine in nodes.items() for n in mine)
