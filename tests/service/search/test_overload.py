"""A week on an overloaded cluster: with `starvation_after` no gang waits for ever."""

from __future__ import annotations

from dataclasses import replace

from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.request import PodGang, Policy
from tests.placed import solve
from tests.scenario import NOW, Scenario

#: Every three hours for a week gangs arrive and all that runs ends.
CYCLE = 3 * 3600
CYCLES = 7 * 24 * 3600 // CYCLE

Arrivals = dict[str, int]


def week(policy: Policy) -> tuple[Arrivals, Arrivals]:
    """When each gang came, and when each ran that did.

    One node of eight GPUs gets a gang of eight in every cycle, and one of one in every
    eighth: more than it can run.
    """
    waiting: list[PodGang] = []
    came: Arrivals = {}
    ran: Arrivals = {}
    for cycle in range(CYCLES):
        now = NOW + cycle * CYCLE
        new = Scenario("x1=8").gang(f"large-{cycle}", pods=1, gpus=8)
        if cycle % 8 == 0:
            new = new.gang(f"small-{cycle}", pods=1, gpus=1)
        came |= {gang.name: cycle for gang in new.gangs}
        waiting += [replace(gang, created=now) for gang in new.gangs]
        snapshot = replace(new.snapshot(), gangs=tuple(waiting), as_of=now)
        bindings = name_pods(snapshot, solve(snapshot, policy)[-1].assignments)
        ran |= {binding.gang: cycle for binding in bindings}
        waiting = [gang for gang in waiting if gang.name not in ran]
    return came, ran


def test_with_patience_that_ends_everyone_who_came_in_the_first_half_has_run() -> None:
    came, ran = week(Policy(starvation_after=4 * CYCLE))
    assert {name for name, cycle in came.items() if cycle < CYCLES // 2} <= ran.keys()


def test_without_it_the_small_ones_never_run() -> None:
    came, ran = week(Policy())
    assert not any("small" in name for name in ran)
    assert any("small" in name for name in came)
