"""What the tests of the judge's rules ask of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from placement_service.entities.eviction import Eviction
from placement_service.entities.request import Binding
from placement_service.judge.verify import verify
from tests.scenario import Scenario


def violations(
    scenario: Scenario, bindings: Sequence[Binding] = (), evictions: Sequence[Eviction] = ()
) -> tuple[str, ...]:
    return verify(scenario.snapshot(), scenario.policy, bindings, evictions)


def accepts(
    scenario: Scenario, bindings: Sequence[Binding] = (), evictions: Sequence[Eviction] = ()
) -> bool:
    found = violations(scenario, bindings, evictions)
    assert found == ()
    return True


def refuses(
    scenario: Scenario,
    words: str,
    bindings: Sequence[Binding] = (),
    evictions: Sequence[Eviction] = (),
) -> bool:
    """Whether the plan breaks exactly one rule once, and the sentence holds these words."""
    found = violations(scenario, bindings, evictions)
    assert len(found) == 1, found
    missing = [word for word in words.split(" & ") if word not in found[0]]
    assert not missing, (missing, found[0])
    return True
