"""Slots of gangs that must lie in one broader domain come together."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bench.families.building import BLOCK
from bench.instances import Instance
from placement_service.bounds.configurations import Configurations
from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import GangIdx, LevelIdx
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Gang
from placement_service.judge.verify import verify
from placement_service.search.configurations import plan as configuration_plan
from placement_service.search.configurations.plan import Realisation
from placement_service.search.configurations.stage import settle_configurations
from placement_service.search.exchange.slot_exchange import exchange_slots
from placement_service.search.exchange.slots import Group, GroupOf, Slots
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count
from tests.service.search.block_questions import from_nothing

POLICY = Policy(deterministic=True)


class Scattered:
    """Gangs on a small cluster of unlike nodes, each of their groups in any rack with room."""

    def __init__(self, seed: int) -> None:
        params = {"blocks": 3, "gangs": 40, "load": 0.6, "unlike": 0.3}
        problem = formulate(Instance("mix", params, seed).snapshot(), POLICY)
        state = State(problem, to_solution(problem, {}), math.inf, lambda solution: None)
        assert state.configurations is not None
        self.found: Configurations = state.configurations
        realisation = Realisation(self.found)
        block = next(i for i, level in enumerate(problem.levels) if level.key == BLOCK)
        parent = state.counting.topology.parent(self.found.level, LevelIdx(block))
        assert parent is not None
        self.block_of: Sequence[int] = parent.tolist()
        self.slots = Slots({})
        rng = random.Random(seed)
        domains = [d for signature in self.found.signatures for d in signature.domains]
        for gang in problem.pending:
            for pieces in realisation.groups(gang):
                able = [d for d in domains if self.fits(d, [*self.content(d), pieces])]
                if able:
                    one = GroupOf(gang.index, pieces)
                    self.slots.given.setdefault(rng.choice(able), []).append(one)
        self.gangs = {g.index for g in problem.pending for s in g.scopes if s.required == block}

    def content(self, domain: int) -> list[Group]:
        return [one.pieces for one in self.slots.given.get(domain, ())]

    def fits(self, domain: int, groups: Sequence[Group]) -> bool:
        units = np.zeros(len(self.found.accepts), dtype=np.int64)
        for piece in (piece for pieces in groups for piece in pieces):
            kind = self.found.kinds[piece.kind]
            units[kind.shape] += kind.size
        return self.found.nodes_of(domain, units) is not None

    def torn(self) -> set[GangIdx]:
        """Those that must lie in one block and lie in several."""
        blocks: dict[GangIdx, set[int]] = {g: set() for g in self.gangs}
        for domain, groups in self.slots.given.items():
            for one in groups:
                if one.gang in blocks:
                    blocks[one.gang].add(self.block_of[domain])
        return {g for g, mine in blocks.items() if len(mine) > 1}

    def everything(self) -> Counter[tuple[GangIdx, tuple[int, ...]]]:
        return Counter(
            (one.gang, tuple(piece.kind for piece in one.pieces))
            for groups in self.slots.given.values()
            for one in groups
        )

    def exchange(self, *, late: float = math.inf) -> None:
        exchange_slots(self.found, self.slots, self.gangs, self.block_of.__getitem__, late)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_gangs_get_all_their_slots_in_one_place(seed: int) -> None:
    scattered = Scattered(seed)
    before, torn = scattered.everything(), scattered.torn()
    assert len(torn) > 3

    scattered.exchange()

    assert len(scattered.torn()) <= len(torn) / 3
    assert scattered.everything() == before
    assert all(scattered.fits(d, scattered.content(d)) for d in scattered.slots.given)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_gang_comes_to_what_running_pods_hold_of_it(seed: int) -> None:
    scattered = Scattered(seed)
    torn = scattered.torn()
    given = scattered.slots.given
    held = {g: next(d for d, mine in given.items() if any(g == o.gang for o in mine)) for g in torn}
    for gang, domain in held.items():
        at = next(i for i, one in enumerate(given[domain]) if one.gang == gang)
        pieces = [replace(piece, pin=domain) for piece in given[domain][at].pieces]
        given[domain][at] = GroupOf(gang, pieces)
    before = {domain: list(given[domain]) for domain in held.values()}

    scattered.exchange()

    assert len(scattered.torn()) <= len(torn) / 2
    assert {domain: scattered.slots.given[domain] for domain in before} == before


def test_nothing_is_exchanged_when_time_is_up() -> None:
    scattered = Scattered(1)
    before = {d: Counter(map(id, groups)) for d, groups in scattered.slots.given.items()}
    scattered.exchange(late=time.monotonic())
    assert {d: Counter(map(id, g)) for d, g in scattered.slots.given.items()} == before


def test_gangs_that_stay_in_several_places_lose_their_slots() -> None:
    one, other = GroupOf(GangIdx(0), ()), GroupOf(GangIdx(1), ())
    slots = Slots({}, {0: [one, other], 1: [other], 2: [one]})
    for gang in (0, 1):
        slots.drop_torn(GangIdx(gang), lambda domain: domain // 2)
    assert slots.given == {0: [other], 1: [other], 2: []}


def test_a_filling_of_unlike_racks_is_a_plan_also_where_gangs_must_lie_in_a_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshot = Instance("mix", {"blocks": 3, "gangs": 40, "load": 1.3, "unlike": 0.3}, 2).snapshot()

    def settled() -> State:
        state = from_nothing(formulate(snapshot, POLICY))
        count(state)
        settle_configurations(state)
        return state

    places: list[int] = []
    place = Realisation._place

    def watched(self: Realisation, slots: Slots, gangs: list[Gang]) -> Plan:
        blocks = {g.index: set[int]() for g in gangs if self._must(g)}
        for domain, groups in slots.given.items():
            for one in groups:
                if one.gang in blocks:
                    level = self._broad(self.problem.gangs[one.gang])
                    blocks[one.gang].add(self._place_of(level, domain))
        places.extend(len(mine) for mine in blocks.values())
        return place(self, slots, gangs)

    monkeypatch.setattr(Realisation, "_place", watched)
    state = settled()
    bindings = name_pods(snapshot, to_solution(state.problem, state.plan).assignments)
    assert verify(snapshot, POLICY, bindings) == ()
    # Without an exchange some of the gangs that must lie in a block have no room.
    monkeypatch.setattr(configuration_plan, "exchange_slots", lambda *_: None)
    assert settled().worth.values[0] < state.worth.values[0]
    assert set(places) <= {0, 1}
