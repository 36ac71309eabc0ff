"""Whether the judge accepts a plan that is given as pods and nodes."""

from __future__ import annotations

from placement_service.judge.verify import verify
from tests.scenario import Scenario


def violations(scenario: Scenario, **pods: str) -> tuple[str, ...]:
    return verify(scenario.snapshot(), scenario.policy, scenario.bind(**pods))


def accepts(scenario: Scenario, **pods: str) -> bool:
    return violations(scenario, **pods) == ()


def refuses(scenario: Scenario, words: str, **pods: str) -> bool:
    """Whether the plan breaks exactly one rule once, and the sentence holds these words."""
    found = violations(scenario, **pods)
    return len(found) == 1 and all(word in found[0] for word in words.split(" & "))


ONE = Scenario("r1: x1=8 x2=8").gang("a", pods=1, gpus=8)
